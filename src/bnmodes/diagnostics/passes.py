"""A role's forwards over several batches, and what diagnostics keep of each."""

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, replace

from jaxtyping import Float
from torch import Tensor, nn

from bnmodes.diagnostics.mismatch import Moments, RowMoments, row_moments
from bnmodes.diagnostics.recording import LayerRecord, record
from bnmodes.diagnostics.role_forward import RoleForward
from bnmodes.norm.layers import BatchNorm, FirstRows, StoredVariance
from bnmodes.protocol import BATCH, RUNNING, Mode


@dataclass(frozen=True)
class NormPass:
    """What a BatchNorm, or a group of its channels, had stored and was given in one forward."""

    layer: str
    stored: Moments
    """The running statistics that this forward reads, or would have read."""
    rows: RowMoments
    """Of all samples whose statistics normalise the batch: mostly, those of the whole batch."""
    epsilon: float
    convention: StoredVariance


@dataclass(frozen=True)
class Pass:
    """What is kept of one forward over one batch; `kept` are the samples that the role uses."""

    norms: list[NormPass]
    activity: dict[str, Float[Tensor, " _"]]
    """Of each hidden layer: each unit's mean |activation| over kept samples and positions."""
    features: Float[Tensor, "kept units"] | None
    """Inputs of the role's head; None for a network without it."""
    output: Float[Tensor, "kept ..."]
    other_output: Float[Tensor, "kept ..."]
    """With the statistics that this forward does not use (running or batch), same samples."""


def passes(forwards: Sequence[RoleForward]) -> list[Pass]:
    """One pass for each forward, all of one role, with its statistics; nothing is written."""
    (network, _), declared = forwards[0].measured, forwards[0].mode
    mode = replace(declared, track=None, update=None)
    if declared.track is None:
        return [_pass(forward, network, mode) for forward in forwards]
    found, copy = [], deepcopy(network)
    for forward in forwards:
        for moments, original in zip(copy.buffers(), network.buffers(), strict=True):
            moments.copy_(original)
        copy(forward.inputs, Mode(statistics="batch", update=declared.track))
        found.append(_pass(forward, copy, mode))
    return found


def _pass(forward: RoleForward, network: nn.Module, mode: Mode) -> Pass:
    recorded, kept = record(network, forward.inputs, mode), forward.kept
    output = other_output = forward.samples_first(recorded.output)[kept]
    if forward.has_statistics:
        other = RUNNING if mode.statistics == "batch" else BATCH
        other_output = forward.samples_first(network(forward.inputs, other))[kept]
    features = recorded.head_inputs.get(forward.head)
    return Pass(
        norms=[
            _norm_pass(layer, layer.norm, mode.rows if isinstance(mode, FirstRows) else None)
            for layer in recorded.layers
            if isinstance(layer.norm, BatchNorm)
        ],
        activity={
            layer.name: _mean_size(layer.units[kept])
            for layer in recorded.layers
            if layer.units is not None
        },
        features=None if features is None else features[kept],
        output=output,
        other_output=other_output,
    )


def _norm_pass(layer: LayerRecord, norm: BatchNorm, moment_rows: int | None) -> NormPass:
    channels = layer.channels
    stored = Moments(norm.mean[channels].double(), norm.variance[channels].double())
    rows = row_moments(layer.before_norm[:moment_rows])
    return NormPass(layer.name, stored, rows, norm.epsilon, norm.stored_variance)


def _mean_size(units: Float[Tensor, "B units *HW"]) -> Float[Tensor, " units"]:
    return units.abs().transpose(0, 1).flatten(1).mean(1)
