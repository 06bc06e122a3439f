import torch
from torch import nn

from tap.config.model import ModelConfig
from tap.encoder.sparse_vit import SparseEncoder
from tap.profiling.throughput import dense_model, profile_model
from tap.reducers.base import ReducerSettings
from tap.reducers.build import build_vit
from tap.reducers.registry import get


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        vit = build_vit(ModelConfig(image_size=16, patch_size=4, width=8, depth=2, heads=2))
        self.encoder = SparseEncoder(vit, get("tap")(ReducerSettings(width=8, depth=2, layers=(1,), dense=True)), (2,))
        self.head = nn.Linear(8, 3)
        self.calls = []

    def infer(self, images, sample_ids):
        self.calls.append(self.encoder.reducer.name)
        return self.head(self.encoder(images, sample_ids).grids[0])


def test_the_dense_twin_shares_weights_and_leaves_the_model_alone():
    model = Model().eval()
    twin = dense_model(model)
    assert twin.head is model.head
    assert twin.encoder.vit is model.encoder.vit
    assert twin.encoder.read_blocks == (2,)
    assert (twin.encoder.reducer.name, model.encoder.reducer.name) == ("dense", "tap")


def test_both_sides_of_the_full_model_run_in_turn():
    model = Model().eval()
    result = profile_model(model, torch.randn(2, 3, 16, 16), torch.arange(2), warmup=1, iterations=2, dtype="fp32")
    assert model.calls == ["dense", "tap"] * 3
    assert set(result) == {"full_images_per_second", "full_dense_images_per_second", "full_speedup"}
    assert all(value > 0 for value in result.values())
