"""Edits of the real code, each with exactly the jobs that it makes stale: no fewer, and no more."""

import fnmatch
import os
import shutil
from pathlib import Path

import pytest

from tap.config import load_scale
from tap.jobs.kinds.probe import ProbeKey
from tap.jobs.registry import JOBS
from tap.plan.profiles import ProfileKey
from tap.provenance import fingerprint
from tap.runs import Run

TREE = Path(__file__).resolve().parents[2] / "tap"
RUNS = {
    "cls": ("dense", "random", "attn_topk", "tap", "tome"),
    "seg": ("mae", "dense", "tap", "dtop"),
    "det": ("dense", "static", "tap"),
}

NOTHING = {
    "string under a constant": (
        "encoder/blocks.py",
        '"""Logit of a key that is not seen: no share in any precision, and no NaN where nothing is seen."""',
        '"""Hidden."""',
    ),
    "comment": ("core/budget.py", "    weights = [", "    # exactly\n    weights = ["),
    "docstring": ("engine/loop.py", '"""One optimizer step on the next batch of `lane`.', '"""A step.'),
    "annotation": (
        "core/budget.py",
        "budget: Tensor, patches: Tensor, last: bool)",
        "budget, patches: object, last: int)",
    ),
    "words of an error": (
        "core/budget.py",
        "patches cannot be pruned; the image",
        "patches are none to prune; an image",
    ),
    "words of a refusal with values": ("engine/loop.py", "nothing was overwritten. Lower", "try to lower"),
    "local": (
        "core/straight_through.py",
        "        scaled = (scores - highest) / tau\n        logit = scaled - _threshold(scaled,",
        "        z = (scores - highest) / tau\n        logit = z - _threshold(z,",
    ),
    "unused function": (
        "core/budget.py",
        "\n\ndef split_by_shares(",
        "\n\ndef unused(n):\n    return -n\n\n\ndef split_by_shares(",
    ),
    "unused constant": ("core/selection.py", "\nimport torch\n", "\nimport torch\n\nX = 1\n"),
    "import that nobody uses yet": (
        "core/temperature.py",
        "from math import cos, pi",
        "from math import cos, pi, sin  # noqa",
    ),
    "layout": (
        "reducers/tap.py",
        "        if layer not in layers:",
        "\n\n        if (layer) not in (layers):",
    ),
}
"""Name: file, old text, new text. Nothing is stale."""

