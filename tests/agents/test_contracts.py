"""What a declared forward really does, observed on the real networks by perturbation."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
import torch

from bnmodes.agents.c51 import C51Agent
from bnmodes.envs.contract import EnvSpec
from bnmodes.errors import UsageError
from bnmodes.protocol import Mode, Protocol
from helpers.settings import settings_of

pytestmark = pytest.mark.numeric

SPECS = {
    "nature": EnvSpec("fake", 4, (1, 84, 84), 4, 1 / 255, 4),
    "minatar": EnvSpec("fake", 3, (4, 10, 10), 1, 1.0, 1),
}
ROLES = ("predict", "bootstrap", "act", "evaluate")
COMBINATIONS = list(itertools.product(("batch", "running"), (None, 0.5), (None, 0.5)))
POSSIBLE = [
    ("batch", None, None),
    ("batch", None, 0.5),
    ("running", None, None),
    ("running", 0.5, None),
]


def agent_with(torso: str, protocol: Protocol, arm: str = "bn-batch") -> C51Agent:
    changes = {"torso": torso, "protocol": protocol, "replay_capacity": 10}
    settings = settings_of("c51", arm, "atari", **changes)
    agent = C51Agent(settings, SPECS[torso], seed=0, total_decisions=100)
    with torch.no_grad():  # moments and parameters that no two networks share
        for shift, network in enumerate(agent.networks.values()):
            for tensor in network.state_dict().values():
                tensor.mul_(1 + 0.1 * shift).add_(0.001 * (shift + 1))
    return agent


def rows(torso: str, seed: int) -> torch.Tensor:
    shape = (6, *SPECS[torso].obs_shape)
    high = 255 if torso == "nature" else 2
    generator = np.random.default_rng(seed)
    return torch.from_numpy(generator.integers(0, high, shape).astype(np.uint8))


def stored(network) -> list[torch.Tensor]:
    return [buffer.clone() for buffer in network.buffers()]


def same(a: list[torch.Tensor], b: list[torch.Tensor]) -> bool:
    return all(torch.equal(x, y) for x, y in zip(a, b, strict=True))


def observe(torso: str, role: str, mode: Mode, arm: str = "bn-batch") -> dict[str, bool]:
    """Each question is put to a new agent, because asking may write."""
    base = settings_of("c51", arm, "atari").protocol
    forward = replace(
        getattr(base, role), statistics=mode.statistics, track=mode.track, update=mode.update
    )
    protocol = replace(base, **{role: forward})
    network_name = forward.params
    other_name = {"online": "target", "target": "online"}[network_name]
    x, others = rows(torso, seed=1), rows(torso, seed=2)

    def output(change=lambda agent: None, x=x):
        agent = agent_with(torso, protocol, arm)
        change(agent)
        before = {name: stored(network) for name, network in agent.networks.items()}
        y = agent.forward(role, x).detach()[0]
        after = {name: stored(network) for name, network in agent.networks.items()}
        return y, before, after

    def shift_moments(name):
        def shift(agent):
            for module in agent.networks[name].modules():
                if hasattr(module, "variance"):
                    module.mean.add_(1.0)
                    module.variance.mul_(3.0)

        return shift

    def shift_head(name):
        return lambda agent: agent.networks[name].head.weight.data.mul_(2.0)

    y, before, after = output()
    mates = torch.cat([x[:1], others[1:]])
    return {
        "depends on stored moments": not torch.equal(y, output(shift_moments(network_name))[0]),
        "depends on batch-mates": not torch.allclose(y, output(x=mates)[0], atol=1e-6),
        "writes": not same(before[network_name], after[network_name]),
        "touches the other network": not same(before[other_name], after[other_name])
        or not torch.equal(y, output(shift_moments(other_name))[0])
        or not torch.equal(y, output(shift_head(other_name))[0]),
        "uses its parameters": not torch.equal(y, output(shift_head(network_name))[0]),
    }


def promised(mode: Mode) -> dict[str, bool]:
    return {
        "depends on stored moments": mode.statistics == "running",
        "depends on batch-mates": mode.statistics == "batch" or mode.track is not None,
        "writes": mode.update is not None or mode.track is not None,
        "touches the other network": False,
        "uses its parameters": True,
    }


@pytest.mark.parametrize("torso", SPECS)
@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize(("statistics", "track", "update"), COMBINATIONS)
def test_a_forward_does_what_it_declares(torso, role, statistics, track, update):
    if (statistics, track, update) not in POSSIBLE:
        with pytest.raises(UsageError):
            Mode(statistics=statistics, track=track, update=update)
        return
    mode = Mode(statistics=statistics, track=track, update=update)
    assert observe(torso, role, mode) == promised(mode)


def test_swapping_any_flag_changes_what_is_observed():
    """So that the contract above fails for a network that mistakes one mode for another."""
    modes = [Mode(statistics=s, track=t, update=u) for s, t, u in POSSIBLE]
    observations = [observe("minatar", "bootstrap", mode) for mode in modes]
    assert all(a != b for a, b in itertools.combinations(observations, 2))


@pytest.mark.parametrize("arm", ["none", "ln"])
@pytest.mark.parametrize("role", ROLES)
def test_without_batchnorm_each_row_stands_alone(arm, role):
    assert observe("minatar", role, Mode(statistics="none"), arm) == {
        "depends on stored moments": False,
        "depends on batch-mates": False,
        "writes": False,
        "touches the other network": False,
        "uses its parameters": True,
    }
