"""`tap.create_joint_model`: the paper's counts, one base, and clear refusals."""

import pytest
import torch

import tap
from tap.config.detector import DetectorConfig
from tap.config.register import ControllerConfig
from tap.errors import UserError
from tap.task_facts import TASKS

SMALL = {
    "detector": DetectorConfig(
        pyramid_channels=8, anchor_scale=4, proposal_convs=1, proposals_before_nms=(30, 30), proposals=(20, 20),
        box_samples=8, box_convs=1, box_width=16, mask_convs=1, head_channels=8, detections=10,
    )
}  # fmt: skip
NAME = "vit_tiny_patch16_224"


def small(tasks=None, **changes):
    """ViT-Ti with short sides; detection with a small head."""
    given = {"image_sizes": {"cls": 64, "seg": 96, "det": 128}, "model": {"det": SMALL, "seg": {"head_channels": 16}}}
    return tap.create_joint_model(NAME, tasks or {"cls": 5, "seg": 4, "det": 3}, **given | changes)


@torch.no_grad()
def test_every_task_runs_on_one_base():
    model = small().eval()
    torch.manual_seed(0)
    assert model(torch.randn(2, 3, 64, 64), task="cls").shape == (2, 5)
    assert model(torch.randn(2, 3, 96, 96), task="seg").shape == (2, 4, 96, 96)
    found = model(torch.randn(1, 3, 128, 128), task="det")
    assert len(found) == 1
    assert found[0].bboxes.shape[1] == 4
    weights = {id(model.view(task).encoder.vit.blocks[5].mlp.fc1.weight) for task in TASKS}
    assert len(weights) == 1


def test_vit_b_has_the_papers_counts():
    with torch.device("meta"):
        model = tap.create_joint_model("vit_base_patch16_224.mae", {"cls": 1000, "seg": 150})
    count = model.count("cls")
    assert (count.register, count.low_rank, count.pruning) == (768, 1_179_648, 1_180_416)
    assert count.readouts == 2 * 769
    assert model.count("seg").pruning == 1_180_416


@torch.no_grad()
def test_keep_rate_one_is_the_frozen_dense_model():
    kept, cut = small(keep_rate=1.0).eval(), small().eval()
    images = torch.randn(2, 3, 64, 64)
    vit, head = kept.view("cls").encoder.vit, kept.view("cls").head
    plain = kept.single("cls").encoder.vit
    assert torch.equal(kept(images, task="cls"), head(vit.forward_head(vit.forward_features(images), pre_logits=True)))
    assert torch.equal(vit.forward_features(images), plain.forward_features(images))
    assert not torch.equal(kept(images, task="cls"), cut(images, task="cls"))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"tasks": {"cls": 5}}, "at least two"),
        ({"tasks": {"cls": 5, "depth": 1}}, "'depth' is not known"),
        ({"tasks": {"cls": 5, "seg": 0}}, "num_classes"),
        ({"keep_rate": 1.5}, "rate"),
        ({"rank": 4000}, "rank: 4000 is outside"),
        ({"weights": "nowhere.safetensors"}, "there is no such weights file"),
        ({"controller": ControllerConfig(layers=(3, 13))}, "block 13 does not exist"),
    ],
)
def test_refusals(changes, words):
    with pytest.raises(UserError, match=words):
        small(**changes)