STALE = {
    "average precision": (
        "tasks/detection/average_precision.py",
        "band = SIZES.index(size)",
        "band = 1",
        ("evaluate/det/*", "probe/det", "endpoint/det", "tables", "figures", "audit", "gather"),
    ),
    "mirror of a download": (
        "tasks/classification/fashion.py",
        "githubusercontent.com/zalandoresearch",
        "example.org/z",
        ("data/fashion_mnist",),
    ),
    "method": (
        "reducers/tome.py",
        "return copy_to_positions(tokens, state)",
        "return copy_to_positions(tokens, None)",
        ("*/tome",),
    ),
    "what a method is": ("reducers/tap.py", "METHOD = Method(", "METHOD = Method(taught=True, ", ("*/tap",)),
    "title of a method": ("reducers/tap.py", '"TAP-J (ours)"', '"TAP"', ()),
    "class attribute": (
        "reducers/base.py",
        "calibrated_first: ClassVar[bool] = False",
        "calibrated_first: ClassVar[bool] = True",
        ("train/*", "evaluate/*", "picture/*", "probe/*", "endpoint/*"),
    ),
    "base class": (
        "reducers/attn_topk.py",
        "class AttnTopK(FixedSchedule):",
        "class AttnTopK(Reducer):",
        ("*/attn_topk", "endpoint/*"),
    ),
    "decorator": (
        "reducers/attn_topk.py",
        "@register(METHOD)\n",
        "@register(METHOD)\n@print\n",
        ("*/attn_topk", "endpoint/*"),
    ),
    "registered beside": (
        "reducers/attn_topk.py",
        "@register(METHOD)\n",
        "@print\nclass Other(FixedSchedule): ...\n\n\n@register(METHOD)\n",
        ("*/attn_topk", "endpoint/*"),
    ),
    "sign": ("core/selection.py", "* query.shape[-1] ** -0.5", "* -(query.shape[-1] ** -0.5)", ("*/tap",)),
    "tie rule": (
        "core/selection.py",
        "descending=True, stable=True",
        "descending=True, stable=False",
        ("*/tap", "*/random", "*/attn_topk", "*/static", "probe/*", "endpoint/*"),
    ),
    "constant": ("core/straight_through.py", "BISECTION_STEPS = ", "BISECTION_STEPS = 1 + ", ("*/tap",)),
    "default value": (
        "seeds.py",
        "def derive_seed(*parts: int | str)",
        "def derive_seed(*parts: int | str, salt=1)",
        (
            "train/*",
            "evaluate/*",
            "picture/*",
            "probe/*",
            "endpoint/*",
            "data/microscopy",
            "tables",
            "figures",
            "audit",
        ),
    ),
    "training loop": (
        "engine/loop.py",
        "self.step / max(1, self.total - 1)",
        "self.step / max(1, self.total)",
        ("train/*",),
    ),
    "pre-training": ("tasks/pretraining/mae.py", "import torch\n", "import torch\nprint(torch)\n", ("*/mae",)),
    "score of segmentation": (
        "tasks/segmentation/metrics.py",
        "\n\ndef iou_scores(areas: np.ndarray)",
        "\n\ndef iou_scores(areas: np.ndarray, of=None)",
        ("evaluate/seg/*", "probe/seg", "endpoint/seg"),
    ),
    "loss of segmentation": (
        "tasks/segmentation/task.py",
        "progress: float) -> tuple[Tensor",
        "progress: float = 0) -> tuple[Tensor",
        ("train/seg/*",),
    ),
    "side effect of a module": (
        "tasks/segmentation/mmseg_parts.py",
        'import_quietly("mmseg.models")',
        'import_quietly("mmseg")',
        ("*/seg/*", "*/seg"),
    ),
    "what is the pre-training": (
        "plan/pretraining.py",
        "spec.method == PRETRAINING",
        "spec.method != PRETRAINING",
        ("train/*", "evaluate/*", "picture/*", "probe/*", "endpoint/*"),
    ),
    "what MAE trains": (
        "tasks/pretraining/task.py",
        '{"method": "dense", "rate": 1.0, "model": spec.model.plain}',
        '{"method": "dense", "rate": 0.5, "model": spec.model.plain}',
        ("*/mae",),
    ),
    "who has a teacher": ("plan/teaching.py", "spec.rate < 1.0", "spec.rate < 0.9", ("train/*",)),
    "which model teaches": (
        "plan/teaching.py",
        '"rate": 1.0, "variant": MAIN',
        '"rate": 1.0',
        ("train/*", "endpoint/*"),
    ),
    "who has the common recovery": (
        "plan/endpoints.py",
        'readout == "common"',
        'readout in ("common", "own")',
        ("train/*", "evaluate/*", "picture/*", "probe/seg", "probe/det", "endpoint/*"),
    ),
    "who learns its recovery": (
        "tasks/recovery_endpoint.py",
        'readout != "learned"',
        'readout == "common"',
        ("train/*", "evaluate/seg/*", "evaluate/det/*", "picture/*", "probe/seg", "probe/det", "endpoint/*"),
    ),
    "whose encoder is random": (
        "plan/starts.py",
        "return spec.variant in RANDOM_ENCODERS",
        "return spec.variant not in RANDOM_ENCODERS",
        ("*/seg/*", "*/det/*", "*/seg", "*/det"),
    ),
    "variants with a random encoder": (
        "plan/starts.py",
        "(RANDOM_ENCODER, STARTS[RANDOM_ENCODER])",
        "(RANDOM_ENCODER,)",
        ("*/seg/*", "*/det/*", "*/seg", "*/det"),
    ),
    "who starts from what": ("plan/starts.py", "STARTS.get(run.variant, STARTS[MAIN])", "STARTS[MAIN]", ("train/*",)),
    "title of a task": (
        "task_facts.py",
        '"Segmentation",',
        '"Segments",',
        ("*/seg/*", "*/seg", "tables", "figures", "audit", "gather"),
    ),
    "another task": (
        "task_facts.py",
        "for facts in (CLS, SEG, DET)}",
        "for facts in (CLS, SEG, DET, CLS)}",
        ("tables", "figures", "audit", "gather"),
    ),
    "table": (
        "paper/tables/latex.py",
        "from __future__ import annotations\n",
        "from __future__ import annotations\nprint(1)\n",
        ("tables", "audit", "figures"),
    ),
}
"""Name: file, old text, new text, patterns of the jobs that are stale."""

