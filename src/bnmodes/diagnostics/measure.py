"""All that is measured of an agent at one moment, as one flat row of metrics."""

from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, UInt8
from torch import Tensor

from bnmodes.diagnostics import mismatch, plasticity
from bnmodes.networks import QNetwork
from bnmodes.norm import BatchNorm
from bnmodes.protocol import BATCH, RUNNING, Forward, Mode, Params, Protocol, Role

Batches = UInt8[Tensor, "batches rows channels height width"]
QValues = Callable[[Tensor], Tensor]
Row = dict[str, float | list[float]]


def rows_needed(network: QNetwork) -> int:
    """Fewer than twice the width would bound the rank of the features."""
    return 2 * network.head.in_features


@torch.no_grad()
def measure(
    networks: Mapping[Params, QNetwork],
    protocol: Protocol,
    batches: Mapping[Role, Batches],
    q_values: QValues,
    optimizer: torch.optim.Adam | torch.optim.RAdam,
    rng: np.random.Generator,
) -> Row:
    """Each role on batches of its own rows with its declared statistics; nothing is written.

    `q_values` decodes what a network gives: [B, actions] from [B, actions] or [B, actions, atoms].
    Empty before the optimizer's first step.
    """
    if not any(optimizer.state.values()):
        return {}
    row: Row = {}
    for role, role_batches in batches.items():
        forward = getattr(protocol, role)
        network = networks[forward.params]
        passes = _passes(network, forward, role_batches)
        values = {"max_q": _mean(q_values(p.output).amax(-1).mean() for p in passes)}
        if _is_measurable(forward, role_batches[0]):
            values |= _output_change(passes, q_values) | _moment_mismatch(network, passes, rng)
        row |= {f"{role}/{name}": value for name, value in values.items()}
        if role == "predict":
            row |= _representation(network, passes)
    row |= plasticity.layer_motion(networks["online"].kernels(), optimizer)
    return {name: _rounded(value) for name, value in row.items()}


@dataclass(frozen=True)
class _Pass:
    """What is kept of one forward of a role over one batch, layer by layer."""

    stored: list[mismatch.Moments]
    """That this forward reads, or would have read."""
    rows: list[mismatch.RowMoments]
    """Of what each norm gets."""
    activity: list[Float[Tensor, " _"]]
    """Each unit's mean |h| over rows and positions."""
    features: Float[Tensor, "B units"]
    output: Tensor
    other_output: Tensor
    """Of the statistics that this forward does not use, on the same rows."""


def _passes(network: QNetwork, forward: Forward, batches: Batches) -> list[_Pass]:
    mode = Mode(statistics=forward.statistics)
    if forward.track is None:
        return [_pass(network, mode, batch) for batch in batches]
    passes, copy = [], deepcopy(network)
    for batch in batches:
        for moments, original in zip(copy.buffers(), network.buffers(), strict=True):
            moments.copy_(original)
        copy(batch, Mode(statistics="batch", update=forward.track))
        passes.append(_pass(copy, mode, batch))
    return passes


def _pass(network: QNetwork, mode: Mode, x: Tensor) -> _Pass:
    stored, rows, activity = [], [], []
    for norm, (before_norm, after_relu) in zip(network.norms, network.hidden(x, mode), strict=True):
        if isinstance(norm, BatchNorm):
            stored.append(mismatch.Moments(norm.mean.double(), norm.variance.double()))
            rows.append(mismatch.row_moments(before_norm))
        activity.append(after_relu.transpose(0, 1).flatten(1).mean(1))  # a ReLU's h is |h|
    output = other_output = network.head(after_relu).unflatten(1, network.head_shape)
    if _is_measurable(mode, x):
        other_output = network(x, RUNNING if mode.statistics == "batch" else BATCH)
    return _Pass(stored, rows, activity, after_relu, output, other_output)


def _is_measurable(mode: Mode, batch: Tensor) -> bool:
    """Half of three rows is one row, which has no variance."""
    return mode.statistics != "none" and len(batch) > 3


def _output_change(passes: list[_Pass], q_values: QValues) -> dict[str, float]:
    """Between stored moments and batch statistics, on the same rows."""
    changes = []
    for p in passes:
        q, other_q = q_values(p.output), q_values(p.other_output)
        change = {
            "q_change": (q - other_q).abs().mean(),
            "greedy_changed": (q.argmax(-1) != other_q.argmax(-1)).float().mean(),
        }
        if p.output.ndim == 3:
            change["total_variation"] = total_variation(p.output, p.other_output)
        changes.append(change)
    return {name: _mean(change[name] for change in changes) for name in changes[0]}


def total_variation(
    logits: Float[Tensor, "B actions atoms"], other_logits: Float[Tensor, "B actions atoms"]
) -> Float[Tensor, ""]:
    """Half the sum of |p − p′| over atoms, mean over rows and actions."""
    return (logits.softmax(-1) - other_logits.softmax(-1)).abs().sum(-1).mean() / 2


def _moment_mismatch(
    network: QNetwork, passes: list[_Pass], rng: np.random.Generator
) -> dict[str, float]:
    values = {}
    for place, (layer, norm) in enumerate(zip(network.hidden_names, network.norms, strict=True)):
        rows = [p.rows[place] for p in passes]
        found = mismatch.distance(
            mismatch.stacked([p.stored[place] for p in passes]),
            mismatch.stacked([batch.of_all(norm.stored_variance) for batch in rows]),
            norm.epsilon,
        )
        floor = mismatch.noise_floor(
            mismatch.joined(rows), len(rows[0].mean), norm.epsilon, norm.stored_variance, rng
        )
        for name in found:
            values[f"{layer}/{name}"] = found[name]
            values[f"{layer}/{name}_floor"] = floor[name]
    return values


def _representation(network: QNetwork, passes: list[_Pass]) -> Row:
    activity = {
        layer: torch.stack([p.activity[place] for p in passes]).mean(0)
        for place, layer in enumerate(network.hidden_names)
    }
    singular_values = plasticity.spectrum(torch.cat([p.features for p in passes]))
    return plasticity.dormant_fractions(activity) | {
        "effective_rank": plasticity.effective_rank(singular_values),
        "srank": float(plasticity.srank(singular_values)),
        "spectrum": singular_values.tolist(),
    }


def _mean(values) -> float:
    return float(np.mean([float(value) for value in values]))


def _rounded(value: float | list[float]) -> float | list[float]:
    """Six digits: a spectrum of 512 values is most of a row."""
    return [_rounded(v) for v in value] if isinstance(value, list) else float(f"{value:.6g}")
