"""The ten published methods once more: one image, one token at a time, from the descriptions of what each does.

Nothing here is taken from `tap.reducers`: a sequence is a list of rows, removals are lists of numbers, and only the
layers of the transformer (and learned modules) are called. Blocks are counted from 1.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor


@dataclass
class Image:
    """One image on its way through the encoder.

    Attributes:
        vit: the backbone.
        shape: rows and columns of the patch grid.
        prefix: prefix rows `(P, d)`.
        rows: states of the patches that are here, by the name of each.
        size: patches that each of these stands for.
        holder: name of the row that holds each position.
        waiting: last state of patches that left, for methods that copy them.
        grids: what a dense head reads after each block.
    """

    vit: Any
    shape: tuple[int, int]
    prefix: Tensor
    rows: dict[int, Tensor]
    size: dict[int, float]
    holder: dict[int, int]
    waiting: dict[int, Tensor] = field(default_factory=dict)
    grids: list[Tensor] = field(default_factory=list)

    @classmethod
    def embed(cls, vit: Any, pixels: Tensor, shape: tuple[int, int]) -> Image:
        """The image behind the embedding."""
        x = vit.norm_pre(vit._pos_embed(vit.patch_embed(pixels[None])))[0]
        patches = shape[0] * shape[1]
        first = len(x) - patches
        rows = {patch: x[first + patch] for patch in range(patches)}
        return cls(vit, shape, x[:first], rows, dict.fromkeys(rows, 1.0), {patch: patch for patch in rows})

    @property
    def names(self) -> list[int]:
        """Of the rows that are here, in order."""
        return list(self.rows)

    def attend(self, block: Any, bias: Sequence[float] | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """Attention with its residual; gives weights `(H, S, S)`, keys and values `(H, S, d_h)` of what was there."""
        x = torch.stack([*self.prefix, *self.rows.values()])
        query, key, value = (
            part.unflatten(-1, (block.attn.num_heads, -1)).transpose(0, 1)
            for part in block.attn.qkv(block.norm1(x)).chunk(3, dim=-1)
        )
        logits = query @ key.transpose(1, 2) / math.sqrt(query.shape[-1])
        if bias is not None:
            logits = logits + torch.tensor(bias, dtype=x.dtype)
        weights = logits.softmax(dim=-1)
        out = torch.cat([weights[head] @ value[head] for head in range(len(value))], dim=-1)
        x = x + block.attn.proj(out)
        self._put(x)
        return weights, key, value

    def mlp(self, block: Any) -> None:
        """The feed-forward part, row by row."""
        self._put(torch.stack([x + block.mlp(block.norm2(x)) for x in (*self.prefix, *self.rows.values())]))

    def run(self, block: Any) -> None:
        """A whole block."""
        self.attend(block)
        self.mlp(block)

    def read(self, values: dict[int, Tensor]) -> None:
        """Notes what a dense head gets."""
        self.grids.append(torch.stack([values[patch] for patch in range(self.shape[0] * self.shape[1])]))

    def leave(self, gone: Iterable[int]) -> None:
        """Patches leave and wait as they are."""
        for name in gone:
            self.waiting[name] = self.rows.pop(name)

    def rejoin(self) -> None:
        """All patches are here again, in order."""
        everything = self.waiting | self.rows
        self.rows, self.waiting = {name: everything[name] for name in sorted(everything)}, {}

    def merge(self, into: dict[int, int], order: Sequence[int], by_size: bool = True) -> None:
        """Rows go into others at the mean of all members; what is left stands in a given order."""
        old, sizes = self.rows, self.size
        self.rows, self.size = {}, {}
        for name in order:
            members = [name, *(source for source, target in into.items() if target == name)]
            weight = [sizes[member] if by_size else 1.0 for member in members]
            total = sum(share * old[member] for share, member in zip(weight, members, strict=True))
            self.rows[name] = total / sum(weight)
            self.size[name] = sum(sizes[member] for member in members)
        self.holder = {patch: into.get(name, name) for patch, name in self.holder.items()}

    def _put(self, x: Tensor) -> None:
        first = len(self.prefix)
        self.prefix, self.rows = x[:first], dict(zip(self.rows, x[first:], strict=True))


def best(scores: dict[int, float], count: int) -> list[int]:
    """Names with the largest scores, the first ones of equal scores, in their order."""
    ranked = sorted(scores, key=lambda name: -scores[name])[:count]
    return [name for name in scores if name in ranked]


def cosine(one: Tensor, other: Tensor) -> float:
    return float(one @ other / one.norm() / other.norm())


def class_scores(image: Image, weights: Tensor) -> dict[int, float]:
    """Attention of the class token to each patch, as the mean over heads."""
    first = len(image.prefix)
    return {name: float(weights[:, 0, first + place].mean()) for place, name in enumerate(image.names)}


def evit(image: Image, counts: dict[int, int]) -> None:
    """Keeps by class attention; the rest becomes one token, their sum weighted by score."""
    for layer, block in enumerate(image.vit.blocks, start=1):
        weights, _, _ = image.attend(block)
        if layer in counts:
            scores = class_scores(image, weights)
            kept = best(scores, counts[layer])
            fused = sum(scores[name] * row for name, row in image.rows.items() if name not in kept)
            image.rows = {name: row for name, row in image.rows.items() if name in kept}
            image.rows[1000 + layer] = fused
        image.mlp(block)


def dynamicvit(image: Image, predictors: dict[int, Any], counts: dict[int, int]) -> None:
    """The predictors' likeliest patches stay, before a block."""
    for layer, block in enumerate(image.vit.blocks, start=1):
        if layer in counts:
            predictor = predictors[layer]
            parts = {name: predictor.into(row) for name, row in image.rows.items()}
            half = len(image.prefix[0]) // 2
            mean = sum(part[half:] for part in parts.values()) / len(parts)
            scores = {
                name: float(predictor.out(torch.cat([part[:half], mean])).log_softmax(dim=0)[0])
                for name, part in parts.items()
            }
            kept = best(scores, counts[layer])
            image.rows = {name: row for name, row in image.rows.items() if name in kept}
        image.run(block)


