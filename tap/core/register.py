"""The task registers and their two shared readouts: all that TAP adds (Sec. Task register, Alg. 1, Eq. 3)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from tap.errors import UserError


class Controller(nn.Module):
    """Learned initial registers, one per task, and the readouts of removal share and recovery scale.

    The readouts are shared by tasks and layers and see the register before the block's normalisation, as Alg. 1 and
    Eq. 3 write them. They start with zero weights, so that every image begins at the share and scale of the biases.

    Args:
        dim: token width d.
        tasks: names of the tasks; TAP-J has one, TAP-F all of them.
        recovery: whether a dense head needs the recovery readout.
        allocation_bias: initial b, a logit of the share of the unspent budget.
        recovery_bias: initial v, a logit of the share of the stored offset.
        register_std: standard deviation of the initial registers.
    """

    def __init__(
        self,
        dim: int,
        tasks: Sequence[str] = ("cls",),
        recovery: bool = True,
        allocation_bias: float = -0.693147,
        recovery_bias: float = 0.0,
        register_std: float = 0.02,
    ) -> None:
        super().__init__()
        self.registers = nn.ParameterDict({task: nn.Parameter(torch.randn(dim) * register_std) for task in tasks})
        self.allocation = _readout(dim, allocation_bias)
        self.recovery = _readout(dim, recovery_bias) if recovery else None

    def initial(self, task: str, batch: int) -> Tensor:
        """The register r^(0) of the active task for every image. ``(batch, 1, d)``.

        Raises:
            UserError: the task has no register here.
        """
        if task not in self.registers:
            raise UserError(f"task: '{task}' has no register in this model; it holds {', '.join(self.registers)}")
        return self.registers[task].expand(batch, 1, -1)

    @torch.no_grad()
    def start_from(self, token: Tensor) -> None:
        """Lets every register begin with another token of the encoder, such as its pre-trained class token.

        Args:
            token: `(d,)`.

        Raises:
            UserError: the token has another width.
        """
        for register in self.registers.values():
            if token.shape != register.shape:
                raise UserError(
                    f"register_start: a token of shape {tuple(token.shape)} is no start of a register of width "
                    f"{len(register)}; take the weights of a backbone of this width"
                )
            register.copy_(token)

    def share_logit(self, register: Tensor) -> Tensor:
        """g = w.r + b, whose sigmoid is the share of the unspent budget (Alg. 1, Eq. S2).

        Args:
            register: the register's state before the pruning block. ``(B, d)``.

        Returns:
            Logits. ``(B,)`` float32.
        """
        return _read(self.allocation, register)

    def recovery_scale(self, register: Tensor) -> Tensor:
        """alpha = sigmoid(u.r + v), the share of the stored offset that recovery restores (Eq. 3, Eq. S11).

        Args:
            register: the register's state before the pruning block. ``(B, d)``.

        Returns:
            Scales in (0, 1). ``(B,)`` float32.

        Raises:
            ValueError: the controller was built without recovery.
        """
        if self.recovery is None:
            raise ValueError("recovery: this controller was built without a recovery readout")
        return torch.sigmoid(_read(self.recovery, register))


def _readout(dim: int, bias: float) -> nn.Linear:
    layer = nn.Linear(dim, 1)
    nn.init.zeros_(layer.weight)
    nn.init.constant_(layer.bias, bias)
    return layer


def _read(layer: nn.Linear, register: Tensor) -> Tensor:
    # Product and sum in float32: autocast and TensorFloat-32 do not reach it, and batch mates do not change its bits.
    products = register.to(torch.float32) * layer.weight.to(torch.float32)
    return products.sum(dim=-1) + layer.bias.to(torch.float32)
