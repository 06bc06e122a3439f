"""TAP's forward pass in float64, image by image and patch by patch, from the paper's text (Algs. 1, S1-S3, Eqs. 1-6).

It shares nothing with `tap` but the weights, which it reads from the timm modules. Speed is no aim. Everything is
differentiable where the paper lets gradients pass, so that autograd through it checks the gradients as well.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import torch
from torch import Tensor

StandIn = Callable[[int, int, list[int]], int]
"""(pruning block, removed patch, retained patches) -> retained patch."""
Place = tuple[int, int] | None
"""Patch row and column of a token; None for a class token or register."""


@dataclass
class Rules:
    """What of TAP a test varies.

    Attributes:
        rate: final keep rate.
        layers: pruning blocks, from 1.
        reads: blocks after which the grid is read, from 1.
        scale: a fixed alpha; None is the register's.
        matching: `key`, `token`, `spatial`, `score`, `final`, or a function that names the stand-in.
        zero_fill: removed positions are zeros.
        schedule: proposals of the pruning blocks in patches; None asks the register.
        temperature: None at inference; in training, tau of the straight-through mask (without Gumbel noise).
    """

    rate: float
    layers: tuple[int, ...]
    reads: tuple[int, ...] = ()
    scale: float | None = None
    matching: str | StandIn = "key"
    zero_fill: bool = False
    schedule: tuple[float, ...] | None = None
    temperature: float | None = None


@dataclass
class Expected:
    """What one image's pass gives.

    Attributes:
        kept: patches left after each pruning block that ran, ascending.
        removals: how many patches each of them removed.
        scales: alpha of each of them.
        stand_ins: pi(i) of every removed patch.
        grids: one `(N_1, d)` grid per read block.
        patches: final state of every surviving patch.
        prefix: final state of class token (and of the model's own registers).
        register: final state of the task register.
        pooled: what the head reads.
        margin: how far the closest decision is from another outcome; below about 1e-6 float32 may differ.
    """

    kept: dict[int, list[int]] = field(default_factory=dict)
    removals: dict[int, int] = field(default_factory=dict)
    scales: dict[int, Tensor] = field(default_factory=dict)
    stand_ins: dict[int, int] = field(default_factory=dict)
    grids: list[Tensor] = field(default_factory=list)
    patches: dict[int, Tensor] = field(default_factory=dict)
    prefix: list[Tensor] = field(default_factory=list)
    register: Tensor | None = None
    pooled: Tensor | None = None
    margin: float = math.inf

    def narrow(self, distance: Tensor | float) -> None:
        """Takes note of a decision that `distance` would have turned."""
        self.margin = min(self.margin, float(distance))


def keep_count(patches: int, rate: float) -> int:
    """max(1, floor(rho N + 1/2)), with rho the decimal that was typed."""
    return max(1, math.floor(Decimal(str(rate)) * patches + Decimal("0.5")))


def forward(vit: Any, controller: Any, task: str, image: Tensor, rules: Rules) -> Expected:
    """Alg. S1 for one image `(C, H, W)`."""
    out = Expected()
    patches, width = _embed(vit, image, out)
    total = len(patches)
    final = keep_count(total, rules.rate)
    budget = total - final
    register = controller.registers[task] if budget else None
    removed_at: dict[int, int] = {}
    offsets: dict[int, Tensor] = {}
    keys_at: dict[int, dict[int, Tensor]] = {}
    entered: dict[int, dict[int, Tensor]] = {}

    for layer, block in enumerate(vit.blocks, start=1):
        if layer in rules.layers and budget > 0:
            keys = {i: torch.cat(_heads(block, _norm(block.norm1, x), "k")) for i, x in patches.items()}
            query = torch.cat(_heads(block, _norm(block.norm1, register), "q"))
            head_width = block.attn.head_dim
            scores = {i: (query * key).sum() / math.sqrt(head_width) for i, key in keys.items()}
            count, target = _allocate(controller, register, layer, rules, budget, len(patches), out)
            plain = {i: float(score.detach()) for i, score in scores.items()}
            kept = _select(plain, count, out)
            removed = [i for i in patches if i not in kept]
            alpha = torch.tensor(rules.scale, dtype=torch.float64) if rules.scale is not None else None
            if alpha is None and controller.recovery is not None:
                alpha = torch.sigmoid(controller.recovery.weight[0] @ register + controller.recovery.bias[0])
            out.scales[layer] = alpha
            for i in removed:
                if rules.matching != "final":
                    out.stand_ins[i] = _stand_in(layer, i, kept, keys, patches, plain, width, rules, out)
                    offsets[i] = patches[i] - patches[out.stand_ins[i]]
                removed_at[i] = layer
            keys_at[layer], entered[layer] = keys, patches
            if rules.temperature is not None and target is not None:
                soft = _soft_mask(scores, target, rules.temperature)
                patches = {i: (1.0 - soft[i].detach() + soft[i]) * patches[i] for i in kept}
            else:
                patches = {i: patches[i] for i in kept}
            budget -= count
            out.kept[layer], out.removals[layer] = list(kept), count

        rows = [*out.prefix, *([] if register is None else [register]), *patches.values()]
        places: list[Place] = [None] * (len(rows) - len(patches))
        rows = _block(block, rows, places + [(i // width, i % width) for i in patches], (total // width, width))
        out.prefix = rows[: len(out.prefix)]
        if register is not None:
            register = rows[len(out.prefix)]
        patches = dict(zip(patches, rows[len(rows) - len(patches) :], strict=True))

        if layer in rules.reads:
            grid = []
            for i in range(total):
                if i in patches:
                    grid.append(patches[i])
                elif rules.zero_fill:
                    grid.append(torch.zeros(vit.embed_dim, dtype=torch.float64))
                else:
                    gone = removed_at[i]
                    if rules.matching == "final":
                        end = _most_similar(keys_at[gone][i], {j: keys_at[gone][j] for j in patches}, out)
                        offset = entered[gone][i] - entered[gone][end]
                    else:
                        end, offset = i, offsets[i]
                        while end not in patches:
                            end = out.stand_ins[end]
                    grid.append(patches[end] + out.scales[gone] * offset)
            out.grids.append(torch.stack(grid))

    out.patches, out.register = patches, register
    if vit.global_pool == "token":
        out.pooled = _norm(vit.fc_norm, _norm(vit.norm, out.prefix[0]))
    else:
        out.pooled = _norm(vit.fc_norm, sum(_norm(vit.norm, x) for x in patches.values()) / len(patches))
    return out


def _embed(vit: Any, image: Tensor, out: Expected) -> tuple[dict[int, Tensor], int]:
    """Patches by original index; prefix tokens go to `out`. Also the columns of the grid."""
    side = vit.patch_embed.patch_size[0]
    rows, columns = image.shape[1] // side, image.shape[2] // side
    own = ([vit.cls_token] if vit.cls_token is not None else []) + (
        [vit.reg_token] if vit.reg_token is not None else []
    )
    out.prefix = [row for token in own for row in token[0]]
    positions = vit.pos_embed[0]
    out.prefix = [row + positions[place] for place, row in enumerate(out.prefix)]
    kernel = vit.patch_embed.proj.weight.flatten(1)
    patches = {}
    for y in range(rows):
        for x in range(columns):
            pixels = image[:, y * side : (y + 1) * side, x * side : (x + 1) * side].flatten()
            i = y * columns + x
            patches[i] = kernel @ pixels + vit.patch_embed.proj.bias + positions[len(out.prefix) + i]
    return patches, columns


def _allocate(
    controller: Any, register: Tensor, layer: int, rules: Rules, budget: int, patches: int, out: Expected
) -> tuple[int, Tensor | None]:
    """Integer removals R and continuous target Q of one block (Alg. 1); Q is None where nothing is solved."""
    if layer == rules.layers[-1]:
        return budget, torch.tensor(float(budget), dtype=torch.float64)
    capacity = min(budget, patches - 1)
    if rules.schedule is not None:
        proposal = torch.tensor(float(rules.schedule[rules.layers.index(layer)]), dtype=torch.float64)
    else:
        share = torch.sigmoid(controller.allocation.weight[0] @ register + controller.allocation.bias[0])
        proposal = share * budget
    plain = float(proposal.detach())
    out.narrow(abs(plain % 1 - 0.5))
    count = min(math.floor(plain + 0.5), capacity)
    if plain >= capacity:
        return count, torch.tensor(float(capacity), dtype=torch.float64)
    return count, proposal


def _select(scores: dict[int, float], count: int, out: Expected) -> list[int]:
    """Alg. S2: what stays, in original order."""
    ranked = sorted(scores, key=lambda i: (-scores[i], i))
    stay = len(ranked) - count
    if count:
        last, first = scores[ranked[stay - 1]], scores[ranked[stay]]
        out.narrow((last - first) / (1 + abs(last)))
    return sorted(ranked[:stay])


def _soft_mask(scores: dict[int, Tensor], target: Tensor, temperature: float) -> dict[int, Tensor]:
    """Eq. 4. The threshold is differentiated by one Newton step from the exact solution."""
    z = torch.stack(list(scores.values()))
    fixed = z.detach()
    wanted = len(scores) - target
    low, high = float(fixed.min()) - 60 * temperature, float(fixed.max()) + 60 * temperature
    for _ in range(200):
        middle = (low + high) / 2
        kept = float(torch.sigmoid((fixed - middle) / temperature).sum())
        low, high = (middle, high) if kept > float(wanted.detach()) else (low, middle)
    solved = (low + high) / 2
    slope = torch.sigmoid((fixed - solved) / temperature)
    slope = (slope * (1 - slope)).sum() / temperature
    theta = solved + (torch.sigmoid((z - solved) / temperature).sum() - wanted) / slope
    return dict(zip(scores, torch.sigmoid((z - theta) / temperature), strict=True))


def _stand_in(
    layer: int,
    i: int,
    kept: list[int],
    keys: dict[int, Tensor],
    patches: dict[int, Tensor],
    scores: dict[int, float],
    width: int,
    rules: Rules,
    out: Expected,
) -> int:
    if callable(rules.matching):
        return rules.matching(layer, i, kept)
    if rules.matching == "spatial":
        return min(kept, key=lambda j: ((i // width - j // width) ** 2 + (i % width - j % width) ** 2, j))
    if rules.matching == "score":
        first, *rest = sorted(kept, key=lambda j: (-scores[j], j))
        if rest:
            out.narrow((scores[first] - scores[rest[0]]) / (1 + abs(scores[first])))
        return first
    features = patches if rules.matching == "token" else keys
    return _most_similar(features[i], {j: features[j] for j in kept}, out)


def _most_similar(removed: Tensor, kept: dict[int, Tensor], out: Expected) -> int:
    """Eq. 2 with ties to the smaller index."""

    def unit(x: Tensor) -> Tensor:
        return x.detach() / max(float(x.detach().norm()), 1e-6)

    similarity = {j: float(unit(removed) @ unit(x)) for j, x in kept.items()}
    first, *rest = sorted(similarity, key=lambda j: (-similarity[j], j))
    if rest:
        out.narrow((similarity[first] - similarity[rest[0]]) / 10)  # tap itself calls cosines within 1e-6 equal
    return first


def _block(block: Any, rows: list[Tensor], places: list[Place], size: tuple[int, int]) -> list[Tensor]:
    """One pre-norm transformer block, plain or of a ViTDet trunk (then window by window, or globally, with bias)."""
    side = getattr(block.attn, "side", None)
    tables = getattr(block.attn, "tables", None)
    extent = size if side is None else (side, side)
    if tables is not None:
        tables = [_table(table, 2 * length - 1) for table, length in zip(tables, extent, strict=True)]
    normed = [_norm(block.norm1, row) for row in rows]
    queries, keys, values = ([_heads(block, row, part) for row in normed] for part in "qkv")
    beyond = _beyond(size, side) if side is not None and block.attn.padded else []
    for _ in beyond:
        keys.append(_heads(block, torch.zeros_like(rows[0]), "k"))
        values.append(_heads(block, torch.zeros_like(rows[0]), "v"))
    all_places = places + beyond
    after = []
    for row, query, place in zip(rows, queries, places, strict=True):
        if side is not None and place is None:
            after.append(row)  # the register bypasses windows
            continue
        seen = [k for k, other in enumerate(all_places) if side is None or _window(place, side) == _window(other, side)]
        mixed = []
        for head in range(block.attn.num_heads):
            logits = []
            for k in seen:
                logit = query[head] @ keys[k][head] / math.sqrt(block.attn.head_dim)
                if tables is not None and place is not None and all_places[k] is not None:
                    for axis in (0, 1):
                        distance = place[axis] - all_places[k][axis]
                        logit = logit + query[head] @ tables[axis][distance + extent[axis] - 1]
                logits.append(logit)
            weights = (torch.stack(logits) - max(logits)).exp()
            weights = weights / weights.sum()
            mixed.append(sum(weight * values[k][head] for weight, k in zip(weights, seen, strict=True)))
        out = block.attn.proj.weight @ torch.cat(mixed) + block.attn.proj.bias
        row = row + _layer_scale(block.ls1, out)
        hidden = block.mlp.fc1.weight @ _norm(block.norm2, row) + block.mlp.fc1.bias
        hidden = hidden * 0.5 * (1 + torch.erf(hidden / math.sqrt(2)))
        after.append(row + _layer_scale(block.ls2, block.mlp.fc2.weight @ hidden + block.mlp.fc2.bias))
    return after


def _window(place: Place, side: int) -> Place:
    return None if place is None else (place[0] // side, place[1] // side)


def _beyond(size: tuple[int, int], side: int) -> list[Place]:
    """PatchPositions that complete the windows at the lower and right edge."""
    rows, columns = (math.ceil(length / side) * side for length in size)
    return [(y, x) for y in range(rows) for x in range(columns) if y >= size[0] or x >= size[1]]


def _table(table: Tensor, length: int) -> Tensor:
    """Linear interpolation between entry centres, the ends held."""
    if len(table) == length:
        return table
    entries = []
    for k in range(length):
        position = min(max((k + 0.5) * len(table) / length - 0.5, 0.0), len(table) - 1.0)
        low = min(int(position), len(table) - 2)
        entries.append(table[low] * (1 - position + low) + table[low + 1] * (position - low))
    return torch.stack(entries)


def _heads(block: Any, normed: Tensor, part: str) -> list[Tensor]:
    """Query, key or value of one token, head by head."""
    size, attn = block.attn.num_heads * block.attn.head_dim, block.attn
    start = "qkv".index(part) * size
    whole = attn.qkv.weight[start : start + size] @ normed + attn.qkv.bias[start : start + size]
    heads = [whole[h * attn.head_dim : (h + 1) * attn.head_dim] for h in range(attn.num_heads)]
    norm = {"q": attn.q_norm, "k": attn.k_norm}.get(part)
    return heads if norm is None else [_norm(norm, head) for head in heads]


def _norm(norm: Any, x: Tensor) -> Tensor:
    if isinstance(norm, torch.nn.Identity):
        return x
    centred = x - x.mean()
    return centred / torch.sqrt((centred * centred).mean() + norm.eps) * norm.weight + norm.bias


def _layer_scale(module: Any, x: Tensor) -> Tensor:
    return x if isinstance(module, torch.nn.Identity) else x * module.gamma
