"""Everything that a forward of some modules may change, put back before each run and at the end."""

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from bnmodes.auditing.trees import is_array
from bnmodes.norm.layers import BatchNorm

_LEVELS = 2
"""So many objects, dicts and lists may lie between a module and an array that it keeps."""
_LARGEST = 2**24
"""Elements. A larger array that is neither buffer nor parameter is data, such as a replay's."""
_PYTORCHS_OWN = frozenset(vars(nn.Module()))
"""Attributes that every module has."""


def is_known_moment(part: nn.Module, key: object) -> bool:
    if isinstance(part, BatchNorm):
        return key in ("mean", "variance")
    # By name alone: torch.export leaves no layer's class.
    return key in ("running_mean", "running_var")


@dataclass(frozen=True, eq=False)
class Slot:
    """One tensor or array that a module keeps: a buffer, a parameter or in a plain attribute."""

    name: str
    part: nn.Module
    held_in: dict
    """The module's buffers, parameters or attributes."""
    path: tuple
    """The keys from there on: more than one, if it is inside an object, a dict or a list."""
    tensor: Tensor
    """It; of an array, the same memory."""
    value: Tensor
    """A copy, to be put back."""

    def now(self) -> Any:
        """The array that is there: a forward may have put another in its place."""
        try:
            found: Any = self.held_in[self.path[0]]
            for key in self.path[1:]:
                found = _inside(found)[key]
        except (LookupError, TypeError):
            return None
        return found if is_array(found) else None

    @property
    def may_be_moment(self) -> bool:
        """Frozen parameters too: some keep their running statistics in them."""
        return self.tensor.is_floating_point() and not self.tensor.requires_grad

    @property
    def is_known_moment(self) -> bool:
        return is_known_moment(self.part, self.path[-1])

    @property
    def has_values(self) -> bool:
        return self.tensor.device.type != "meta"


class Sandbox:
    """Tensors, attributes and random states of `modules`; a context that ends with restore."""

    def __init__(self, modules: Sequence[nn.Module]):
        self.parts = {
            part: name for module in modules for name, part in reversed([*module.named_modules()])
        }
        self.slots: list[Slot] = []
        self._kept: list[tuple[Any, dict | list]] = []
        """Buffers, parameters and attributes of each module."""
        self._nested: list[tuple[Any, dict | list]] = []
        """What objects, dicts and lists in the attributes hold."""
        self._met: set[int] = set()
        for part in self.parts:
            for held_in in (part._buffers, part._parameters):
                self._kept.append((held_in, dict(held_in.items())))
                for key, tensor in held_in.items():
                    if tensor is not None:
                        self._add(part, held_in, (key,), tensor, tensor)
        for part in self.parts:
            self._kept.append((vars(part), dict(vars(part))))
            for key, value in vars(part).items():
                if key not in _PYTORCHS_OWN:
                    self._search(part, (key,), value)
        self._states = torch.get_rng_state(), np.random.get_state(), random.getstate()
        self._devices = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []

    def _add(self, part: nn.Module, held_in: Any, path: tuple, kept: Any, tensor: Tensor) -> None:
        name = ".".join(map(str, (self.parts[part], *path))).lstrip(".")
        self.slots.append(Slot(name, part, held_in, path, tensor, tensor.detach().clone()))
        self._met.add(id(kept))

    def _search(self, part: nn.Module, path: tuple, value: Any) -> None:
        """Adds the arrays in a plain attribute, each once."""
        if id(value) in self._met:
            return
        if is_array(value):
            if (tensor := _memory(value)) is not None:
                self._add(part, vars(part), path, value, tensor)
            return
        inside = _inside(value)
        if inside is None or len(path) > _LEVELS:
            return
        self._met.add(id(value))
        if not isinstance(inside, tuple):
            held = dict(inside) if isinstance(inside, dict) else list(inside)
            self._nested.append((inside, held))
        for key, entry in [*inside.items()] if isinstance(inside, dict) else enumerate(inside):
            self._search(part, (*path, key), entry)

    def __enter__(self) -> "Sandbox":
        return self

    def __exit__(self, *_) -> None:
        self.restore()

    def restore(self) -> None:
        for place, held in self._kept:
            _put_back(place, held)
        for place, held in self._nested:
            if any(is_array(value) for value in (*_values(place), *_values(held))):
                _put_back(place, held)
        for slot in self.slots:
            slot.tensor.data.copy_(slot.value)  # .data: a backward that waits may go on
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


def _inside(value: Any) -> Any:
    """The dict, list or tuple that this is, or that has its attributes; None if it has none."""
    if isinstance(value, (dict, list, tuple)):
        return value
    if isinstance(value, (nn.Module, ModuleType)):
        return None
    attributes = getattr(value, "__dict__", None)
    return attributes if isinstance(attributes, dict) else None


def _memory(array: Any) -> Tensor | None:
    """The array as a tensor whose changes are the array's; None where it takes none."""
    try:
        if isinstance(array, np.ndarray):
            array = torch.from_numpy(array) if array.flags.writeable else None
        if not isinstance(array, Tensor) or array.numel() > _LARGEST:
            return None
        array.data.copy_(array.detach().clone())  # an expanded tensor refuses
    except (TypeError, ValueError, RuntimeError):
        return None
    return array


def _values(place: dict | list) -> Iterable:
    return place.values() if isinstance(place, dict) else place


def _put_back(place: Any, held: dict | list) -> None:
    if isinstance(held, list):
        place[:] = held
        return
    for new in [key for key, _ in place.items() if key not in held]:
        del place[new]
    for key, value in held.items():
        place[key] = value
