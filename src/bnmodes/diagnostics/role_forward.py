"""One role's forward of an agent on one batch: what diagnostics measure and `audit` observes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import torch
from jaxtyping import Int64, Shaped
from torch import Tensor

from bnmodes.diagnostics.readout import Readout
from bnmodes.norm.layers import ModedModule
from bnmodes.protocol import Mode

Inputs = Tensor | tuple[Tensor, ...]
"""What a network is called with: one tensor, or several with the same number of samples."""


class Transitions(NamedTuple):
    """Observations, actions and next observations."""

    obs: Shaped[Tensor, "B *obs"]
    action: Int64[Tensor, " B"]
    next_obs: Shaped[Tensor, "B *obs"]

    def split(self, size: int) -> "list[Transitions]":
        return [Transitions(*parts) for parts in zip(*(p.split(size) for p in self), strict=True)]


@dataclass(frozen=True)
class RoleForward:
    """The forward that an agent runs in one role, and a batch as the role gets it."""

    mode: Mode
    """As the protocol declares it."""
    run: Callable[[Inputs], Tensor]
    """The agent's own forward, by which it acts or learns; it may update running statistics."""
    inputs: Inputs
    networks: tuple[str, ...]
    """Names of the agent's networks that the role declares to use."""
    network: ModedModule | None = None
    """Maps the inputs to the output in any mode; None: diagnostics do not measure this role."""
    readout: Readout | None = None
    """What the network's output means; given wherever `network` is."""
    kept: slice = field(default_factory=lambda: slice(None))
    """The samples of the batch whose output the role uses, e.g. one half of a joined batch."""
    head: str = "head"
    """Name of the layer whose inputs are the features, of which the rank is measured."""
    batch_axis: int = 0
    """Axis of the output that counts samples; twin critics' is 1."""

    @property
    def measured(self) -> tuple[ModedModule, Readout]:
        """The network and what its output means, of a role that diagnostics measure."""
        if self.network is None or self.readout is None:
            raise ValueError("diagnostics measure only roles with a network and a readout")
        return self.network, self.readout

    def output(self) -> Tensor:
        """What the agent's own forward gives, samples first."""
        return self.samples_first(self.run(self.inputs))

    def samples_first(self, output: Tensor) -> Tensor:
        return output.movedim(self.batch_axis, 0).contiguous()

    def on(self, inputs: Inputs) -> "RoleForward":
        return replace(self, inputs=inputs)

    def at(self, index: Int64[Tensor, " some"]) -> "RoleForward":
        """On some samples of the batch, in this order."""
        if isinstance(self.inputs, Tensor):
            return self.on(self.inputs[index])
        return self.on(tuple(part[index] for part in self.inputs))

    @property
    def batch_size(self) -> int:
        return len(self.inputs if isinstance(self.inputs, Tensor) else self.inputs[0])

    @property
    def has_statistics(self) -> bool:
        """Whether running statistics can be compared with the batch's. The noise floor halves a
        batch, and each half needs two samples."""
        return self.mode.statistics != "none" and self.batch_size > 3


def joined(forwards: Sequence[RoleForward]) -> RoleForward:
    """All batches of one role as a single batch; the samples that the role keeps come first."""
    kept: list[Any] = []
    others: list[Any] = []
    for forward in forwards:
        is_kept = torch.zeros(forward.batch_size, dtype=torch.bool)
        is_kept[forward.kept] = True
        kept.append(forward.at(is_kept.nonzero()[:, 0]).inputs)
        others.append(forward.at((~is_kept).nonzero()[:, 0]).inputs)
    together = [*kept, *others]
    if isinstance(together[0], Tensor):
        inputs: Inputs = torch.cat(together)
        number = sum(map(len, kept))
    else:
        inputs = tuple(torch.cat(parts) for parts in zip(*together, strict=True))
        number = sum(len(parts[0]) for parts in kept)
    return replace(forwards[0], inputs=inputs, kept=slice(number))
