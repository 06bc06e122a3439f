"""What regions keep, against counts in plain loops from the definitions, and images without any region."""

from __future__ import annotations

from collections import Counter

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from tap.tasks.retention import (
    CLASSES,
    SMALL,
    Objects,
    boundary_counts,
    class_counts,
    interior_counts,
    share_of,
    small_counts,
)

VOID, PATCH, SIZE, CLASS_COUNT = 255, 2, (2, 3), 4
LABELS = arrays(np.int64, (2, SIZE[0] * PATCH, SIZE[1] * PATCH), elements=st.sampled_from([0, 1, 2, 3, VOID]))
KEPT = arrays(np.bool_, (2, SIZE[0] * SIZE[1]))


def cells(labels):
    """Labelled pixels of every patch, row by row."""
    return [
        [int(v) for v in labels[r : r + PATCH, c : c + PATCH].flatten() if v != VOID]
        for r in range(0, labels.shape[0], PATCH)
        for c in range(0, labels.shape[1], PATCH)
    ]


@settings(max_examples=60, deadline=None)
@given(LABELS, KEPT)
def test_boundaries_and_classes_are_those_of_the_definitions(labels, kept):
    found = boundary_counts(torch.from_numpy(labels), SIZE, torch.from_numpy(kept))
    classes = class_counts(torch.from_numpy(labels), SIZE, torch.from_numpy(kept), CLASS_COUNT)
    for image in range(2):
        patches = cells(labels[image])
        border = [len(set(values)) > 1 for values in patches]
        assert found[image].tolist() == [sum(b and k for b, k in zip(border, kept[image], strict=True)), sum(border)]
        majority = [min(c for c in set(v) if Counter(v)[c] == max(Counter(v).values())) if v else None for v in patches]
        present = {name for name in majority if name is not None}
        shown = {name for name, k in zip(majority, kept[image], strict=True) if k and name is not None}
        assert classes[image].tolist() == [len(shown), len(present)]


BOX = st.tuples(st.floats(0, 6), st.floats(0, 4), st.floats(0.1, 6), st.floats(0.1, 4), st.floats(1, 40))


@settings(max_examples=60, deadline=None)
@given(st.lists(BOX, max_size=5), KEPT)
def test_boxes_and_small_objects_are_those_of_the_definitions(drawn, kept):
    boxes = np.array([(x, y, x + w, y + h) for x, y, w, h, _ in drawn]).reshape(-1, 4)
    areas = np.array([a for *_, a in drawn])
    objects, mine = [Objects(boxes, areas)] * 2, torch.from_numpy(kept)
    interior = interior_counts(objects, SIZE, (PATCH, PATCH), mine)
    small = small_counts(objects, SIZE, (PATCH, PATCH), mine, side=4.0)
    centres = [((c + 0.5) * PATCH, (r + 0.5) * PATCH) for r in range(SIZE[0]) for c in range(SIZE[1])]
    holds = [[x0 <= x < x1 and y0 <= y < y1 for x, y in centres] for x0, y0, x1, y1 in boxes]
    for image in range(2):
        union = [any(row[p] for row in holds) for p in range(len(centres))]
        assert interior[image].tolist() == [sum(u and k for u, k in zip(union, kept[image], strict=True)), sum(union)]
        eligible = [row for row, area in zip(holds, areas, strict=True) if area < 16 and any(row)]
        covered = [row for row in eligible if any(h and k for h, k in zip(row, kept[image], strict=True))]
        assert small[image].tolist() == [len(covered), len(eligible)]


def test_images_without_boundary_class_box_or_small_object_count_nothing():
    kept = torch.ones(2, 6, dtype=torch.bool)
    labels = torch.zeros(2, 4, 6, dtype=torch.int64)
    labels[1] = VOID
    assert boundary_counts(labels, SIZE, kept).tolist() == [[0, 0], [0, 0]]
    assert class_counts(labels, SIZE, kept, CLASS_COUNT).tolist() == [[1, 1], [0, 0]]
    nothing = [Objects(np.empty((0, 4)), np.empty(0))] * 2
    assert interior_counts(nothing, SIZE, (PATCH, PATCH), kept).tolist() == [[0, 0], [0, 0]]
    assert small_counts(nothing, SIZE, (PATCH, PATCH), kept, 32.0).tolist() == [[0, 0], [0, 0]]


def test_a_split_without_any_has_no_share_and_classes_are_averaged_over_images():
    assert share_of(SMALL, np.zeros((3, 2), dtype=int)) is None
    counts = np.array([[1, 1], [1, 4], [0, 0]])
    assert share_of(CLASSES, counts) == 62.5
    assert share_of(SMALL, counts) == 40.0
