"""A role's forwards over batches of its own rows, and what is kept of them."""

from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from jaxtyping import Float
from torch import Tensor

from bnmodes.diagnostics.mismatch import Moments, RowMoments, row_moments
from bnmodes.diagnostics.readout import Readout
from bnmodes.networks.value import HiddenLayer, Trace
from bnmodes.norm.layers import BatchNorm, StoredVariance
from bnmodes.protocol import BATCH, RUNNING, Mode

Rows = Tensor | tuple[Tensor, ...]


@runtime_checkable
class Network(Protocol):
    """A network that shows what it computes on its way."""

    def __call__(self, x: Rows, mode: Mode) -> Tensor: ...

    def traced(self, x: Rows, mode: Mode) -> Trace: ...

    def buffers(self) -> Iterator[Tensor]: ...


@dataclass(frozen=True)
class RoleForward:
    """A role as it is: its network, its mode, and batches of the rows that it gets."""

    network: Network
    mode: Mode
    batches: Sequence[Rows]
    readout: Readout
    kept: slice = field(default_factory=lambda: slice(None))
    """Of a batch, the rows whose output the role keeps."""
    prefix: str = ""
    """Of its layers' names."""

    @property
    def has_moments(self) -> bool:
        """Half of three rows is one row, which has no variance."""
        return self.mode.statistics != "none" and _count(self.batches[0]) > 3


@dataclass(frozen=True)
class NormPass:
    """What a BatchNorm, or a part of its channels, had stored and was given in one forward."""

    layer: str
    stored: Moments
    """That this forward reads, or would have read."""
    rows: RowMoments
    """Of all rows, because all are normalised together."""
    epsilon: float
    convention: StoredVariance


@dataclass(frozen=True)
class Pass:
    """What is kept of one forward over one batch."""

    norms: list[NormPass]
    activity: dict[str, Float[Tensor, " _"]]
    """Of each hidden layer: each unit's mean |h| over the kept rows and positions."""
    features: Float[Tensor, "kept units"]
    output: Float[Tensor, "kept ..."]
    other_output: Float[Tensor, "kept ..."]
    """Of the statistics that this forward does not use, on the same rows."""


def passes(role: RoleForward) -> list[Pass]:
    """With the role's statistics; nothing is written."""
    mode = Mode(statistics=role.mode.statistics)
    if role.mode.track is None:
        return [_pass(role, role.network, mode, batch) for batch in role.batches]
    found, copy = [], deepcopy(role.network)
    for batch in role.batches:
        for moments, original in zip(copy.buffers(), role.network.buffers(), strict=True):
            moments.copy_(original)
        copy(batch, Mode(statistics="batch", update=role.mode.track))
        found.append(_pass(role, copy, mode, batch))
    return found


def _pass(role: RoleForward, network: Network, mode: Mode, batch: Rows) -> Pass:
    trace = network.traced(batch, mode)
    output = other_output = trace.output[role.kept]
    if role.has_moments:
        other = RUNNING if mode.statistics == "batch" else BATCH
        other_output = network.traced(batch, other).output[role.kept]
    return Pass(
        norms=[
            _norm_pass(role.prefix + layer.name, layer)
            for layer in trace.layers
            if isinstance(layer.norm, BatchNorm)
        ],
        activity={
            role.prefix + layer.name: _mean_size(layer.units[role.kept])
            for layer in trace.layers
            if layer.units is not None
        },
        features=trace.features[role.kept],
        output=output,
        other_output=other_output,
    )


def _norm_pass(name: str, layer: HiddenLayer) -> NormPass:
    norm, channels = layer.norm, layer.channels
    stored = Moments(norm.mean[channels].double(), norm.variance[channels].double())
    rows = row_moments(layer.before_norm)
    return NormPass(name, stored, rows, norm.epsilon, norm.stored_variance)


def _mean_size(units: Float[Tensor, "B units *HW"]) -> Float[Tensor, " units"]:
    return units.abs().transpose(0, 1).flatten(1).mean(1)


def _count(batch: Rows) -> int:
    return len(batch[0] if isinstance(batch, tuple) else batch)
