"""A finished project without any training: every kind of file that the workflow leaves, with its records."""

import json
import os
import shutil
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from tap.config import load_scale
from tap.config.methods import RANDOM_ENCODER
from tap.jobs.registry import JOBS
from tap.jobs.staleness import Today
from tap.paper.audit.job import run_audit
from tap.paper.headline import write_headline
from tap.paper.scores import scores_of
from tap.paper.tables.build import build_table
from tap.paper.tidy import write_tidy
from tap.plan.endpoints import endpoint_path, uses_endpoint
from tap.plan.results import tidy_path
from tap.plan.runs import dense_run, pretraining_run, runs_of_table
from tap.plan.specs import job_spec
from tap.plan.starts import start_run
from tap.provenance.publish import publish, tables_folder
from tap.provenance.record import RECORD_SUFFIX, Stamp, evidence_of_data, record_job, write_record
from tap.provenance.verify import write_verified

REPOSITORY = Path(__file__).resolve().parents[2]
PARAMS = """\
scale: smoke
tasks: [seg]
overrides:
  smoke: {keep_rates: [0.5], tasks.seg.methods: [dense, random, tap]}
"""
NOW = datetime.now(UTC)
FACTS = {"started": NOW, "device": "a processor", "threads": 1}


class Finished:
    """The project as it is after the workflow, made in the current folder."""

    def __init__(self) -> None:
        self.rng = np.random.default_rng(0)
        Path("params.yaml").write_text(PARAMS)
        shutil.copytree(REPOSITORY / "workflow" / "scales", "workflow/scales")
        self.cfg = load_scale("smoke")
        self.data()
        self.runs = runs_of_table(self.cfg, "seg")
        self.train(pretraining_run(self.cfg, "seg"))
        dense = dense_run(self.cfg, "seg", 0)
        for run in (start_run(dense), *(start_run(run) for run in self.runs if run.variant == RANDOM_ENCODER), dense):
            self.train(run)
        self.endpoint(dense)
        for run in self.runs:
            if run != dense:
                self.train(run)
            self.evaluate(run)
        self.tables()

    def write(self, path: Path, content: bytes | None = None) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(self.rng.bytes(200) if content is None else content)
        return path

    def stamp(self, job: str, key) -> Stamp:
        return JOBS[job].stamp(self.cfg, key)

    def data(self) -> None:
        root = Path(self.cfg.tasks["seg"].data.root)
        names = ("manifest.json", "README.md", "images/training/a.png", "annotations/training/a.png")
        files = [self.write(root / name, b"{}\n" if name.endswith(".json") else None) for name in names]
        record_job(root / "record.json", self.stamp("prepare", "seg"), inputs=[], outputs=files, **FACTS)

    def train(self, run) -> None:
        spec = job_spec(self.cfg, run)
        starts = {"scratch": [], "pretrained": [pretraining_run(self.cfg, run.task)], "dense": [start_run(run)]}
        inputs = [source.folder / "model.safetensors" for source in starts[spec.start_from]]
        if uses_endpoint(spec):
            inputs.append(endpoint_path("smoke", "seg"))
        outputs = [self.write(run.folder / name) for name in ("model.safetensors", "log.csv")]
        write_record(run.folder, spec, self.stamp("train", run), inputs, outputs, **FACTS)

    def endpoint(self, dense) -> None:
        path = self.write(endpoint_path("smoke", "seg"), b'{"endpoint": 1.0}\n')
        specs = [spec for run in self.runs if uses_endpoint(spec := job_spec(self.cfg, run))]
        record_job(
            path.with_suffix(RECORD_SUFFIX),
            self.stamp("endpoint", "seg"),
            inputs=[dense.folder / "model.safetensors", *evidence_of_data(specs[0])],
            outputs=[path],
            **FACTS,
        )

    def evaluate(self, run) -> None:
        spec, folder = job_spec(self.cfg, run), run.folder
        hits = 40 + len(run.method) + np.array([-3, 1, -2, 4]) * self.rng.integers(1, 5)  # of 100 pixels of one class
        areas = np.stack([hits, hits, np.full(4, 100)], axis=1)[..., None]
        arrays = {"areas": areas, "sample_id": np.arange(4), "final_tokens": np.full(4, 128)}
        metrics = scores_of("seg", arrays) | {"encoder_speedup": 1.25, "patches": 256}
        outputs = [self.write(folder / "metrics.json", json.dumps(metrics).encode()), folder / "per_sample.npz"]
        np.savez(outputs[1], **arrays)
        inputs = [folder / "model.safetensors", *([endpoint_path("smoke", "seg")] if uses_endpoint(spec) else [])]
        write_record(folder, spec, self.stamp("evaluate", run), inputs, outputs, name="evaluation.json", **FACTS)
        picture = self.write(folder / "picture.png")
        write_record(folder, spec, self.stamp("picture", run), inputs[:1], [picture], name="picture.json", **FACTS)

    def tables(self) -> None:
        tidy = write_tidy("smoke", "seg", tidy_path("smoke", "seg"), stamp=self.stamp("gather", "seg"))
        staleness = Today(self.cfg).staleness
        write_verified(self.cfg, staleness, "seg", [tidy])
        build_table("tab_seg", "smoke", tables_folder("smoke"), stamp=self.stamp("table", ("tab_seg",)))
        write_headline("smoke", ["seg"], stamp=self.stamp("headline", None))
        run_audit("smoke", staleness, stamp=self.stamp("audit", None))
        publish("tab_seg", "smoke")


@pytest.fixture(scope="session")
def finished_once(tmp_path_factory):
    before, folder = os.getcwd(), tmp_path_factory.mktemp("finished")
    os.chdir(folder)
    try:
        Finished()
    finally:
        os.chdir(before)
    return folder


@pytest.fixture
def finished(finished_once, tmp_path, monkeypatch):
    """A finished project of its own, which is the current folder."""
    folder = tmp_path / "project"
    shutil.copytree(finished_once, folder)
    monkeypatch.chdir(folder)
    return folder
