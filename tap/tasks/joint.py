"""One frozen backbone under several tasks (TAP-F; Sec. TAP-J and TAP-F ownership, tab:ownership).

A joint model holds one *view* per task: the whole model of that task, as its pipeline builds it. The views' backbones
hold the same frozen tensors, their controllers the same two readouts, each once; register, low-rank updates, head, and
whatever a trunk has that the shared base lacks are the view's own. So a pass of a task runs that task's view, switching
the task moves nothing, and a step of one task can give the modules of the others no gradient.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from torch import Tensor, nn

from tap.encoder.low_rank import adapted, is_low_rank, merge_low_rank
from tap.errors import UserError

Ownership = Literal["own", "shared"]

_VIT, _CONTROLLER = "encoder.vit.", "encoder.reducer.controller."
_READOUTS = ("allocation", "recovery")


@dataclass(frozen=True)
class JointParameters:
    """What a task adds to the frozen base, counted from the built modules (tab:parameters).

    Attributes:
        register: the task's initial register.
        low_rank: its low-rank updates.
        trunk: what its trunk has and the base lacks (relative-position tables, positions of another grid).
        head: everything behind the encoder.
        readouts: allocation and recovery readouts, which all tasks share and which are charged to none.
    """

    register: int
    low_rank: int
    trunk: int
    head: int
    readouts: int

    @property
    def pruning(self) -> int:
        """The pruning-specific add-on of a task: register and low-rank updates."""
        return self.register + self.low_rank


class JointModel(nn.Module):
    """The views of all tasks on one base.

    Args:
        views: model of every task as its pipeline builds it, with low-rank updates on its backbone and the pre-trained
            weights loaded. They are changed in place.
        base: names and shapes of the tensors that make the base, as the pre-trained file has them; a tensor of a view
            with another name or shape is that task's own. None takes the first view's backbone.
        register: whether each task has a register of its own, or all have one (tab:factorial).
        adapters: whether each task has low-rank updates of its own, or all have one set (tab:factorial).

    Raises:
        UserError: a single task; a view without low-rank updates; backbones of other sizes or weights.
    """

    def __init__(
        self,
        views: Mapping[str, nn.Module],
        base: Mapping[str, tuple[int, ...]] | None = None,
        register: Ownership = "own",
        adapters: Ownership = "own",
    ) -> None:
        super().__init__()
        if len(views) < 2:
            raise UserError(
                f"tasks: a joint model needs at least two, got {', '.join(views) or 'none'}; a single task is trained "
                "by itself"
            )
        for task, view in views.items():
            if not any(True for _ in adapted(_vit(view))):
                raise UserError(f"tasks: the model of '{task}' has no low-rank updates, so its backbone is not frozen")
        self.views = nn.ModuleDict(views)
        first = next(iter(views.values()))
        names = base or {name: tuple(value.shape) for name, value in _plain(_vit(first)).items()}
        self.base_names = _share_base(self.views, names)
        _share_readouts(self.views)
        if register == "shared":
            _share_register(self.views)
        if adapters == "shared":
            _share_updates(self.views)

    @property
    def tasks(self) -> tuple[str, ...]:
        """Names of the tasks."""
        return tuple(self.views)

    def view(self, task: str) -> Any:
        """The whole model of a task.

        Raises:
            UserError: the model does not have the task.
        """
        if task not in self.views:
            raise UserError(f"task: '{task}' is not one of this model's: {', '.join(self.tasks)}")
        return self.views[task]

    def forward(self, images: Tensor, task: str, sample_ids: Tensor | None = None) -> Any:
        """What a task's full model says of images `(B, C, H, W)`.

        Returns:
            Logits `(B, num_classes)` for cls, `(B, num_classes, H, W)` for seg; instances of each image for det.

        Raises:
            UserError: the model does not have the task.
        """
        view = self.view(task)
        return (view.infer if hasattr(view, "infer") else view)(images, sample_ids)

    def base(self) -> dict[str, Tensor]:
        """The frozen tensors by their names in the backbone."""
        found: dict[str, Tensor] = {}
        for view in self.views.values():
            found |= {n: p.detach() for n, p in _plain(_vit(view)).items() if n in self.base_names and n not in found}
        return dict(sorted(found.items()))

    def base_hash(self, task: str) -> str:
        """Sha256 over names, shapes and bytes of the base that a task uses: which backbone its file belongs to."""
        plain = _plain(_vit(self.view(task)))
        return hash_of_tensors({n: p for n, p in plain.items() if self.base_names.get(n) == tuple(p.shape)})

    def own(self, task: str) -> dict[str, Tensor]:
        """What belongs to a task, by its name in the view: everything but the base and the readouts."""
        return {
            name: value.detach()
            for name, value in self.view(task).state_dict().items()
            if not self.is_base(task, name, value) and not _is_readout(name)
        }

    def readouts(self) -> dict[str, Tensor]:
        """The readouts, by their names in a view."""
        state = next(iter(self.views.values())).state_dict()
        return {name: value.detach() for name, value in state.items() if _is_readout(name)}

    def count(self, task: str) -> JointParameters:
        """Parameters that a task adds (tab:parameters)."""
        parts = dict.fromkeys(("register", "low_rank", "trunk", "head", "readouts"), 0)
        for name, parameter in self.view(task).named_parameters():
            if not self.is_base(task, name, parameter):
                part = part_of(name)
                parts["readouts" if part in _READOUTS else part] += parameter.numel()
        return JointParameters(**parts)

    def single(self, task: str) -> nn.Module:
        """A copy of a task's model by itself, updates merged into its weights: the same answers up to rounding."""
        alone = copy.deepcopy(self.view(task))
        merge_low_rank(_vit(alone))
        return alone

    def is_base(self, task: str, name: str, value: Tensor) -> bool:
        """Whether a tensor of a task's view, by its name there, is one of the base."""
        short = name.removeprefix(_VIT)
        return name != short and self.base_names.get(short) == tuple(value.shape)


