"""All that is measured of an agent at one moment, as one flat row of metrics."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from bnmodes.diagnostics import mismatch, plasticity
from bnmodes.diagnostics.passes import Pass, passes
from bnmodes.diagnostics.readout import Readout
from bnmodes.diagnostics.recording import kernels, record
from bnmodes.diagnostics.role_forward import RoleForward, joined
from bnmodes.learning.optimizer import Optimizer
from bnmodes.norm.layers import ModedModule
from bnmodes.protocol import BATCH, Mode, Role

Row = dict[str, float | list[float]]


def samples_needed(head: nn.Linear) -> int:
    """Observations to measure on: fewer than twice the features would bound their rank."""
    return 2 * head.in_features


@torch.no_grad()
def measure_roles(roles: Mapping[Role, Sequence[RoleForward]], rng: np.random.Generator) -> Row:
    """Each role on batches of its own, with its declared statistics; nothing is written.

    Dormant units and the features' rank are those of predict, and a policy's those of improve.
    """
    row: Row = {}
    for role, forwards in roles.items():
        found, (_, readout) = passes(forwards), forwards[0].measured
        values = _mean([readout.level(one.output) for one in found])
        if forwards[0].has_statistics:
            values |= _output_change(found, readout) | _moment_mismatch(found, rng)
        row |= {f"{role}/{name}": value for name, value in values.items()}
        if role == "predict":
            row |= plasticity.dormant_fractions(_activity(found)) | _rank(forwards, found)
        if role == "improve":
            for name, fraction in plasticity.dormant_fractions(_activity(found)).items():
                row[name if "/" in name else f"actor/{name}"] = fraction
    return row


def measure_layers(networks: Sequence[nn.Module], optimizers: Sequence[Optimizer]) -> Row:
    """Norm, gradient and effective learning rate of each layer of these networks."""
    named = {name: kernel for network in networks for name, kernel in kernels(network).items()}
    return {**plasticity.layer_motion(named, optimizers)}


@torch.no_grad()
def mean_best_q(
    heads: ModedModule,
    mode: Mode,
    features: Sequence[Float[Tensor, "B units"]],
    num_actions: int,
    q_values: Callable[[Tensor], Tensor],
) -> float:
    """Mean over states of the Q of the best one-hot action, by twin critic `heads` on `features`.

    It stands beside the mean Q of the relaxed actions that a policy proposes.
    """
    best = []
    for states in features:
        actions = torch.eye(num_actions, device=states.device).repeat(len(states), 1)
        output = heads((states.repeat_interleave(num_actions, 0), actions), mode)
        q = q_values(output).mean(0).unflatten(0, (-1, num_actions))  # [B, actions]
        best.append(float(q.amax(-1).mean()))
    return float(np.mean(best))


def _output_change(found: Sequence[Pass], readout: Readout) -> dict[str, float]:
    """Between running statistics and batch statistics, on the same samples."""
    return _mean([readout.change(one.output, one.other_output) for one in found])


def _moment_mismatch(found: Sequence[Pass], rng: np.random.Generator) -> dict[str, float]:
    """Of each BatchNorm: the distance of running statistics from the batches', and its floor."""
    values = {}
    for norms in zip(*(one.norms for one in found), strict=True):
        layer, epsilon, convention = norms[0].layer, norms[0].epsilon, norms[0].convention
        distance = mismatch.distance(
            mismatch.stacked([norm.stored for norm in norms]),
            mismatch.stacked([norm.rows.of_all(convention) for norm in norms]),
            epsilon,
        )
        rows = mismatch.joined([norm.rows for norm in norms])
        batch_rows = len(norms[0].rows.mean)
        floor = mismatch.noise_floor(rows, batch_rows, epsilon, convention, rng)
        for name in distance:
            values[f"{layer}/{name}"] = distance[name]
            values[f"{layer}/{name}_floor"] = floor[name]
    return values


def _activity(found: Sequence[Pass]) -> dict[str, Tensor]:
    layers = found[0].activity
    return {layer: torch.stack([one.activity[layer] for one in found]).mean(0) for layer in layers}


def _rank(forwards: Sequence[RoleForward], found: Sequence[Pass]) -> Row:
    """Of the features of the role's own minibatches, pooled, and of all samples in one batch.

    The two differ where a forward uses batch statistics: minibatches that are normalised each by
    its own statistics differ by the noise of these, which adds directions to the pooled features.
    """
    features = torch.cat([one.features for one in found if one.features is not None])
    pooled = together = plasticity.spectrum(features)
    if forwards[0].mode.statistics == "batch" and len(forwards) > 1:
        whole = joined(forwards)
        network, _ = whole.measured
        features = record(network, whole.inputs, BATCH).head_inputs[whole.head][whole.kept]
        together = plasticity.spectrum(features)
    return {
        "effective_rank": plasticity.effective_rank(pooled),
        "srank": plasticity.srank(pooled),
        "one_batch_effective_rank": plasticity.effective_rank(together),
        "one_batch_srank": plasticity.srank(together),
        "spectrum": pooled.tolist(),
    }


def _mean(measured: Sequence[dict[str, Tensor]]) -> dict[str, float]:
    return {name: float(np.mean([float(one[name]) for one in measured])) for name in measured[0]}


def rounded(row: Row) -> Row:
    """Six digits: a spectrum of 512 values is most of a row."""
    return {
        name: [_six_digits(v) for v in value] if isinstance(value, list) else _six_digits(value)
        for name, value in row.items()
    }


def _six_digits(value: float) -> float:
    return float(f"{value:.6g}")
