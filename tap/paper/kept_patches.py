"""A page for each task: an image, a slider over the blocks, and what every method has left of it."""

from __future__ import annotations

import io
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import Markup
from PIL import Image

from tap.config.schema import JobSpec
from tap.engine.device import describe_device, select_device
from tap.method_facts import read_methods
from tap.paper.html import data_uri, embedded, templates_in
from tap.paper.names import names_of_rows
from tap.paper.tables.caption import DATASETS, SMOKE_NOTE
from tap.plan.shown_runs import pictured_path
from tap.provenance.files import atomic_write
from tap.provenance.record import BY_HAND, RECORD_SUFFIX, Stamp, evidence_of_data, record_job
from tap.studies.kept_patches import KeptPatches, kept_patches
from tap.task_facts import TASKS

FOLDER = Path(__file__).with_name("kept_page")


def kept_page_path(scale: str, task: str) -> Path:
    """Where the page of a task lies, relative to the project."""
    return Path("results") / scale / "kept_patches" / f"{task}.html"


def run_kept_patches(specs: Sequence[JobSpec], scale: str, task: str, stamp: Stamp = BY_HAND) -> Path:
    """Looks at the runs of a task and writes the page, one image under the methods of the paper's figure, and a record.

    Args:
        specs: trained runs, all of one rate.
        scale: whose.
        task: which.
        stamp: what the record says of the job.

    Raises:
        UserError: as `tap.studies.kept_patches.kept_patches`, or the page cannot be written.
    """
    started, found = datetime.now(UTC), kept_patches(specs)
    first, packed = specs[0], io.BytesIO()
    np.savez_compressed(packed, **found.pictured.arrays())
    pictured = atomic_write(pictured_path(scale, task), packed.getvalue())
    page = atomic_write(kept_page_path(scale, task), to_html(found, scale, first.data.name))
    record_job(
        page.with_suffix(RECORD_SUFFIX),
        stamp,
        inputs=[*found.read, *evidence_of_data(first)],
        outputs=[page, pictured],
        started=started,
        device=describe_device(select_device(first.device)),
        threads=first.eval.threads,
        bases=(first.data.root,),
    )
    return page


def to_html(found: KeptPatches, scale: str, dataset: str) -> str:
    """The page; it needs no network and no other file.

    Args:
        found: images and what was kept of them.
        scale: whose runs.
        dataset: configured name of the data.
    """
    titles = {name: facts.row.title for name, facts in read_methods().items()} | names_of_rows()
    task = TASKS[found.task].title
    data: dict[str, Any] = {
        "blocks": found.blocks,
        "images": [
            {"number": image.number, "grid": list(image.grid), "source": data_uri(_png(image.pixels), "png")}
            for image in found.images
        ],
        "methods": [
            {
                "title": titles.get(method.method, method.method),
                "run": method.run,
                "merges": method.merges,
                # A character for each patch: a thousand of them are shorter so than as a list of numbers.
                "kept": [
                    {str(layer): "".join("01"[int(bit)] for bit in kept) for layer, kept in image.items()}
                    for image in method.kept
                ],
            }
            for method in found.methods
        ],
    }
    return (
        templates_in(FOLDER)
        .get_template("page.html.j2")
        .render(
            task=task,
            scale=scale,
            data_name=DATASETS.get(dataset, dataset),
            rate=f"{found.keep_rate:g}",
            smoke_note=SMOKE_NOTE if scale == "smoke" else "",
            merges=[method["title"] for method in data["methods"] if method["merges"]],
            blocks=found.blocks,
            style=Markup((FOLDER / "style.css").read_text(encoding="utf-8")),
            script=Markup((FOLDER / "script.js").read_text(encoding="utf-8")),
            data=embedded(data),
        )
    )


def _png(pixels: Any) -> bytes:
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, format="PNG")
    return stream.getvalue()
