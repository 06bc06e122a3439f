"""Small changes of meaning in the code that decides results, each with the run whose replay must find it.

`EQUAL` has those that a replay on this machine cannot tell from the original, with the reason.
"""

from __future__ import annotations

from typing import NamedTuple


class Mutant(NamedTuple):
    """One change: in a file below `tap`, some text that occurs once becomes another; `run` is replayed."""

    name: str
    file: str
    old: str
    new: str
    run: str


MUTANTS = [
    # core
    Mutant(
        "halves round down", "core/budget.py", "up = bounded - whole >= 0.5", "up = bounded - whole > 0.75", "cls/tap"
    ),
    Mutant(
        "share in float32",
        "core/budget.py",
        "torch.sigmoid(share_logit.to(torch.float64)).to(torch.float32)",
        "torch.sigmoid(share_logit)",
        "cls/tap",
    ),
    Mutant("kept count rounds down", "core/budget.py", "* patches + Fraction(1, 2)", "* patches", "seg/tap-odd"),
    Mutant(
        "capacity one less",
        "core/budget.py",
        "minimum(budget, patches - 1)",
        "minimum(budget - 1, patches - 1)",
        "cls/tap-greedy",
    ),
    Mutant(
        "soft target has no cap",
        "core/budget.py",
        "torch.where(proposal < capacity, proposal,",
        "torch.where(proposal < capacity, proposal + 1,",
        "cls/tap",
    ),
    Mutant(
        "earlier layers lose ties",
        "core/budget.py",
        "removals[layer] - quotas[layer])",
        "(removals[layer] - quotas[layer], -layer))",
        "cls/static-even",
    ),
    Mutant("scale of the score", "core/selection.py", "query.shape[-1] ** -0.5", "query.shape[-1] ** -0.4", "cls/tap"),
    Mutant(
        "lowest stay",
        "core/selection.py",
        "argsort(dim=1, descending=True",
        "argsort(dim=1, descending=False",
        "cls/attn_topk",
    ),
    Mutant("one more stays", "core/selection.py", "return rank < (", "return rank <= (", "cls/random"),
    Mutant(
        "bisection stops early",
        "core/straight_through.py",
        "for _ in range(BISECTION_STEPS):",
        "for _ in range(BISECTION_STEPS // 2):",
        "cls/tap",
    ),
    Mutant(
        "sign of a gradient",
        "core/straight_through.py",
        "return grad_scores, -weighted.squeeze(1)",
        "return grad_scores, weighted.squeeze(1)",
        "cls/tap",
    ),
    Mutant(
        "temperature in the gradient",
        "core/straight_through.py",
        "(grads[0] - weighted) / ctx.tau",
        "(grads[0] - weighted)",
        "cls/tap-late",
    ),
    Mutant(
        "temperature falls linearly", "core/temperature.py", "(1.0 + cos(pi * done))", "(2.0 - 2.0 * done)", "cls/tap"
    ),
    Mutant("sign of the noise", "core/noise.py", "return -torch.log(", "return torch.log(", "cls/tap"),
    Mutant(
        "draws of all layers alike", "core/noise.py", "_signed((layer + 1) * _GOLDEN)", "_signed(_GOLDEN)", "cls/random"
    ),
    Mutant(
        "least similar stands in",
        "core/matching.py",
        "similarity.amax(dim=2, keepdim=True) - TIE",
        "similarity.amin(dim=2, keepdim=True)",
        "seg/tap",
    ),
    Mutant(
        "sign of the offset", "core/recovery.py", "return removed - stand_in", "return stand_in - removed", "seg/tap"
    ),
    Mutant(
        "a chain is followed once too little",
        "core/recovery.py",
        "range(links.bit_length())",
        "range(links.bit_length() - 1)",
        "seg/tap",
    ),
    Mutant(
        "readout without its bias",
        "core/register.py",
        "sum(dim=-1) + layer.bias.to(torch.float32)",
        "sum(dim=-1)",
        "cls/tap",
    ),
    # encoder
    Mutant(
        "class attention of the first head",
        "encoder/attention.py",
        "logits.softmax(dim=-1).mean(dim=1)",
        "logits.softmax(dim=-1)[:, 0]",
        "cls/attn_topk",
    ),
    Mutant(
        "attention's residual doubled",
        "encoder/blocks.py",
        "block.ls1(out), tokens, None)",
        "2 * block.ls1(out), tokens, None)",
        "cls/tap",
    ),
    Mutant(
        "scale of folded queries",
        "encoder/relative.py",
        "query * query.shape[-1] ** -0.5",
        "query * query.shape[-1] ** -0.45",
        "det/tap",
    ),
    Mutant(
        "register before the class token",
        "encoder/sparse_vit.py",
        "torch.cat([x[:, :own], extra.to(x.dtype), x[:, own:]], dim=1)",
        "torch.cat([extra.to(x.dtype), x[:, :own], x[:, own:]], dim=1)",
        "cls/tap",
    ),
    Mutant(
        "pools another row",
        "encoder/sparse_vit.py",
        "tokens.layout.prefix_rows(0)",
        "tokens.layout.prefix_rows(-1)",
        "cls/tap",
    ),
    # reducers
    Mutant("no noise", "reducers/tap.py", "perturbed = scores + gumbel_like(scores)", "gumbel_like(scores)", "cls/tap"),
    Mutant(
        "anneals from the end",
        "reducers/tap.py",
        "cosine_temperature(progress, self",
        "cosine_temperature(1.0 - progress, self",
        "cls/tap",
    ),
    Mutant(
        "least similar merge",
        "reducers/merging.py",
        "edge = self.similarity.argsort(dim=1, descending=True",
        "edge = self.similarity.argsort(dim=1, descending=False",
        "cls/tome",
    ),
    Mutant(
        "candidates and targets exchanged",
        "reducers/merging.py",
        "columns[prefix % 2 :: 2], columns[1 - prefix % 2 :: 2]",
        "columns[1 - prefix % 2 :: 2], columns[prefix % 2 :: 2]",
        "cls/tome",
    ),
    Mutant("cost is not squared", "reducers/diffrate.py", "/ unit).square()}", "/ unit).abs()}", "cls/diffrate"),
    Mutant(
        "search ends later",
        "reducers/diffrate.py",
        "self.progress < self.options.search",
        "self.progress <= self.options.search + 0.4",
        "cls/diffrate",
    ),
    Mutant(
        "weight of the first head",
        "reducers/evovit.py",
        "return 1.0 - self.options.class_weight if",
        "return 1.0 + self.options.class_weight if",
        "cls/evovit",
    ),
    Mutant(
        "chooses one block late",
        "reducers/evovit.py",
        "layer + 1 >= self.stages[0]",
        "layer >= self.stages[0]",
        "cls/evovit",
    ),
    Mutant(
        "points drawn off by one", "reducers/ats.py", ".floor() + 1).clamp(min=0)", ".floor()).clamp(min=0)", "cls/ats"
    ),
    Mutant(
        "exits from the start",
        "reducers/dtop.py",
        "self.progress >= self.options.pruned_from",
        "self.progress >= 0.0",
        "seg/dtop-sure",
    ),
    Mutant(
        "gate of the other class",
        "reducers/svit.py",
        "probability = gate[..., 0].exp()",
        "probability = gate[..., 1].exp()",
        "det/svit",
    ),
    Mutant(
        "share by fourths",
        "reducers/svit.py",
        "return self.keep_rate ** (third / 3)",
        "return self.keep_rate ** (third / 4)",
        "det/svit",
    ),
    # engine
    Mutant(
        "learning rate one step ahead",
        "engine/loop.py",
        "rate = self._schedule.set(self.step)",
        "rate = self._schedule.set(self.step + 1)",
        "cls/dense",
    ),
    Mutant(
        "progress never ends",
        "engine/loop.py",
        "self.step / max(1, self.total - 1)",
        "self.step / max(1, self.total)",
        "cls/tap",
    ),
    Mutant(
        "no clipping", "engine/loop.py", "if self._config.optimizer.clip_grad is not None:", "if False:", "cls/dense"
    ),
    Mutant(
        "acts late",
        "engine/loop.py",
        "        loss.backward()",
        "        (loss * (1.5 if progress > 0.95 else 1.0)).backward()",
        "cls/tap-long",
    ),
    Mutant(
        "order of the samples",
        "engine/streams.py",
        'derive_seed(self.seed, "order", epoch)',
        'derive_seed(self.seed, "order", epoch + 1)',
        "cls/dense",
    ),
    Mutant(
        "augmentation of all epochs alike",
        "engine/streams.py",
        'derive_seed(self.seed, "item", epoch, index)',
        'derive_seed(self.seed, "item", 0, index)',
        "cls/tap-long",
    ),
    Mutant("biases decay", "engine/optim.py", "parameter.ndim <= 1 or name.endswith", "name.endswith", "cls/dense"),
    Mutant(
        "threshold from the other side",
        "engine/calibration.py",
        "if beyond(middle) < 0 else",
        "if beyond(middle) > 0 else",
        "cls/ats",
    ),
    Mutant("seed of a draw", "seeds.py", ">> 1", ">> 2", "cls/dense"),
    # tasks
    Mutant(
        "calibration images train",
        "tasks/classification/data.py",
        "rest = np.setdiff1d(np.arange(len(training.labels)), calibration)",
        "rest = np.arange(len(training.labels))",
        "cls/dense",
    ),
    Mutant(
        "score in the wrong direction",
        "tasks/classification/task.py",
        "logits.argmax(dim=1)",
        "logits.argmin(dim=1)",
        "cls/dense",
    ),
    Mutant(
        "rows and columns exchanged",
        "tasks/segmentation/metrics.py",
        "label[known] * classes + prediction[known]",
        "prediction[known] * classes + label[known]",
        "seg/tap",
    ),
    Mutant(
        "a loss term is left out",
        "tasks/detection/task.py",
        "torch.stack([value.sum() for value in losses.values()]).sum()",
        "torch.stack([value.sum() for value in losses.values()][1:]).sum()",
        "det/tap",
    ),
    Mutant("void counts", "tasks/segmentation/metrics.py", "known = label != IGNORE", "known = label >= 0", "seg/tap"),
]