def evovit(image: Image, stages: Sequence[int], count: int, momentum: float) -> None:
    """Slow patches run, fast ones wait; a running sum of class attention over heads chooses at each stage."""
    running: dict[int, float] = {}
    for layer, block in enumerate(image.vit.blocks, start=1):
        if layer in stages:
            image.rejoin()
            kept = best({name: running[name] for name in image.names}, count)
            image.leave([name for name in image.names if name not in kept])
        weights, _, _ = image.attend(block)
        heads = len(weights)
        for name, score in class_scores(image, weights).items():
            old = running.get(name, 0.0)
            running[name] = heads * score if layer < stages[0] else momentum * old + (1 - momentum) * heads * score
        image.mlp(block)
        if layer == len(image.vit.blocks):
            image.rejoin()


def ats(image: Image, blocks: Sequence[int], points: int) -> None:
    """Draws at even points of the distribution of class attention times length of the value."""
    for layer, block in enumerate(image.vit.blocks, start=1):
        weights, _, value = image.attend(block)
        if layer in blocks:
            first = len(image.prefix)
            score = class_scores(image, weights)
            for place, name in enumerate(image.names):
                score[name] *= float(value[:, first + place].flatten().norm())
            total = sum(score.values())
            order = sorted(score, key=lambda name: score[name])
            place, height = {}, 0.0
            for name in order:
                height += score[name] / total
                place[name] = height
            low, high = place[order[0]], place[order[-1]]
            if high > low:
                place = {name: (where - low) / (high - low) for name, where in place.items()}
                start = min(where for where in place.values() if where > 0) if points > 1 else 1.0
                drawn = set()
                for point in range(points):
                    y = start + point * (1 - start) / max(points - 1, 1)
                    drawn.add(min(order, key=lambda name: abs(place[name] - y)))
                image.rows = {name: row for name, row in image.rows.items() if name in drawn}
        image.mlp(block)


def alternate(image: Image, features: dict[int, Tensor], pairs: int | float | None, layer: int = 1) -> None:
    """ToMe's merge: places of the whole sequence in turn; the given number of pairs, or ALGM's rule of the image."""
    first, names = len(image.prefix), image.names
    sources = [name for place, name in enumerate(names) if (place + first) % 2 == 0]
    targets = [name for place, name in enumerate(names) if (place + first) % 2 == 1]
    nearest = {
        name: max(((cosine(features[name], features[other]), -place) for place, other in enumerate(targets)))
        for name in sources
    }
    ranked = sorted(sources, key=lambda name: -nearest[name][0])
    if pairs is None:
        values = [nearest[name][0] for name in sources]
        mean = sum(values) / len(values)
        # A single source has no deviation and stays, as in the public code.
        spread = sum((value - mean) ** 2 for value in values)
        deviation = math.sqrt(spread / (len(values) - 1)) if len(values) > 1 else math.inf
        pairs = sum(value >= mean + deviation / layer for value in values)
    gone = ranked[: int(pairs)]
    into = {name: targets[-nearest[name][1]] for name in gone}
    stay = [name for name in (sources if first else ranked) if name not in gone]
    image.merge(into, [*stay, *targets])


def tome(image: Image, removals: Sequence[int], proportional: bool) -> None:
    """Merges by mean keys in every block; with `proportional`, log(size) counts in attention."""
    for block, pairs in zip(image.vit.blocks, removals, strict=True):
        bias = [0.0] * len(image.prefix) + [math.log(size) for size in image.size.values()]
        _, key, _ = image.attend(block, bias if proportional else None)
        if pairs:
            first = len(image.prefix)
            features = {name: key[:, first + place].mean(dim=0) for place, name in enumerate(image.names)}
            alternate(image, features, pairs)
        image.mlp(block)
        image.read({patch: image.rows[name] for patch, name in image.holder.items()})