def hash_of_tensors(tensors: Mapping[str, Tensor]) -> str:
    """Sha256 over names, types, shapes and bytes, in the order of the names."""
    digest = hashlib.sha256()
    for name, tensor in sorted(tensors.items()):
        whole = tensor.detach().cpu().contiguous()
        digest.update(f"{name} {whole.dtype} {tuple(whole.shape)}\n".encode())
        digest.update(whole.numpy().tobytes())
    return digest.hexdigest()


def _vit(view: Any) -> Any:
    return view.encoder.vit


def _plain(vit: nn.Module) -> dict[str, nn.Parameter]:
    """The parameters of a backbone that are no update."""
    return {name: parameter for name, parameter in vit.named_parameters() if not is_low_rank(name)}


def _share_base(views: nn.ModuleDict, names: Mapping[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
    """Puts one frozen tensor in the place of those that several backbones have; the rest of a trunk is trained.

    Returns:
        The names and shapes of the tensors that are shared.

    Raises:
        UserError: two backbones hold other values where they should hold the same.
    """
    common: dict[str, nn.Parameter] = {}
    for task, view in views.items():
        vit = _vit(view)
        for name, parameter in _plain(vit).items():
            if names.get(name) != tuple(parameter.shape):
                parameter.requires_grad_(True)
                continue
            known = common.setdefault(name, parameter.requires_grad_(False))
            if known is not parameter:
                if not known.is_meta and not known.equal(parameter):
                    raise UserError(
                        f"tasks: the backbone of '{task}' has other values in '{name}' than those before it; load the "
                        "same pre-trained weights into all"
                    )
                _put(vit, name, known)
    if not common:
        raise UserError("tasks: the backbones have no tensor of the base in common; give models of the same sizes")
    return {name: tuple(parameter.shape) for name, parameter in common.items()}


def _share_readouts(views: nn.ModuleDict) -> None:
    first, *others = [view.encoder.reducer.controller for view in views.values()]
    for controller in others:
        for readout in _READOUTS:
            setattr(controller, readout, getattr(first, readout))


def _share_register(views: nn.ModuleDict) -> None:
    tables = [view.encoder.reducer.controller.registers for view in views.values()]
    (common,) = tables[0].values()
    for table in tables[1:]:
        for task in table:
            table[task] = common


def _share_updates(views: nn.ModuleDict) -> None:
    first, *others = [_vit(view) for view in views.values()]
    for name, layer in adapted(first):
        for vit in others:
            other = vit.get_submodule(name)
            other.low_rank_down, other.low_rank_up = layer.low_rank_down, layer.low_rank_up


def _put(module: nn.Module, name: str, parameter: nn.Parameter) -> None:
    parent, _, last = name.rpartition(".")
    setattr(module.get_submodule(parent), last, parameter)


def _is_readout(name: str) -> bool:
    return name.startswith(tuple(f"{_CONTROLLER}{readout}." for readout in _READOUTS))


def part_of(name: str) -> str:
    """What a parameter of a view is part of, by its name: `head`, `trunk`, `low_rank`, `register` or a readout."""
    for readout in _READOUTS:
        if name.startswith(f"{_CONTROLLER}{readout}."):
            return readout
    if name.startswith("encoder.reducer."):
        return "register"
    if name.startswith(_VIT):
        return "low_rank" if is_low_rank(name) else "trunk"
    return "head"
