"""The scripts of `examples/` run as they stand."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import tap


@pytest.mark.slow
def test_own_images(tmp_path):
    """Two classes, bright and dark, which a few steps tell apart."""
    draw = np.random.default_rng(0)
    for split, number in (("train", 16), ("val", 6)):
        for name, level in (("bright", 180), ("dark", 20)):
            folder = tmp_path / "images" / split / name
            folder.mkdir(parents=True)
            for image in range(number):
                pixels = draw.integers(level, level + 60, (40, 48, 3), dtype=np.uint8)
                Image.fromarray(pixels).save(folder / f"{image}.png")
    command = [sys.executable, "examples/own_images.py", str(tmp_path / "images"), "--out", str(tmp_path / "model")]
    options = ["--model", "vit_tiny_patch16_224", "--image-size", "32", "--epochs", "6", "--batch", "8"]
    done = subprocess.run([*command, *options], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "set_progress was not called" not in done.stderr
    assert float(done.stdout.split()[1]) >= 75.0
    model = tap.from_pretrained(tmp_path / "model")
    assert model(torch.zeros(1, 3, 32, 32)).shape == (1, 2)
    assert "32 training images; top-1" in (tmp_path / "model" / "README.md").read_text()
    assert len(Path("examples/own_images.py").read_text().splitlines()) < 80
