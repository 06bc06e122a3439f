"""A Vision Transformer with registers that timm's scripts, necks and optimisers handle like one of timm's own."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal, NoReturn, overload

import torch
from timm.models._features import feature_take_indices
from torch import Tensor, nn
from torch.utils._pytree import tree_map

from tap.config.methods import TAP
from tap.core.budget import keep_count
from tap.encoder.sparse_vit import EncoderOutput, SparseEncoder
from tap.encoder.trace import Trace
from tap.encoder.weights import unwrapped
from tap.engine.calibration import find_threshold
from tap.errors import UserError
from tap.hub import read_pretrained, save_pretrained
from tap.task_facts import CLS, TASKS
from tap.tasks.classification.model import Classifier, new_head
from tap.vit_checks import check_images, freeze_what_is_not_called, refuse_torchscript

ANNEAL_STEPS = 10_000
"""Training passes over which a model anneals by itself where nobody says how long the training is."""

_PROGRESSING = (TAP, "evit", "dynamicvit", "cropr", "diffrate", "dtop")
"""Methods that change over a training: TAP's temperature, the warm-ups and phases of the others."""

_TRUNK = "encoder.vit"


class TapVisionTransformer(Classifier):
    """Encoder and linear head with the interface of a timm model.

    In training the temperature follows `set_progress`. A model that is never told counts its training passes in the
    buffer `train_steps`, anneals over `anneal_steps` of them, and says so once.

    Args:
        encoder: sparse encoder without read blocks.
        num_classes: outputs of the head; 0 for pooled features.
        task: task of the register. For `cls` the readouts that only a dense head would call do not take gradients.
        anneal_steps: training passes to anneal over; None takes `ANNEAL_STEPS` with a warning.
    """

    train_steps: Tensor

    def __init__(
        self, encoder: SparseEncoder, num_classes: int, task: str = CLS.name, anneal_steps: int | None = None
    ) -> None:
        super().__init__(encoder, num_classes)
        if anneal_steps is not None and anneal_steps < 1:
            raise UserError(f"anneal_steps: {anneal_steps} is no length; give the training passes to anneal over")
        vit = encoder.vit
        self.task = task
        self.num_classes = num_classes
        self.embed_dim = self.num_features = self.head_hidden_size = vit.embed_dim
        self.in_chans = vit.in_chans
        self.num_prefix_tokens = vit.num_prefix_tokens
        self.feature_info = [{**info, "module": f"{_TRUNK}.{info['module']}"} for info in vit.feature_info]
        own = dict(getattr(vit, "pretrained_cfg", None) or {})
        size = (vit.in_chans, *vit.patch_embed.img_size)
        names = {"classifier": "head", "first_conv": f"{_TRUNK}.patch_embed.proj"}
        self.pretrained_cfg = own | names | {"input_size": size}
        self.default_cfg = self.pretrained_cfg
        self.anneal_steps = anneal_steps
        self.register_buffer("train_steps", torch.zeros((), dtype=torch.int64))
        self._steps = 0  # the buffer's value on the host, which reads it when weights are loaded only
        self._warned: set[str] = set()
        freeze_what_is_not_called(encoder.reducer, TASKS[task].dense)
        self.register_load_state_dict_pre_hook(_adapt_names)
        self.register_load_state_dict_post_hook(_read_steps)

    # What timm's scripts read.

    @property
    def global_pool(self) -> str:
        """How the classifier pools: timm's names."""
        return self.encoder.vit.global_pool

    @property
    def patch_embed(self) -> nn.Module:
        """The patch embedding."""
        return self.encoder.vit.patch_embed

    @property
    def dynamic_img_size(self) -> bool:
        """Whether images of any size fit whose sides are multiples of the patch."""
        return self.encoder.vit.dynamic_img_size

    @property
    def keep_rate(self) -> float:
        """Final keep rate rho."""
        return self.encoder.reducer.keep_rate

    def no_weight_decay(self) -> set[str]:
        """Full names of position embeddings and tokens, which are not decayed (nor are biases, norms and registers)."""
        return {
            f"{prefix}.{name}"
            for prefix, module in self.named_modules()
            if prefix and hasattr(module, "no_weight_decay")
            for name in module.no_weight_decay()
        }

    def group_matcher(self, coarse: bool = False) -> dict[str, Any]:
        """Layers for layer-wise decay: embeddings, the blocks (the final norm with the last one), then all else."""
        own = self.encoder.vit.group_matcher(coarse)
        stem = own["stem"].removeprefix("^")
        blocks = [(pattern.replace("^", rf"^{_TRUNK}\.", 1), group) for pattern, group in own["blocks"]]
        return {"stem": rf"^{_TRUNK}\.(?:{stem})", "blocks": blocks}

    def set_grad_checkpointing(self, enable: bool = True) -> None:
        """Computes activations of blocks again in the backward pass instead of keeping them, on packed rows too.

        Decisions of the method are taken once and kept.
        """
        self.encoder.vit.set_grad_checkpointing(enable)
        for block in self.encoder.vit.blocks:
            block.grad_checkpointing = enable

    def get_classifier(self) -> nn.Module:
        """The head."""
        return self.head

    def reset_classifier(self, num_classes: int, global_pool: str | None = None) -> None:
        """Puts a new head in the place of the old one; 0 classes leave pooled features."""
        self.num_classes = num_classes
        self.encoder.vit.reset_classifier(0, global_pool)
        weight = self.encoder.vit.patch_embed.proj.weight
        self.head = new_head(self.embed_dim, num_classes).to(weight.device, weight.dtype).train(self.training)

    def set_input_size(self, img_size: int | tuple[int, int]) -> None:
        """Makes another image size the model's own; position embeddings are resized."""
        self.encoder.vit.set_input_size(img_size)

    # Progress of the training.

    def set_progress(self, progress: float) -> None:
        """Tells the share of the training that is done, in [0, 1], before every step; anneals the temperature."""
        self.encoder.reducer.set_progress(progress)

    def _count_step(self) -> None:
        """Anneals by the model's own count, where nobody has told the progress."""
        reducer = self.encoder.reducer
        if reducer.progress_is_told or self.keep_rate == 1.0:
            return
        if self.anneal_steps is None and reducer.name in _PROGRESSING:
            self._warn(
                f"set_progress was not called: what '{reducer.name}' anneals over a training follows the first "
                f"{ANNEAL_STEPS} training passes of this model; call model.set_progress(step / steps) before every "
                "step, or give anneal_steps"
            )
        reducer.set_progress(min(1.0, self._steps / (self.anneal_steps or ANNEAL_STEPS)))
        reducer.progress_is_told = False
        self._steps += 1
        self.train_steps.fill_(self._steps)

    def calibrate(self, batches: Iterable[Tensor]) -> float:
        """Finds the threshold of a method whose counts vary, so that the mean count is K; returns that mean.

        Args:
            batches: images `(B, C, H, W)` of the training set, prepared as for evaluation; all of them are kept.

        Raises:
            UserError: the method has no threshold, or there is no image.
        """
        reducer = self.encoder.reducer
        if not reducer.method.calibrated:
            raise UserError(f"calibrate: '{reducer.name}' has no threshold; it keeps what keep_rate says")
        kept = [batch for batch in batches if len(batch)]
        images = sum(len(batch) for batch in kept)
        if not images:
            raise UserError("calibrate: there is no image to find the threshold with; give some of the training set")
        training = self.training
        self.eval()

        def count(threshold: float) -> tuple[float, float]:
            reducer.threshold.fill_(threshold)
            outputs = [self.encoder(batch) for batch in kept]
            found = sum(sum(output.final_counts) for output in outputs)
            patches = (output.size[0] * output.size[1] for output in outputs)
            wanted = sum(len(batch) * keep_count(n, self.keep_rate) for batch, n in zip(kept, patches, strict=True))
            return found / images, wanted / images

        with torch.no_grad():
            threshold, mean, _ = find_threshold(count, *reducer.threshold_range)
            reducer.threshold.fill_(threshold)
        self.train(training)
        return mean

    # The forward pass and its parts.

    @overload
    def forward(
        self, images: Tensor, sample_ids: Tensor | None = None, return_trace: Literal[False] = False
    ) -> Tensor: ...

    @overload
    def forward(
        self, images: Tensor, sample_ids: Tensor | None = None, *, return_trace: Literal[True]
    ) -> tuple[Tensor, Trace]: ...

    # torch.compile leaves the passes as they are: rows differ from batch to batch, and each would be compiled anew.
    @torch.compiler.disable
    def forward(
        self, images: Tensor, sample_ids: Tensor | None = None, return_trace: bool = False
    ) -> Tensor | tuple[Tensor, Trace]:
        """Logits of a batch `(B, num_classes)`, and the decisions if asked for; arguments as `Classifier`."""
        self._check(images)
        if not len(images):
            logits = self.head(images.new_zeros(0, self.embed_dim))
            return (logits, Trace(self._size(images), torch.zeros(0, dtype=torch.int64))) if return_trace else logits
        output = self._encode(images, sample_ids, return_trace)
        logits = self.classify(output)
        return (logits, output.trace) if return_trace else logits

    def classify(self, output: EncoderOutput) -> Tensor:
        """Logits `(B, num_classes)` of what the encoder returned."""
        return self.head(self.encoder.vit.head_drop(self.encoder.pool(output)))

    @torch.compiler.disable
    def forward_features(self, images: Tensor) -> Tensor:
        """Normalised states `(B, P + K, d)`: the model's own prefix tokens and the patches left.

        A batch whose images keep different counts is filled up (`SparseEncoder.features`).
        """
        self._check(images)
        if not len(images):
            return self.forward_features(_one_like(images))[:0]
        return self.encoder.features(self._encode(images))

    def forward_head(self, x: Tensor, pre_logits: bool = False) -> Tensor:
        """Logits of what `forward_features` gave, by the model's pooling; pooled features with `pre_logits`.

        A method with a readout of its own (Evo-ViT's mean of all patches) has it in `forward` only.
        """
        vit = self.encoder.vit
        pooled = vit.head_drop(vit.fc_norm(vit.pool(x)))
        return pooled if pre_logits else self.head(pooled)

    @torch.compiler.disable
    def forward_intermediates(
        self,
        images: Tensor,
        indices: int | Sequence[int] | None = None,
        return_prefix_tokens: bool = False,
        norm: bool = False,
        stop_early: bool = False,
        output_fmt: str = "NCHW",
        intermediates_only: bool = False,
    ) -> Any:
        """Complete grids after some blocks, with removed patches given back (Alg. S3); arguments as in timm.

        Args:
            images: `(B, C, H, W)`.
            indices: blocks from 0; the last n for a number, all for None.
            return_prefix_tokens: pairs each grid with the model's prefix tokens `(B, P, d)`.
            norm: applies the final norm to the grids.
            stop_early: leaves out blocks behind the last one that is read.
            output_fmt: `NCHW` for maps `(B, d, h, w)`, `NLC` for `(B, N_1, d)`.
            intermediates_only: returns the list alone, else the final features and the list.

        Raises:
            UserError: the method has no readout for grids.
        """
        if output_fmt not in ("NCHW", "NLC"):
            raise UserError(f"output_fmt: '{output_fmt}' is not known; choose NCHW or NLC")
        reducer, vit = self.encoder.reducer, self.encoder.vit
        if reducer.method.readout is None:
            raise UserError(
                f"forward_intermediates: '{reducer.name}' gives removed patches no place on a grid; choose a method "
                "of the dense tasks, such as 'tap'"
            )
        self._check(images)
        take, last = feature_take_indices(len(vit.blocks), indices if indices is None else _plain(indices))
        if not len(images):
            one, arguments = _one_like(images), (return_prefix_tokens, norm, stop_early, output_fmt, intermediates_only)
            return tree_map(lambda tensor: tensor[:0], self.forward_intermediates(one, take, *arguments))
        output, read = self._read_grids(images, take, last + 1 if stop_early else len(vit.blocks))
        grids = []
        for index in take:
            grid, prefix = read[index]
            shown = self._shaped(vit.norm(grid) if norm else grid, output.size, output_fmt)
            grids.append((shown, vit.norm(prefix) if norm else prefix) if return_prefix_tokens else shown)
        return grids if intermediates_only else (self.encoder.features(output), grids)

    def prune_intermediate_layers(
        self, indices: int | Sequence[int] = 1, prune_norm: bool = False, prune_head: bool = True
    ) -> list[int]:
        """Drops what the given intermediates do not need, as timm's does; returns the indices that are read."""
        take = self.encoder.vit.prune_intermediate_layers(_plain(indices), prune_norm, prune_head=False)
        if prune_head:
            self.encoder.vit.fc_norm = nn.Identity()
            self.reset_classifier(0, "")
        return take

    def save_pretrained(self, folder: str | Path, **card: Any) -> None:
        """Writes weights, settings and a model card in Hugging Face's folder format; see `tap.hub.save_pretrained`."""
        save_pretrained(self, folder, **card)

    @classmethod
    def from_pretrained(cls, folder: str | Path) -> TapVisionTransformer:
        """The model of a folder that `save_pretrained` wrote, in evaluation mode; see `tap.hub.read_pretrained`."""
        return read_pretrained(folder, cls)

    def _encode(self, images: Tensor, sample_ids: Tensor | None = None, return_trace: bool = False) -> EncoderOutput:
        """The encoder's pass."""
        if self.training:
            self._count_step()
        output = self.encoder(images, sample_ids, return_trace)
        self._check_count(output)
        return output

    def _read_grids(
        self, images: Tensor, take: Sequence[int], depth: int
    ) -> tuple[EncoderOutput, dict[int, tuple[Tensor, Tensor]]]:
        """A pass of `depth` blocks; grid `(B, N_1, d)` and prefix tokens `(B, P, d)` after those in `take`."""
        if self.training:
            self._count_step()
        reducer, vit = self.encoder.reducer, self.encoder.vit
        tokens, state = self.encoder.begin(images, read=True)
        read = {}
        for index, block in enumerate(vit.blocks[:depth]):
            tokens = reducer.run_block(index + 1, block, tokens, state)
            if index in take:
                rows = torch.arange(vit.num_prefix_tokens, device=tokens.x.device) + tokens.layout.starts[:, None]
                read[index] = reducer.read(tokens, state), tokens.x[rows]
        counts = tokens.layout.counts if state.final_counts is None else state.final_counts
        return EncoderOutput(tokens, [], state.grid, None, state.recovery, state.memory, counts), read

    @staticmethod
    def _shaped(grid: Tensor, size: tuple[int, int], output_fmt: str) -> Tensor:
        return grid if output_fmt == "NLC" else grid.transpose(1, 2).unflatten(2, size).contiguous()

    def _size(self, images: Tensor) -> tuple[int, int]:
        down, across = self.encoder.vit.patch_embed.patch_size
        return images.shape[-2] // down, images.shape[-1] // across

    # What is refused, and what is said once.

    def __prepare_scriptable__(self) -> NoReturn:
        """What `torch.jit.script` asks first."""
        refuse_torchscript()

    def _check(self, images: Tensor) -> None:
        check_images(images, self.in_chans, self.encoder.reducer)

    def _check_count(self, output: EncoderOutput) -> None:
        """Says once how many patches a method keeps whose threshold nobody has set."""
        reducer = self.encoder.reducer
        if not reducer.method.calibrated or self.training or self.keep_rate == 1.0 or "threshold" in self._warned:
            return
        if float(reducer.threshold) != float(torch.tensor(float(reducer.options.threshold))):
            return
        patches = output.size[0] * output.size[1]
        mean = sum(output.final_counts) / len(output.final_counts)
        self._warn(
            f"'{reducer.name}' is not calibrated: it keeps {mean:.1f} of {patches} patches on average in this batch, "
            f"where keep_rate {self.keep_rate} means {keep_count(patches, self.keep_rate)}; call "
            "model.calibrate(batches of training images)",
            "threshold",
        )

    def _warn(self, message: str, key: str = "progress") -> None:
        if key not in self._warned:
            self._warned.add(key)
            warnings.warn(message, stacklevel=2)


def _plain(indices: int | Sequence[int]) -> int | list[int]:
    return indices if isinstance(indices, int) else list(indices)


def _one_like(images: Tensor) -> Tensor:
    """One black image of the size of a batch without any."""
    return images.new_zeros(1, *images.shape[1:])


def _adapt_names(model: Any, state: dict[str, Any], prefix: str, *_: Any) -> None:
    """Takes wrappers' prefixes off, and completes weights from before the model counted its training passes."""
    if not prefix:
        plain = unwrapped(state, f"{_TRUNK}.patch_embed.proj.weight")
        if plain is not state:
            state.clear()
            state.update(plain)
    state.setdefault(f"{prefix}train_steps", model.train_steps)


def _read_steps(model: Any, _: Any) -> None:
    if not model.train_steps.is_meta:
        model._steps = int(model.train_steps)
