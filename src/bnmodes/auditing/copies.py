"""What of one network is in another, and what a copy from one to the other really copies."""

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from bnmodes.auditing.sandbox import Sandbox
from bnmodes.errors import UsageError

_TOLERANCE = 1e-4
"""How far a part may be from one and the same weight of averaging."""


@dataclass(frozen=True)
class CopyAudit:
    """Which parts of `target` are those of `online`. None: it cannot be told (see `reasons`)."""

    parameters: bool | None
    statistics: bool | None
    """Running statistics: all buffers of floating point. Counters of batches are not among them."""
    weight: float | None = field(default=None, compare=False)
    """Where a copy was tried and averages: how much of the online network's parameters it takes."""
    statistics_weight: float | None = field(default=None, compare=False)
    """The same of the running statistics."""
    different: tuple[str, ...] = field(default=(), compare=False)
    """Names of the tensors that are not copied."""
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
        return "\n".join([*lines, *(f"because             {reason}" for reason in self.reasons)])


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

    Both networks must have tensors of the same names and shapes.
    """
    names = [_tensors(network) for network in (online, target)]
    if {n: t.shape for n, t in names[0].items()} != {n: t.shape for n, t in names[1].items()}:
        raise UsageError(
            "these networks have tensors of different names or shapes: give audit_copy a network "
            "and its target."
        )
    return _compare(online, target) if copy is None else _try(online, target, copy)


def _tensors(network: nn.Module) -> dict[str, Tensor]:
    named = (*network.named_parameters(), *network.named_buffers())
    return {name: tensor.detach() for name, tensor in named if tensor.is_floating_point()}


def _compare(online: nn.Module, target: nn.Module) -> CopyAudit:
    ours, theirs = _tensors(online), _tensors(target)
    parameters = dict(online.named_parameters())
    different = tuple(name for name in ours if not torch.equal(ours[name], theirs[name]))
    statistics = [name for name in ours if name not in parameters]
    copied: bool | None = not any(name in statistics for name in different)
    reasons: tuple[str, ...] = ()
    if statistics and copied and all(_is_new(ours[name]) for name in statistics):
        copied = None
        reasons = (
            "the running statistics of both networks are still those of new layers: train a moment "
            "first, or give audit_copy the function that copies",
        )
    if not statistics:
        copied = None
        reasons = ("these networks have no running statistics",)
    return CopyAudit(
        parameters=not any(name in parameters for name in different),
        statistics=copied,
        different=different,
        reasons=reasons,
    )


def _is_new(tensor: Tensor) -> bool:
    return bool((tensor == 0).all() or (tensor == 1).all())


@torch.no_grad()
def _try(online: nn.Module, target: nn.Module, copy: Callable[[], object]) -> CopyAudit:
    generator = torch.Generator().manual_seed(0)
    with Sandbox([online, target]):
        for place, network in enumerate((online, target)):
            for tensor in _tensors(network).values():
                tensor.copy_(torch.rand(tensor.shape, generator=generator) + 1 + 3 * place)
        ours = {name: tensor.double().clone() for name, tensor in _tensors(online).items()}
        before = {name: tensor.double().clone() for name, tensor in _tensors(target).items()}
        copy()
        after = {name: tensor.double().clone() for name, tensor in _tensors(target).items()}
    taken = {n: (after[n] - before[n]) / (ours[n] - before[n]) for n in ours}  # each element's
    weights: dict[str, float | None] = {}
    reasons: list[str] = []
    parameters = dict(online.named_parameters())
    groups = {
        "parameters": [name for name in taken if name in parameters],
        "running statistics": [name for name in taken if name not in parameters],
    }
    for group, names in groups.items():
        elements = torch.cat([taken[name].flatten() for name in names]) if names else torch.empty(0)
        if not names:
            weights[group] = None
            reasons.append(f"these networks have no {group}")
        elif elements.max() - elements.min() > _TOLERANCE:
            weights[group] = None
            reasons.append(f"the {group} are not all copied with one weight: see `different`")
        else:
            weights[group] = round(float(elements.mean()), 4)
    return CopyAudit(
        parameters=_copied(weights["parameters"]),
        statistics=_copied(weights["running statistics"]),
        weight=weights["parameters"],
        statistics_weight=weights["running statistics"],
        different=tuple(n for n, each in taken.items() if (each - 1).abs().max() > _TOLERANCE),
        reasons=tuple(reasons),
    )


def _copied(weight: float | None) -> bool | None:
    return None if weight is None else weight > 0
