"""Everything that a forward of some modules may change, put back before each run and at the end."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from bnmodes.norm.layers import BatchNorm


def is_known_moment(part: nn.Module, key: str) -> bool:
    if isinstance(part, BatchNorm):
        return key in ("mean", "variance")
    # By name alone: torch.export leaves no layer's class.
    return key in ("running_mean", "running_var")


@dataclass(frozen=True, eq=False)
class Slot:
    """One tensor that a module keeps: a buffer, a parameter or a plain attribute."""

    name: str
    part: nn.Module
    held_in: dict
    key: str
    tensor: Tensor
    value: Tensor
    """A copy, to be put back."""

    def now(self) -> Tensor | None:
        """What is there: a forward may have put another tensor in its place."""
        found = self.held_in.get(self.key)
        return found if isinstance(found, Tensor) else None

    @property
    def may_be_moment(self) -> bool:
        """Frozen parameters too: some keep their running statistics in them."""
        return self.tensor.is_floating_point() and not self.tensor.requires_grad

    @property
    def is_known_moment(self) -> bool:
        return is_known_moment(self.part, self.key)

    @property
    def has_values(self) -> bool:
        return self.tensor.device.type != "meta"


class Sandbox:
    """Tensors, training flags and random states of `modules`; a context that ends with restore."""

    def __init__(self, modules: Sequence[nn.Module]):
        self.parts = {
            part: name for module in modules for name, part in reversed([*module.named_modules()])
        }
        self.slots = [
            Slot(f"{name}.{key}".lstrip("."), part, held_in, key, tensor, tensor.detach().clone())
            for part, name in self.parts.items()
            for held_in in (part._buffers, part._parameters, part.__dict__)
            for key, tensor in held_in.items()
            if isinstance(tensor, Tensor)
        ]
        self._attributes = {part: set(part.__dict__) for part in self.parts}
        self._training = {part: part.training for part in self.parts}
        self._states = torch.get_rng_state(), np.random.get_state(), random.getstate()
        self._devices = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []

    def __enter__(self) -> "Sandbox":
        return self

    def __exit__(self, *_) -> None:
        self.restore()

    def restore(self) -> None:
        for slot in self.slots:
            slot.held_in[slot.key] = slot.tensor
            slot.tensor.data.copy_(slot.value)  # .data: a backward that waits may go on
        for part, training in self._training.items():
            part.training = training
            for new in set(part.__dict__) - self._attributes[part]:
                if isinstance(part.__dict__[new], Tensor):
                    del part.__dict__[new]
        torch.set_rng_state(self._states[0])
        np.random.set_state(self._states[1])
        random.setstate(self._states[2])
        if self._devices:
            torch.cuda.set_rng_state_all(self._devices)

    def waken(self, except_for: Sequence[Slot]) -> None:
        """Gives every parameter values that hide nothing: neither zero nor far from one another."""
        generator = torch.Generator().manual_seed(0)
        for slot in self.slots:
            parameter = slot.held_in is slot.part._parameters and slot.tensor.is_floating_point()
            if not parameter or not slot.has_values or slot in except_for:
                continue
            shape = slot.tensor.shape
            values = torch.rand(shape, generator=generator) + 0.5
            if len(shape) > 1:
                values = torch.randn(shape, generator=generator) / shape[1:].numel() ** 0.5
            slot.tensor.data.copy_(values)