def diffrate(image: Image, prune: Sequence[int], merge: Sequence[int], alpha: float) -> None:
    """Prunes by class attention, folds the next ones into their likest; read through stand-ins by key."""
    stand_in: dict[int, int] = {}
    offset: dict[int, Tensor] = {}
    for block, pruned, merged in zip(image.vit.blocks, prune, merge, strict=True):
        bias = [0.0] * len(image.prefix) + [math.log(size) for size in image.size.values()]
        weights, key, _ = image.attend(block, bias)
        if merged < len(image.rows):
            first, scores = len(image.prefix), class_scores(image, weights)
            keys = {name: key[:, first + place].flatten() for place, name in enumerate(image.names)}
            kept, before = best(scores, merged), dict(image.rows)
            tail = [name for name in best(scores, pruned) if name not in kept]
            for name in before:
                if name not in kept:
                    stand_in[name] = max(kept, key=lambda other: cosine(keys[name], keys[other]))
                    offset[name] = before[name] - before[stand_in[name]]
            into = {name: max(kept, key=lambda other: cosine(before[name], before[other])) for name in tail}
            size = dict(image.size)
            image.merge(into, kept, by_size=False)
            image.size = {name: size[name] for name in kept}
            for name, target in into.items():
                image.size[target] += size[name] * cosine(before[name], before[target])
        image.mlp(block)
        image.read(recovered(image, stand_in, offset, alpha))


def recovered(image: Image, stand_in: dict[int, int], offset: dict[int, Tensor], alpha: float) -> dict[int, Tensor]:
    """Every position; a removed one from the survivor at the end of its chain of stand-ins, and its own offset."""

    def survivor(patch: int) -> int:
        return patch if patch in image.rows else survivor(stand_in[patch])

    return {patch: image.rows[survivor(patch)] + alpha * offset.get(patch, 0.0) for patch in image.holder}


def cropr(image: Image, queries: dict[int, Tensor], counts: dict[int, int]) -> None:
    """The sum of products with all queries ranks, after a block; everything is back in the last one."""
    for layer, block in enumerate(image.vit.blocks, start=1):
        if layer == len(image.vit.blocks):
            image.rejoin()
        image.run(block)
        if layer in counts:
            scores = {name: sum(float(query @ row) for query in queries[layer]) for name, row in image.rows.items()}
            kept = best(scores, counts[layer])
            image.leave([name for name in image.names if name not in kept])
        image.read(image.waiting | image.rows)


def algm(image: Image, local: int, further: Sequence[int], threshold: float) -> None:
    """Whole windows merge early, pairs later; both by states, each by a threshold of the image."""
    for layer, block in enumerate(image.vit.blocks, start=1):
        image.attend(block)
        if layer == local:
            likeness, (rows, columns) = {}, image.shape
            for row in range(0, rows - 1, 2):
                for column in range(0, columns - 1, 2):
                    members = tuple((row + down) * columns + column + right for down in (0, 1) for right in (0, 1))
                    pairs = [(a, b) for a in members for b in members if a < b]
                    mean = sum(cosine(image.rows[a], image.rows[b]) for a, b in pairs) / len(pairs)
                    if mean >= threshold:
                        likeness[members] = mean
            windows = sorted(likeness, key=lambda members: -likeness[members])
            into = {member: members[-1] for members in windows for member in members[:-1]}
            merged = [members[-1] for members in windows]
            alone = [name for name in image.names if name not in into and name not in merged]
            image.merge(into, [*merged, *alone])
        elif layer in further:
            alternate(image, dict(image.rows), None, layer)
        image.mlp(block)
        image.read({patch: image.rows[name] for patch, name in image.holder.items()})


def dtop(image: Image, heads: dict[int, Any], threshold: float, kept_per_class: int) -> dict[int, Tensor]:
    """Certain patches exit, but for the most certain of each class; gives the logits with which each went."""
    answers = {}
    for layer, block in enumerate(image.vit.blocks, start=1):
        image.run(block)
        if layer in heads:
            presence, masks = heads[layer](torch.stack(list(image.rows.values()))[None])
            there = presence[0].softmax(dim=-1)[:, 0]
            table = {name: there * masks[0, :, place].sigmoid() for place, name in enumerate(image.names)}
            for label in range(len(there)):
                certain = {
                    name: float(column.max())
                    for name, column in table.items()
                    if float(column.max()) > threshold and int(column.argmax()) == label
                }
                witnesses = best(certain, kept_per_class)
                gone = [name for name in certain if name not in witnesses]
                image.leave(gone)
                answers |= {name: (table[name] / table[name].sum()).log() for name in gone}
        image.read(image.waiting | image.rows)
    return answers


def svit(image: Image, gates: dict[int, Any], threshold: float) -> list[int]:
    """Patches whose gate says so run through a block, the others stay as they are; how many went through each."""
    counts = []
    for layer, block in enumerate(image.vit.blocks, start=1):
        if layer in gates:
            through = {name: float(gates[layer](row).softmax(dim=-1)[0]) for name, row in image.rows.items()}
            likeliest = best(through, 1)
            past = [name for name, share in through.items() if not share > 1 - threshold]
            past = past if len(past) < len(through) else [name for name in past if name not in likeliest]
            image.leave(past)
            counts.append(len(image.rows))
        image.run(block)
        image.rejoin()
        image.read(image.rows)
    return counts
