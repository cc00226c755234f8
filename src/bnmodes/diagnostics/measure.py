"""All that is measured of an agent at one moment, as one flat row of metrics."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import torch
from jaxtyping import Float32, UInt8
from torch import Tensor

from bnmodes.diagnostics import mismatch, plasticity
from bnmodes.diagnostics.passes import Pass, RoleForward, passes
from bnmodes.diagnostics.readout import Readout, ValuesOfActions
from bnmodes.learning.optimizer import Optimizer
from bnmodes.networks.actor_critic import DenseNetwork
from bnmodes.networks.value import QNetwork
from bnmodes.protocol import Params, Protocol, Role

Batches = (
    UInt8[Tensor, "batches rows channels height width"] | Float32[Tensor, "batches rows numbers"]
)
Row = dict[str, float | list[float]]


def rows_needed(network: QNetwork | DenseNetwork) -> int:
    """Fewer than twice the width would bound the rank of the features."""
    return 2 * network.head.in_features


def measure(
    networks: Mapping[Params, QNetwork],
    protocol: Protocol,
    batches: Mapping[Role, Batches],
    q_values: Callable[[Tensor], Tensor],
    optimizer: Optimizer,
    rng: np.random.Generator,
) -> Row:
    """Of a value learner; `q_values` decodes what a network gives, to [B, actions].

    Empty before the optimizer's first step.
    """
    roles = {}
    for role, role_batches in batches.items():
        forward = getattr(protocol, role)
        network, readout = networks[forward.params], ValuesOfActions(q_values)
        roles[role] = RoleForward(network, forward, list(role_batches), readout)
    if not optimizer.has_stepped:
        return {}
    row = measure_roles(roles, rng)
    return rounded(row | plasticity.layer_motion(networks["online"].kernels(), [optimizer]))


@torch.no_grad()
def measure_roles(roles: Mapping[Role, RoleForward], rng: np.random.Generator) -> Row:
    """Each role on batches of its own rows with its declared statistics; nothing is written.

    Dormant units and the features' rank are those of predict, and a policy's those of improve.
    """
    row: Row = {}
    for role, forward in roles.items():
        found = passes(forward)
        values = _mean([forward.readout.level(one.output) for one in found])
        if forward.has_moments:
            values |= _output_change(found, forward.readout) | _moment_mismatch(found, rng)
        row |= {f"{role}/{name}": value for name, value in values.items()}
        if role == "predict":
            row |= plasticity.dormant_fractions(_activity(found)) | _rank(found)
        if role == "improve":
            for name, fraction in plasticity.dormant_fractions(_activity(found)).items():
                row[name if "/" in name else f"actor/{name}"] = fraction
    return row


def _output_change(found: Sequence[Pass], readout: Readout) -> dict[str, float]:
    """Between stored moments and batch statistics, on the same rows."""
    return _mean([readout.change(one.output, one.other_output) for one in found])


def _moment_mismatch(found: Sequence[Pass], rng: np.random.Generator) -> dict[str, float]:
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


def _rank(found: Sequence[Pass]) -> Row:
    singular_values = plasticity.spectrum(torch.cat([one.features for one in found]))
    return {
        "effective_rank": plasticity.effective_rank(singular_values),
        "srank": float(plasticity.srank(singular_values)),
        "spectrum": singular_values.tolist(),
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