EQUAL = {
    "acts between the replayed steps": (
        Mutant(
            "",
            "engine/loop.py",
            "        loss.backward()",
            "        (loss * (1.5 if 0.3 < progress < 0.45 else 1.0)).backward()",
            "cls/tap-long",
        ),
        "steps 12 to 17 of 40 are not replayed",
    ),
    "negative zero": (
        Mutant("", "core/selection.py", ".masked_fill(ranked == 0, 0.0)", "", "cls/tap"),
        "no score of the replay is -0.0, and this sort takes it for 0.0",
    ),
    "infinite losses": (
        Mutant("", "engine/loop.py", "bad = (~values.isfinite())", "bad = values.isnan()", "cls/dense"),
        "no loss of the replay is infinite",
    ),
    "last of equals stays": (
        Mutant(
            "",
            "core/selection.py",
            "order = ranked.argsort(dim=1, descending=True, stable=True)",
            "order = ranked.shape[1] - 1 - ranked.flip(1).argsort(dim=1, descending=True, stable=True)",
            "cls/tap-ties",
        ),
        "no two scores of the replay are equal",
    ),
    "last of equals stands in": (
        Mutant(
            "",
            "core/matching.py",
            "return tied.to(torch.uint8).argmax(dim=2)",
            "return tied.shape[2] - 1 - tied.to(torch.uint8).flip(2).argmax(dim=2)",
            "seg/tap-black",
        ),
        "no two similarities of the replay are equal",
    ),
    "mean attention by one too many": (
        Mutant(
            "",
            "encoder/attention.py",
            "return total / (query.shape[2] * queries)",
            "return total / (query.shape[2] * (queries + 1))",
            "seg/tome",
        ),
        "scales all scores of an image alike, and only their order is read",
    ),
}
