"""MAE pre-training: what the encoder sees, what is predicted, and that it learns."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from tap.config.register import ControllerConfig
from tap.config.schema import PretrainConfig
from tap.encoder.weights import load_backbone
from tap.tasks.base import Batch
from tap.tasks.classification.task import Classification
from tap.tasks.pretraining.mae import MaskedAutoencoder
from tap.tasks.pretraining.task import Pretraining

PATCHES = 64
VISIBLE = 16


@pytest.fixture
def spec(cls_spec):
    def make(**changes):
        base = cls_spec(model={"depth": 2} | changes.pop("model", {}))
        pretrain = PretrainConfig(decoder_width=16, decoder_depth=1, decoder_heads=2, train=base.train)
        settings = {"method": "mae", "pretrain": pretrain, "controller": ControllerConfig(layers=(1, 2))}
        return base.model_copy(update=settings | changes)

    return make


@pytest.fixture
def model(spec) -> MaskedAutoencoder:
    return Pretraining(Classification()).build_model(spec()).eval()


@pytest.fixture
def images() -> torch.Tensor:
    return torch.randn(3, 1, 32, 32, generator=torch.Generator().manual_seed(1))


@pytest.fixture
def order() -> torch.Tensor:
    return torch.rand(3, PATCHES, generator=torch.Generator().manual_seed(2)).argsort(dim=1)


def pixels_of(image: torch.Tensor, patch: int) -> torch.Tensor:
    """The (C, 4, 4) pixels of one patch; a view."""
    row, column = patch // 8 * 4, patch % 8 * 4
    return image[:, row : row + 4, column : column + 4]


def encoded(model: MaskedAutoencoder, images: torch.Tensor, order: torch.Tensor) -> torch.Tensor:
    """What leaves the encoder."""
    seen: list[torch.Tensor] = []
    handle = model.embed.register_forward_pre_hook(lambda _module, inputs: seen.append(inputs[0]))
    with torch.no_grad():
        model(images, order)
    handle.remove()
    return seen[0]


def test_only_visible_patches_enter_the_encoder(model, images, order):
    before = encoded(model, images, order)
    assert before.shape == (3, 1 + VISIBLE, 16)
    changed = images.clone()
    for image in range(3):
        for patch in order[image, VISIBLE:].tolist():
            pixels_of(changed[image], patch).add_(100.0)
    assert torch.equal(encoded(model, changed, order), before)
    for place in (0, VISIBLE - 1):
        touched = images.clone()
        pixels_of(touched[0], order[0, place].item()).add_(1.0)
        after = encoded(model, touched, order)
        assert not torch.equal(after[0], before[0])
        assert torch.equal(after[1:], before[1:])


def test_visible_patches_keep_their_position(model, images, order):
    """The encoder sees a set: the order among the visible patches changes nothing but the order of its rows."""
    swapped = order.clone()
    swapped[:, :VISIBLE] = order[:, :VISIBLE].flip(1)
    before, after = encoded(model, images, order), encoded(model, images, swapped)
    torch.testing.assert_close(after[:, 1:].flip(1), before[:, 1:], rtol=1e-5, atol=1e-5)
    with torch.no_grad():
        torch.testing.assert_close(model(images, swapped), model(images, order), rtol=1e-5, atol=1e-5)


def test_targets_against_a_loop(model, images):
    """Pixels row by row with channels last, to zero mean and unit (unbiased) variance within the patch."""
    colour = torch.cat([images, images.flip(2), images.flip(3) * 2], dim=1)
    for batch in (images, colour):
        targets = model.targets(batch)
        for image in range(3):
            for patch in range(PATCHES):
                pixels = pixels_of(batch[image], patch).permute(1, 2, 0).flatten()
                mean = pixels.sum() / len(pixels)
                variance = (pixels - mean).square().sum() / (len(pixels) - 1)
                torch.testing.assert_close(targets[image, patch], (pixels - mean) / (variance + 1e-6).sqrt())


def test_a_flat_patch_has_a_finite_target(model):
    assert not model.targets(torch.full((1, 1, 32, 32), 0.3)).any()


def test_error_of_the_hidden_patches_only(model, images, order):
    """Against the decoder's prediction, patch by patch."""
    predicted: list[torch.Tensor] = []
    handle = model.predict.register_forward_hook(lambda _module, _inputs, out: predicted.append(out))
    with torch.no_grad():
        errors = model(images, order)
    handle.remove()
    hidden = order[:, VISIBLE:]
    assert errors.shape == hidden.shape == (3, PATCHES - VISIBLE)
    targets = model.targets(images)
    for image in range(3):
        for place, patch in enumerate(hidden[image].tolist()):
            expected = (predicted[0][image, place] - targets[image, patch]).square().mean()
            torch.testing.assert_close(errors[image, place], expected)
    recoloured = images.clone()
    for image in range(3):
        for patch in hidden[image].tolist():
            pixels = pixels_of(recoloured[image], patch)
            pixels.copy_(-pixels)
    with torch.no_grad():
        model.predict.register_forward_hook(lambda _module, _inputs, out: predicted.append(out))
        assert not torch.equal(model(recoloured, order), errors)
    assert torch.equal(predicted[1], predicted[0]), "hidden pixels are the target, nothing else"


