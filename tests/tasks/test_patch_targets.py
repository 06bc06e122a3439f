"""Classes of patches, against plain loops."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tap.tasks.patch_targets import IGNORE, classes_of_boxes, classes_of_label_maps


@settings(deadline=None, max_examples=40)
@given(
    seed=st.integers(0, 10_000),
    size=st.tuples(st.integers(1, 4), st.integers(1, 4)),
    patch=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    classes=st.integers(2, 4),
)
def test_label_maps(seed, size, patch, classes):
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(classes + 1, (2, size[0] * patch[0], size[1] * patch[1]), generator=generator)
    labels = labels.masked_fill(labels == classes, IGNORE).to(torch.uint8)
    found = classes_of_label_maps(labels, size, classes)
    for image in range(2):
        for row in range(size[0]):
            for column in range(size[1]):
                cell = labels[image, row * patch[0] :, column * patch[1] :][: patch[0], : patch[1]].flatten().tolist()
                votes = [cell.count(label) for label in range(classes)]
                expected = votes.index(max(votes)) if max(votes) else IGNORE
                assert found[image, row * size[1] + column] == expected


@settings(deadline=None, max_examples=40)
@given(seed=st.integers(0, 10_000), size=st.tuples(st.integers(1, 4), st.integers(1, 4)), most=st.integers(0, 5))
def test_boxes(seed, size, most):
    generator = torch.Generator().manual_seed(seed)
    patch, background = (4, 6), 3
    counts = torch.randint(most + 1, (3,), generator=generator).tolist()
    extent = torch.tensor([size[1] * 6, size[0] * 4]).repeat(2)
    corners = [torch.rand(count, 2, 2, generator=generator).sort(dim=1).values.flatten(1) for count in counts]
    boxes = [(one * extent).round() for one in corners]
    labels = [torch.randint(3, (count,), generator=generator) for count in counts]
    found = classes_of_boxes(boxes, labels, size, patch, background)
    for image in range(3):
        for row in range(size[0]):
            for column in range(size[1]):
                y, x, best, expected = (row + 0.5) * 4, (column + 0.5) * 6, float("inf"), background
                for (left, top, right, bottom), label in zip(
                    boxes[image].tolist(), labels[image].tolist(), strict=True
                ):
                    area = (right - left) * (bottom - top)
                    if left <= x < right and top <= y < bottom and area < best:
                        best, expected = area, label
                assert found[image, row * size[1] + column] == expected
