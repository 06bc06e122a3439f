"""A forger at work in a finished project."""

import sys
from pathlib import Path

import pytest

from tap.config import load_scale
from tap.jobs.staleness import Today
from tap.paper.deep.reevaluation import Sample
from tap.paper.deep.verification import verify_deeply
from tap.provenance.verify import verify

sys.path.insert(0, str(Path(__file__).parents[2] / "engine"))  # toy_task
sys.path.insert(0, str(Path(__file__).parents[1]))

from forger import Forger


@pytest.fixture
def forger(finished, monkeypatch):
    """In a finished project, which is the current folder."""
    return Forger(monkeypatch)


@pytest.fixture
def deep():
    """Lines of a deep verification of the current folder, whose weights are no model's.

    Without the one about the root hash: it tells of every record that was sealed anew after the audit.
    """

    def look():
        for path in Path("results").rglob("*.safetensors"):
            path.unlink()
        cfg = load_scale("smoke")
        outcome = verify_deeply(cfg, verify(cfg, Today(cfg).staleness), Sample(0))
        return [line for line in outcome.lines if "audit.json: root_hash: " not in line]

    return look
