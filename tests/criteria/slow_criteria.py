"""The eleven rules once more: one image, Python floats and plain loops, straight from the wording of `tab:criteria`."""

from __future__ import annotations

import math

from tap.criteria.base import ProbeInputs


def keep(name: str, inputs: ProbeInputs, image: int, count: int) -> list[int]:
    """Kept original indices of one image, ascending."""
    tokens, keys = inputs.features[image].double().tolist(), inputs.keys[image].double().tolist()
    family = {"token": tokens, "key": keys}.get(name.split("_")[0])
    if name == "random":
        kept = top(draws(inputs.seed, int(inputs.sample_ids[image]), inputs.layer, len(tokens)), count)
    elif name == "attention_mean":
        kept = top(inputs.mean_attention[image].tolist(), count)
    elif name == "attention_max":
        kept = top(inputs.max_attention[image].tolist(), count)
    elif name.endswith("_l1"):
        kept = top([math.fsum(abs(value) for value in vector) for vector in family], count)
    elif name.endswith("_l2"):
        kept = top([length(vector) for vector in family], count)
    elif name == "coverage":
        kept = farthest_centres(*inputs.grid, count)
    elif name.endswith("_kcenter"):
        kept = k_centre(family, count)
    else:
        kept = remove_redundant(family, count)
    return sorted(kept)


def top(scores: list[float], count: int) -> list[int]:
    """The largest scores; of equal ones the lower indices."""
    return sorted(range(len(scores)), key=lambda index: (-scores[index], index))[:count]


def draws(seed: int, sample: int, layer: int, patches: int) -> list[float]:
    """splitmix64's finaliser over (seed, sample), layer and position, with Python's unbounded integers."""
    mask = 2**64 - 1

    def mix(x: int) -> int:
        x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 & mask
        x = (x ^ (x >> 27)) * 0x94D049BB133111EB & mask
        return x ^ (x >> 31)

    golden = 0x9E3779B97F4A7C15
    state = mix((sample + seed * 0xD1342543DE82EF95) & mask)
    state = mix((state + (layer + 1) * golden) & mask)
    return [(mix((state + (place + 1) * golden) & mask) >> 11) * 2.0**-53 for place in range(patches)]


def length(vector: list[float]) -> float:
    return math.sqrt(math.fsum(value * value for value in vector))


def farthest_centres(rows: int, columns: int, count: int) -> list[int]:
    """Farthest point sampling of centres in the unit square."""
    centres = [((row + 0.5) / rows, (column + 0.5) / columns) for row in range(rows) for column in range(columns)]

    def apart(a: tuple[float, float], b: tuple[float, float]) -> float:
        return round(math.hypot(a[0] - b[0], a[1] - b[1]), 12)

    kept = [min(range(len(centres)), key=lambda index: (apart(centres[index], (0.5, 0.5)), index))]
    while len(kept) < count:
        rest = [index for index in range(len(centres)) if index not in kept]
        distance = {index: min(apart(centres[index], centres[other]) for other in kept) for index in rest}
        kept.append(min(rest, key=lambda index: (-distance[index], index)))
    return kept


def unit(vector: list[float]) -> list[float]:
    return [value / max(length(vector), 1e-6) for value in vector]


def cosine(one: list[float], other: list[float]) -> float:
    """Of unit vectors, to nine digits: copies at another scale differ in the last bits of a float."""
    return round(math.fsum(a * b for a, b in zip(one, other, strict=True)), 9)


def k_centre(vectors: list[list[float]], count: int) -> list[int]:
    """Farthest point sampling by cosine distance, from the candidate nearest to the mean of the unit vectors."""
    units = [unit(vector) for vector in vectors]
    mean = unit([math.fsum(column) / len(units) for column in zip(*units, strict=True)])
    kept = top([cosine(one, mean) for one in units], 1)
    while len(kept) < count:
        rest = [index for index in range(len(units)) if index not in kept]
        distance = {index: min(1 - cosine(units[index], units[other]) for other in kept) for index in rest}
        kept.append(min(rest, key=lambda index: (-distance[index], index)))
    return kept


def remove_redundant(vectors: list[list[float]], count: int) -> list[int]:
    """Parts the closest pair of the current set until `count` are left."""
    units = [unit(vector) for vector in vectors]
    table = [[cosine(one, other) for other in units] for one in units]
    current = list(range(len(vectors)))
    while len(current) > count:
        pairs = [(one, other) for one in current for other in current if one < other]
        one, other = min(pairs, key=lambda pair: (-table[pair[0]][pair[1]], pair))
        mean = {
            member: round(math.fsum(table[member][index] for index in current if index != member) / len(current), 9)
            for member in (one, other)
        }
        current.remove(one if mean[one] > mean[other] else other)
    return current
