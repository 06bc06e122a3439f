"""One image under several methods: what is stored of a pass, and what tasks show of labels and predictions."""

import io

import numpy as np
import pytest
import torch
from tasks.conftest import ade_root, coco_root, det_spec, seg_spec  # noqa: F401  fixtures

from tap.studies.pictured import OfMethod, Pictured, Pointers
from tap.studies.picturing import Picturing, pointers_of
from tap.task_facts import TASKS, TaskFacts
from tap.tasks.base import Sample
from tap.tasks.registry import get_task
from tap.tasks.view import View

CPU = torch.device("cpu")


@pytest.fixture
def seen(request):
    """A task's untrained TAP-J, its validation images, and a pass over the second one."""

    def make(task):
        spec = request.getfixturevalue(f"{task}_spec")(
            model={"read_blocks": (3, 6, 9, 12), "head_channels": 8} if task == "seg" else None
        )
        spec = spec.model_copy(update={"method": "tap", "rate": 0.5})
        pipeline = get_task(spec)
        model, dataset = pipeline.build_model(spec).eval(), pipeline.datasets(spec).validation
        picturing = Picturing(pipeline.facts, spec, dataset)
        with torch.inference_mode():
            output = model.encoder(dataset[1].image[None], torch.tensor([dataset[1].sample_id]), return_trace=True)
        return model, spec, dataset, picturing, output

    return make


def test_pointers_scales_and_offsets_are_those_that_give_the_grid_back(seen):
    """Every removed patch is its chain's end plus alpha times an offset of the stored norm, at the last read point."""
    *_, output = seen("seg")
    found, grid = pointers_of(output), output.grids[-1][0].double().numpy()
    kept = output.trace.kept[9][0].numpy()
    assert np.array_equal(found.removed_at == 0, kept)
    for patch in np.flatnonzero(~kept):
        *passed, end = found.chain_of(patch)
        assert kept[end]
        layers = found.removed_at[passed]
        assert (np.diff(layers) > 0).all(), "a stand-in is removed later"
        alpha = found.scales[list(found.layers).index(layers[0])]
        assert np.linalg.norm(grid[patch] - grid[end]) == pytest.approx(alpha * found.offset[patch], rel=1e-4)
    assert len(found.longest_chain) == max(len(found.chain_of(patch)) for patch in np.flatnonzero(~kept))


def test_the_longest_chain_is_the_first_of_its_length():
    pointers = Pointers(
        np.array([3, 6]), np.array([0.4, 0.5]), np.array([0, 3, 6, 3, 3]), np.array([0, 0, 0, 2, 2]), np.ones(5)
    )
    assert pointers.chain_of(1) == [1, 0]
    assert pointers.longest_chain == [3, 2, 0]
    nothing = Pointers(*(np.empty(0, int),) * 2, np.zeros(2, int), np.arange(2), np.zeros(2))
    assert nothing.longest_chain == []


def test_a_method_that_stores_nothing_has_no_pointers(seen):
    *_, output = seen("cls")
    assert pointers_of(output) is None


@pytest.mark.parametrize("task", ["cls", "seg", "det"])
def test_labels_and_predictions_are_shown(task, seen):
    model, spec, dataset, picturing, output = seen(task)
    sample = dataset[1]
    pixels, truth = picturing.pixels(sample), picturing.truth(sample)
    of = picturing.under(model, spec, sample, output, CPU)
    assert (of.method, of.run) == ("tap", f"{task}/tap/r0.50/main/s0")
    assert np.array_equal(of.kept.ravel(), output.trace.kept[9][0].numpy())
    assert pixels.dtype == truth.picture.dtype == of.says.picture.dtype == np.uint8
    assert len(of.says.boxes) == len(of.says.colours)
    if task == "cls":
        assert truth.words == "Trouser"
        with torch.inference_mode():
            logits = model(sample.image[None], torch.tensor([sample.sample_id]))
        assert of.says.words.endswith(f"({100 * float(logits.softmax(1).max()):.0f} %)")
    if task == "seg":
        labels = sample.target.labels.numpy()
        assert truth.picture.shape[:2] == labels.shape == of.says.picture.shape[:2]
        assert (truth.picture[labels == 255] == 140).all(), "void is grey"
        assert (truth.picture[labels == 0] == 0).all()
        assert pixels.shape == (32, 38, 3), "without the padding"
    if task == "det":
        assert truth.words == "2 objects"  # no crowd
        assert pixels.shape == truth.picture.shape == (27, 32, 3)
        left, top, right, bottom = truth.boxes[0].round().astype(int)
        inside = np.s_[top + 1 : bottom - 1, left + 1 : right - 1]
        assert (truth.picture[inside] != pixels[inside]).any(), "its mask lies on it"


def test_the_image_with_most_to_see_is_chosen_by_its_label_alone(seen):
    _, _, dataset, picturing, _ = seen("det")
    assert picturing.choose([dataset[2], dataset[1], dataset[0]]) == 1  # the last image has no objects
    _, _, dataset, picturing, _ = seen("cls")
    assert picturing.choose([dataset[2], dataset[1]]) == 0


def test_a_task_without_views_shows_its_patches_alone(seen):
    model, spec, dataset, _, output = seen("cls")
    plain = Picturing(TaskFacts("depth", "Depth", "a:B", TASKS["cls"].metrics, ()), spec, dataset)
    sample: Sample = dataset[1]
    assert plain.choose([sample, sample]) == 0
    assert plain.truth(sample) is None
    assert plain.under(model, spec, sample, output, CPU).says is None
    assert plain.pixels(sample).shape == (32, 32, 3)


def test_a_file_holds_all_of_it():
    view = View(np.full((4, 4, 3), 7, np.uint8), np.ones((1, 4)), np.zeros((1, 3)), "1 object")
    methods = tuple(OfMethod(name, f"seg/{name}/r0.50/main/s0", np.eye(2, dtype=bool), view) for name in ("a", "b"))
    pointers = Pointers(np.array([3]), np.array([0.5]), np.array([0, 3]), np.array([0, 0]), np.array([0.0, 2.0]))
    whole = Pictured(3, view.picture, (2, 2), view, methods, pointers)
    bare = Pictured(3, view.picture, (2, 2), None, (), None)
    for one in (whole, bare):
        stream = io.BytesIO()
        np.savez_compressed(stream, **one.arrays())
        stream.seek(0)
        with np.load(stream, allow_pickle=False) as archive:
            again = Pictured.of_arrays(dict(archive))
        assert again.arrays().keys() == one.arrays().keys()
        assert all(np.array_equal(values, again.arrays()[name]) for name, values in one.arrays().items())
    with pytest.raises(KeyError):
        Pictured.of_arrays({"number": np.array(1)})
