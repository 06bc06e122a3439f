"""How many small changes of meaning a replay finds: `python tests/stress/mutations.py [NAME...]`.

Every mutant of `mutants.py` is a copy of the package with one change. The driver of `tap recertify` replays a small
run with it, as it would with an older or newer commit, and every bit is compared with the replay of the original. One
process per mutant, forked from one that has imported the libraries, so that it takes seconds.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(Path(__file__).parent))

from mutants import EQUAL, MUTANTS, Mutant  # noqa: E402

CHANGES: dict[str, dict] = {
    "cls/tap-greedy": {"controller": {"allocation_bias": 9.0}},
    "cls/tap-late": {"train": {"length": 12}},
    "cls/tap-long": {"train": {"length": 40}},
    "cls/tap-ties": {"data": {"std": [1e9] * 3, "mean": [0.0] * 3}},
    "cls/static-even": {"static_split": [1.0, 1.0, 1.0]},
    "seg/tap-odd": {"rate": 0.35},
    "seg/dtop-sure": {"options": {"dtop": {"threshold": 0.01}}},
    "seg/tap-black": {"data": {"std": [1e9] * 3, "mean": [0.0] * 3}},
}
"""Settings beside those of the smoke scale that bring out what a mutant changes."""


def load(name: str, path: Path):
    """A module from a file, without its package."""
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


driver = load("driver", ROOT / "tap/recertify/driver.py")
TRACE = driver.Trace
compare = load("compare", ROOT / "tap/recertify/compare.py").compare


def import_libraries() -> None:
    """What the package needs, before the forks; nothing of the package itself."""
    import pandas  # noqa: F401
    import torch
    import torchvision  # noqa: F401

    torch.set_num_threads(1)


def settings_of(run: str) -> dict:
    """Settings of a run that needs no other: random weights to begin with, and the endpoint as given."""
    from tap.config import load_scale
    from tap.plan.specs import job_spec
    from tap.runs import Run

    task, method = run.split("-")[0].split("/")
    name = f"{task}/{method}/r{'1.00' if method in ('dense', 'mae') else '0.50'}/main/s0"
    spec = job_spec(load_scale("smoke", root=ROOT), Run.parse("smoke", name)).model_dump(mode="json")
    spec |= {"start_from": "scratch"}
    spec["recovery"]["endpoint"] = 1.0
    for key, value in CHANGES.get(run, {}).items():
        spec[key] = changed(spec[key], value)
    return spec


def changed(settings, changes):
    """Settings with some values replaced, at any depth."""
    if not isinstance(changes, dict):
        return changes
    return {**settings, **{key: changed(settings[key], value) for key, value in changes.items()}}


class Different(Exception):
    """Ends a replay at the first value that is not the expected one."""


def watched(expected: list) -> type:
    """A trace that ends the replay where it differs from another."""

    class Watched(TRACE):
        def add(self, place: str, name: str, value: object) -> None:
            super().add(place, name, value)
            count = len(self.entries)
            if count > len(expected) or list(self.entries[-1]) != expected[count - 1]:
                raise Different(": ".join(self.entries[-1][:2]))

    return Watched


def replay(spec: dict, before: list[dict] | None) -> list[dict]:
    """The driver's answers for a training and the evaluation of its weights.

    Args:
        spec: settings of the run.
        before: those of the original, at whose first difference the replay ends.
    """
    folder = (
        f"results/{spec['scale']}/runs/{spec['task']}/{spec['method']}/r{spec['rate']:.2f}/{spec['variant']}/"
        f"s{spec['seed']}"
    )
    answers = []
    for number, job in enumerate((driver.replay_training, driver.replay_evaluation)):
        if before is not None:
            driver.Trace = watched(before[number]["trace"])
        try:
            answers.append({"trace": job({"spec": spec, "folder": folder}).entries})
        except Exception as error:
            answers.append({"error": f"{type(error).__name__}: {error}"})
            break
    return answers


def in_child(tree: Path, run: str, spec: dict | None = None, before: list[dict] | None = None) -> list[dict] | dict:
    """What a forked process gives that has the package of `tree`: the settings of a run, or its replay."""
    with tempfile.TemporaryDirectory() as scratch:
        answers = Path(scratch) / "answers.json"
        child = os.fork()
        if child == 0:
            code = 1
            try:
                sys.path.insert(0, str(tree))
                os.chdir(scratch)
                os.symlink(ROOT / "data", "data")
                with open("said.txt", "w") as said:
                    os.dup2(said.fileno(), 1)
                    os.dup2(said.fileno(), 2)
                    answers.write_text(json.dumps(settings_of(run) if spec is None else replay(spec, before)))
                code = 0
            finally:
                os._exit(code)
        os.waitpid(child, 0)
        if not answers.is_file():
            raise SystemExit(f"{run} in {tree}: {(Path(scratch) / 'said.txt').read_text()[-2000:]}")
        return json.loads(answers.read_text())


def mutated(mutant: Mutant, folder: Path) -> Path:
    """A copy of the package with the change."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(ROOT / "tap", folder / "tap", ignore=shutil.ignore_patterns("__pycache__"))
    path = folder / "tap" / mutant.file
    text = path.read_text()
    if text.count(mutant.old) != 1:
        raise SystemExit(f"{mutant.file} holds {mutant.old!r} {text.count(mutant.old)} times")
    path.write_text(text.replace(mutant.old, mutant.new))
    return folder


class Originals:
    """Replays of the original code, each made once."""

    def __init__(self) -> None:
        self.known: dict[str, tuple[dict, list[dict]]] = {}

    def of(self, run: str) -> tuple[dict, list[dict]]:
        """Settings and answers of a run."""
        if run not in self.known:
            spec = in_child(ROOT, run)
            self.known[run] = spec, in_child(ROOT, run, spec)
            errors = [answer["error"] for answer in self.known[run][1] if "error" in answer]
            if errors:
                raise SystemExit(f"{run}: the original fails: {errors[0]}")
        return self.known[run]


def difference(mutant: Mutant, originals: Originals, folder: Path) -> str:
    """Where the replay of a mutant first differs from the original; empty if nowhere."""
    spec, before = originals.of(mutant.run)
    now = in_child(mutated(mutant, folder), mutant.run, spec, before)
    for job, old, new in zip(("training", "evaluation"), before, now, strict=False):
        if "error" in new:
            return f"{job}: {new['error'].removeprefix('Different: ')}"
        if not (found := compare(old, new)).equal:
            return f"{job}: {found.difference}"
    return ""


def main(names: list[str]) -> int:
    """Replays the named mutants, or all, and prints the score."""
    import_libraries()
    originals, missed, started = Originals(), [], time.monotonic()
    chosen = [mutant for mutant in MUTANTS if not names or mutant.name in names]
    with tempfile.TemporaryDirectory() as folder:
        for mutant in chosen:
            found = difference(mutant, originals, Path(folder) / "tree")
            print(
                f"{'found ' if found else 'MISSED'} {mutant.name} ({mutant.file}, {mutant.run}): {found[:150]}",
                flush=True,
            )
            missed += [] if found else [mutant.name]
        for name, (mutant, reason) in EQUAL.items():
            if names and name not in names:
                continue
            found = difference(mutant, originals, Path(folder) / "tree")
            print(
                f"{'found ' if found else 'equal '} {name} ({mutant.file}, {mutant.run}): {found or reason}", flush=True
            )
    seconds = time.monotonic() - started
    print(f"{len(chosen) - len(missed)} of {len(chosen)} mutants found in {seconds:.0f} s; missed: {missed or 'none'}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