def test_the_decoder_knows_where_each_patch_is(model, images, order):
    """Hidden patches differ by their position only, and every one of them gets a prediction of its own."""
    assert model.positions.shape == (1, PATCHES, 16)
    assert torch.cdist(model.positions[0], model.positions[0]).add(torch.eye(PATCHES)).min() > 1e-3
    predicted: list[torch.Tensor] = []
    model.predict.register_forward_hook(lambda _module, _inputs, out: predicted.append(out))
    shuffled = order.clone()
    shuffled[:, VISIBLE:] = order[:, VISIBLE:].flip(1)
    with torch.no_grad():
        model(images, order)
        model(images, shuffled)
    torch.testing.assert_close(predicted[1].flip(1), predicted[0], rtol=1e-5, atol=1e-5)
    spread = predicted[0].std(dim=1).mean()
    assert spread > 1e-4


@pytest.mark.parametrize(("ratio", "visible"), [(0.75, 16), (0.5, 32), (0.99, 1)])
def test_mask_ratio(model, images, order, ratio, visible):
    model.mask_ratio = ratio
    assert encoded(model, images, order).shape[1] == 1 + visible
    with torch.no_grad():
        assert model(images, order).shape == (3, PATCHES - visible)


def test_without_a_class_token(spec, images, order):
    model = Pretraining(Classification()).build_model(spec(model={"class_token": False})).eval()
    assert encoded(model, images, order).shape == (3, VISIBLE, 16)


def test_positions_start_as_sine_and_cosine(model):
    """Half of the channels tell the row, half the column, between -1 and 1."""
    grid = model.encoder.vit.pos_embed[0, 1:].view(8, 8, 16)
    same_in_a_column = (grid - grid[:1]).abs().amax(dim=(0, 1)) < 1e-6
    same_in_a_row = (grid - grid[:, :1]).abs().amax(dim=(0, 1)) < 1e-6
    assert torch.equal(same_in_a_row, ~same_in_a_column)
    assert same_in_a_row.sum() == 8
    assert grid.abs().max() <= 1.0


def test_a_seed_makes_the_model(spec):
    task = Pretraining(Classification())
    torch.manual_seed(1)
    one = task.build_model(spec())
    torch.manual_seed(2)
    other = task.build_model(spec())
    for (name, value), again in zip(one.state_dict().items(), other.state_dict().values(), strict=True):
        assert torch.equal(value, again), name
    assert not torch.equal(one.mask_token, task.build_model(spec(seed=1)).mask_token)


def test_loss_draws_a_new_mask_at_every_step(model, images):
    batch = Batch(images, None, torch.arange(3))
    task = Pretraining(Classification())
    orders: list[torch.Tensor] = []
    model.register_forward_pre_hook(lambda _module, inputs: orders.append(inputs[1]))
    torch.manual_seed(0)
    for _ in range(2):
        loss, _ = task.loss(model, batch, 0.0)
        assert loss.shape == ()
    assert not torch.equal(*orders)
    for order in orders:
        assert torch.equal(order.sort(dim=1).values, torch.arange(PATCHES).expand(3, -1))
        assert not torch.equal(order[0], order[1])
    with torch.no_grad():
        torch.testing.assert_close(loss, model(images, orders[-1]).mean())


def test_evaluation_has_one_mask_per_image(spec):
    """Whatever the batch size and the state of torch's generator."""
    task, job = Pretraining(Classification()), spec()
    model = task.build_model(job)
    results = []
    for seed, size in ((0, 4), (1, 9)):
        torch.manual_seed(seed)
        settings = job.model_copy(update={"eval": job.eval.model_copy(update={"batch_size": size})})
        results.append(task.evaluate(model, settings, "calibration", torch.device("cpu")))
    one, other = results
    assert one.per_sample["sample_id"].tolist() == other.per_sample["sample_id"].tolist()
    torch.testing.assert_close(one.per_sample["error"], other.per_sample["error"], rtol=1e-5, atol=1e-6)
    assert one.metrics["reconstruction_error"] == pytest.approx(one.per_sample["error"].mean(), rel=1e-6)
    assert len(one.per_sample["error"]) == 20


def test_the_backbone_moves_on_to_a_classifier(spec, model, tmp_path):
    """What pre-training writes is what the methods start from; the decoder stays behind."""
    from safetensors.torch import save_file

    with torch.no_grad():
        model.encoder.vit.blocks[0].mlp.fc1.weight.add_(1.0)
    save_file(model.state_dict(), tmp_path / "model.safetensors")
    classifier = Classification().build_model(spec(method="dense"))
    load_backbone(classifier.encoder.vit, tmp_path / "model.safetensors")
    for name, value in classifier.encoder.vit.state_dict().items():
        assert torch.equal(value, model.encoder.vit.state_dict()[name]), name


def test_a_few_steps_learn(spec, images):
    task = Pretraining(Classification())
    model = task.build_model(spec()).train()
    smooth = nn.functional.interpolate(images[..., :4, :4], 32, mode="bicubic")
    batch = Batch(smooth, None, torch.arange(3))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    torch.manual_seed(0)
    losses = []
    for _ in range(40):
        loss, _ = task.loss(model, batch, 0.0)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert sum(losses[-5:]) < 0.8 * sum(losses[:5])