PROFILED = {
    "throughput, which profiles alone measure": (
        "profiling/throughput.py",
        "\n\ndef alternate(",
        "\n\nprint(1)\n\n\ndef alternate(",
        ("profile/*",),
    ),
    "what a method costs, which profiles alone read": (
        "reducers/tome.py",
        "pairing(given, given.dim / given.heads)",
        "pairing(given, given.dim)",
        ("profile/cls", "profile/seg"),
    ),
}
"""The same of what profiles alone read; the table before leaves them out, since a profile reaches whole models."""


def roots_of_jobs():
    """Where each job of the project starts, by its name."""
    keys = {"tables": ("table", ("tab_cls",)), "figures": ("figure", ("fig_insight",))}
    keys |= {"audit": ("audit", None), "gather": ("gather", "cls")}
    for task, methods in RUNS.items():
        for job in ("train", "evaluate"):
            keys |= {f"{job}/{task}/{method}": (job, Run("smoke", task, method)) for method in methods}
        keys[f"probe/{task}"] = ("probe", ProbeKey(task, "layers"))
        keys[f"profile/{task}"] = ("profile", ProfileKey("cpu", "smoke", task))
    for task in ("seg", "det"):
        keys[f"endpoint/{task}"] = ("endpoint", task)
        keys[f"picture/{task}/tap"] = ("picture", Run("smoke", task, "tap"))
    keys |= {"data/fashion_mnist": ("prepare", "cls"), "data/microscopy": ("prepare", "seg")}
    cfg = load_scale("smoke")
    return {name: list(JOBS[job].roots(cfg, key)) for name, (job, key) in keys.items()}


class Copy:
    """A copy of the package, and the fingerprints of all jobs on it."""

    def __init__(self, folder):
        self.folder, self.roots = folder, roots_of_jobs()
        shutil.copytree(TREE, folder / "tap", ignore=shutil.ignore_patterns("__pycache__"))
        self.before = self.fingerprints()

    def fingerprints(self):
        return {job: fingerprint.code_fingerprint(roots, root=self.folder) for job, roots in self.roots.items()}

    def stale_after(self, name, old, new):
        """Edits a file, says which jobs are stale then, and takes the edit back."""
        path = self.folder / "tap" / name
        text, state = path.read_text(), path.stat()
        assert text.count(old) == 1, f"{name} holds {old!r} {text.count(old)} times"
        path.write_text(text.replace(old, new))
        try:
            return {job for job, now in self.fingerprints().items() if now != self.before[job]}
        finally:
            path.write_text(text)
            os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    return Copy(tmp_path_factory.mktemp("tree"))


@pytest.mark.parametrize("edit", NOTHING.values(), ids=NOTHING)
def test_what_decides_nothing_makes_nothing_stale(copy, edit):
    assert copy.stale_after(*edit) == set()


def matching(jobs, patterns):
    return {job for job in jobs if any(fnmatch.fnmatch(job, pattern) for pattern in patterns)}


@pytest.mark.parametrize("edit", STALE.values(), ids=STALE)
def test_what_decides_something_makes_exactly_its_jobs_stale(copy, edit):
    *change, patterns = edit
    others = copy.roots.keys() - matching(copy.roots, ["profile/*"])
    expected = matching(others, patterns)
    assert bool(expected) == bool(patterns)
    assert copy.stale_after(*change) & others == expected


@pytest.mark.parametrize("edit", PROFILED.values(), ids=PROFILED)
def test_what_profiles_alone_read_makes_only_profiles_stale(copy, edit):
    *change, patterns = edit
    assert copy.stale_after(*change) == matching(copy.roots, patterns) != set()
