"""What of one network is in another, and what a copy from one to the other really copies."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor, nn

from bnmodes.auditing.sandbox import Sandbox, is_known_moment
from bnmodes.errors import UsageError

_TOLERANCE = 1e-4
"""How far a part may be from one and the same weight of averaging."""


@dataclass(frozen=True)
class CopyAudit:
    """Which parts of `target` are those of `online`. None: it cannot be told (see `reasons`)."""

    parameters: bool | None
    statistics: bool | None
    """Running statistics: buffers of known layers, and others of floating point that differ."""
    weight: float | None = field(default=None, compare=False)
    """Where a copy was tried and averages: how much of the online network's parameters it takes."""
    statistics_weight: float | None = field(default=None, compare=False)
    """The same of the running statistics."""
    different: tuple[str, ...] = field(default=(), compare=False)
    """Names of the tensors that are not copied."""
    shared: tuple[str, ...] = field(default=(), compare=False)
    """Names of the tensors that are one and the same in both networks: there is nothing to copy."""
    constants: tuple[str, ...] = field(default=(), compare=False)
    """Names of buffers of no known layer that are equal in both networks. They are not counted as
    running statistics: C51's atoms are an example."""
    reasons: tuple[str, ...] = field(default=(), compare=False)

    def __str__(self) -> str:
        lines = [
            f"parameters          {_in_words(self.parameters, self.weight)}",
            f"running statistics  {_in_words(self.statistics, self.statistics_weight)}",
        ]
        if self.parameters and self.statistics is False:
            lines.append(
                "                    a target with new parameters and old running statistics is "
                "another function: copy buffers too"
            )
        lines += [f"because             {reason}" for reason in self.reasons]
        if self.shared:
            lines.append(f"shared              {', '.join(self.shared)}")
        if self.constants:
            lines.append(f"constants           {', '.join(self.constants)}: equal in both networks")
        return "\n".join(lines)


def _in_words(copied: bool | None, weight: float | None) -> str:
    if copied is None:
        return "cannot tell"
    if not copied:
        return "not copied"
    return "copied" if weight in (None, 1.0) else f"averaged with weight {weight:g}"


def audit_copy(
    online: nn.Module, target: nn.Module, copy: Callable[[], object] | None = None
) -> CopyAudit:
    """Does the target network have the online network's parameters and running statistics?

    Without `copy` the two are compared as they are now, so ask right after a hard copy. With
    `copy`, a function that does your agent's copy or averaging, both networks are first given
    different values, `copy` is run, and everything is put back: this shows what it does, also where
    the two are equal by chance, and with which weight it averages.

        audit_copy(q_net, target_net)
        audit_copy(q_net, target_net, lambda: polyak_update(q_net, target_net, tau=0.005))

    Both networks must have tensors of the same names and shapes. A buffer that is equal in both and
    is no known layer's counts as a constant: train a layer of your own a moment before you ask.
    """
    ours, theirs = _tensors(online), _tensors(target)
    if {n: t.shape for n, t in ours.items()} != {n: t.shape for n, t in theirs.items()}:
        raise UsageError(
            "these networks have tensors of different names or shapes: give audit_copy a network "
            "and its target."
        )
    names = _names(online, ours, theirs)
    found = _compare(names, ours, theirs) if copy is None else _try(names, online, target, copy)
    return replace(found, shared=names.shared, constants=names.constants)


def _tensors(network: nn.Module) -> dict[str, Tensor]:
    named = (*network.named_parameters(), *network.named_buffers())
    return {name: tensor.detach() for name, tensor in named if tensor.is_floating_point()}


@dataclass(frozen=True)
class _Names:
    """Which tensor is what."""

    groups: dict[str, list[str]]
    shared: tuple[str, ...]
    constants: tuple[str, ...]

    def why_empty(self, group: str) -> str:
        more = " besides `shared` and `constants`" if self.shared or self.constants else ""
        return f"these networks have no {group}{more}"


def _names(online: nn.Module, ours: dict[str, Tensor], theirs: dict[str, Tensor]) -> _Names:
    parameters = dict(online.named_parameters())
    known = {
        f"{name}.{key}".lstrip(".")
        for name, part in online.named_modules()
        for key, _ in part.named_buffers(recurse=False)
        if is_known_moment(part, key)
    }
    shared = [name for name in ours if ours[name].is_set_to(theirs[name])]
    buffers = [name for name in ours if name not in shared and name not in parameters]
    statistics = [n for n in buffers if n in known or not torch.equal(ours[n], theirs[n])]
    groups = {
        "parameters": [name for name in parameters if name in ours and name not in shared],
        "running statistics": statistics,
    }
    constants = tuple(name for name in buffers if name not in statistics)
    return _Names(groups, tuple(shared), constants)


def _compare(names: _Names, ours: dict[str, Tensor], theirs: dict[str, Tensor]) -> CopyAudit:
    copied: dict[str, bool | None] = {}
    different: list[str] = []
    reasons: list[str] = []
    for group, members in names.groups.items():
        others = [name for name in members if not torch.equal(ours[name], theirs[name])]
        different += others
        copied[group] = not others if members else None
        if not members:
            reasons.append(names.why_empty(group))
    statistics = names.groups["running statistics"]
    if copied["running statistics"] and all(_is_new(ours[name]) for name in statistics):
        copied["running statistics"] = None
        reasons.append(
            "the running statistics of both networks are still those of new layers: train a moment "
            "first, or give audit_copy the function that copies"
        )
    return CopyAudit(
        parameters=copied["parameters"],
        statistics=copied["running statistics"],
        different=tuple(different),
        reasons=tuple(reasons),
    )


def _is_new(tensor: Tensor) -> bool:
    return bool((tensor == 0).all() or (tensor == 1).all())


@torch.no_grad()
def _try(
    names: _Names, online: nn.Module, target: nn.Module, copy: Callable[[], object]
) -> CopyAudit:
    generator = torch.Generator().manual_seed(0)
    with Sandbox([online, target]):
        for place, network in enumerate((online, target)):
            for tensor in _tensors(network).values():
                tensor.copy_(torch.rand(tensor.shape, generator=generator) + 1 + 3 * place)
        ours = {name: tensor.double().clone() for name, tensor in _tensors(online).items()}
        before = {name: tensor.double().clone() for name, tensor in _tensors(target).items()}
        copy()
        after = {name: tensor.double().clone() for name, tensor in _tensors(target).items()}
    weights: dict[str, float | None] = {}
    different: list[str] = []
    reasons: list[str] = []
    for group, members in names.groups.items():
        weights[group] = None
        if not members:
            reasons.append(names.why_empty(group))
            continue
        taken = {n: (after[n] - before[n]) / (ours[n] - before[n]) for n in members}
        different += [n for n, each in taken.items() if not ((each - 1).abs() <= _TOLERANCE).all()]
        elements = torch.cat([each.flatten() for each in taken.values()])
        if elements.max() - elements.min() <= _TOLERANCE:
            weights[group] = round(float(elements.mean()), 4)
        else:  # also where an element is NaN
            reasons.append(f"the {group} are not all copied with one weight: see `different`")
    return CopyAudit(
        parameters=_copied(weights["parameters"]),
        statistics=_copied(weights["running statistics"]),
        weight=weights["parameters"],
        statistics_weight=weights["running statistics"],
        different=tuple(different),
        reasons=tuple(reasons),
    )


def _copied(weight: float | None) -> bool | None:
    return None if weight is None else weight > 0
