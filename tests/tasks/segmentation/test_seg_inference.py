import pytest
import torch
import torch.nn.functional as F

from tap.config.measuring import EvalConfig
from tap.config.model import ModelConfig
from tap.tasks.segmentation.data import Target
from tap.tasks.segmentation.inference import inference_settings, predict, windows
from tap.tasks.segmentation.task import Segmentation


@pytest.fixture
def build(seg_spec):
    def make(method="tap", rate=0.5, **evaluation):
        spec = seg_spec(model={"read_blocks": (3, 6, 9, 12), "head_channels": 8}, evaluation=evaluation)
        return Segmentation().build_model(spec.model_copy(update={"method": method, "rate": rate})).eval()

    return make


def metas(count=1, size=(32, 32)):
    return [{"ori_shape": size, "img_shape": size, "sample_id": number} for number in range(count)]


def whole(height, width):
    return Target(torch.zeros(height, width, dtype=torch.uint8), (height, width))


def test_windows_have_the_size_of_a_crop():
    model = ModelConfig(image_size=512, patch_size=16)
    assert inference_settings(EvalConfig(batch_size=1), model) == {"mode": "whole"}
    settings = inference_settings(EvalConfig(batch_size=1, inference="slide"), model)
    assert settings == {"mode": "slide", "crop_size": (512, 512), "stride": (341, 341)}
    settings = inference_settings(EvalConfig(batch_size=1, inference="slide", stride=256), model)
    assert settings["stride"] == (256, 256)


def test_sliding_over_one_window_equals_the_whole_image(build):
    images = torch.randn(2, 3, 32, 32)
    sliding = build(inference="slide").inference(images, metas(2))
    torch.testing.assert_close(sliding, build().inference(images, metas(2)), rtol=0, atol=0)


def test_overlapping_windows_are_averaged(build):
    images = torch.randn(1, 3, 32, 56)
    model = build(inference="slide", stride=16)
    seen = metas(1, (32, 56))
    logits = model.inference(images, seen)
    total, count = torch.zeros_like(logits), torch.zeros(56)
    for left in (0, 16, 24):  # the last window ends with the image
        total[..., left : left + 32] += model.infer(images[..., left : left + 32], torch.zeros(1, dtype=torch.int64))
        count[left : left + 32] += 1
    torch.testing.assert_close(logits, total / count)
    assert seen[0]["final_tokens"] == [8, 8, 8]


@pytest.mark.parametrize(("size", "stride"), [((32, 32), None), ((32, 56), 16), ((40, 75), None), ((64, 48), 32)])
def test_windows_are_those_that_inference_gives_to_the_encoder(build, monkeypatch, size, stride):
    """A threshold is calibrated on them."""
    images, seen = torch.randn(1, 3, *size), []
    model = build(inference="slide", stride=stride)

    def noting(inputs, metas):
        seen.append(inputs)
        return torch.zeros(1, 4, *inputs.shape[-2:])

    monkeypatch.setattr(model, "encode_decode", noting)
    model.inference(images, metas(1, size))
    found = windows(images, model.test_cfg)
    assert len(found) == len(seen)
    assert all(torch.equal(one, other) for one, other in zip(found, seen, strict=True))
    assert windows(images, {"mode": "whole"}) == [images]


def test_sides_that_are_no_multiple_of_the_patch_are_padded_with_the_mean_colour(build):
    model = build()
    image = torch.randn(1, 3, 27, 45)
    logits = model.infer(image)
    assert logits.shape == (1, 4, 27, 45)
    torch.testing.assert_close(logits, model.infer(F.pad(image, (0, 3, 0, 5)))[..., :27, :45], rtol=0, atol=0)


@pytest.mark.parametrize("inference", ["whole", "slide"])
def test_an_image_smaller_than_a_patch_or_crop_is_predicted(build, inference):
    predictions = predict(build(inference=inference), torch.randn(1, 3, 5, 20), torch.arange(1), [whole(5, 20)])
    assert predictions[0].labels.shape == (5, 20)


@pytest.mark.parametrize(("method", "rate"), [("dense", 1.0), ("tap", 0.5), ("random", 0.5), ("attn_topk", 0.3)])
def test_a_prediction_does_not_depend_on_the_batch(build, method, rate):
    model = build(method, rate)
    torch.manual_seed(0)
    images, ids = torch.randn(3, 3, 32, 40), torch.tensor([5, 9, 2])
    together = predict(model, images, ids, [whole(32, 40)] * 3)
    for number in range(3):
        alone = predict(model, images[number : number + 1], ids[number : number + 1], [whole(32, 40)])[0]
        # Another batch size rounds matrix products differently, so that a near tie may flip.
        assert (together[number].labels == alone.labels).float().mean() > 0.99
        assert together[number].final_tokens == alone.final_tokens


def test_padding_is_cut_off_and_the_rest_is_brought_to_the_size_of_the_labels(build):
    model = build()
    images = torch.randn(1, 3, 32, 40)
    target = Target(torch.zeros(64, 76, dtype=torch.uint8), (32, 38))
    prediction = predict(model, images, torch.arange(1), [target])[0].labels
    logits = model.infer(images)[..., :38]
    expected = F.interpolate(logits, (64, 76), mode="bilinear", align_corners=False).argmax(dim=1)[0]
    assert torch.equal(prediction, expected)
