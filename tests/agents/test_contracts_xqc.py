"""What the forwards of a critic and a policy with BatchNorm really do, for each arm."""

import numpy as np
import pytest
import torch

from bnmodes.agents.shared import forward_as
from bnmodes.agents.xqc import XQCAgent
from bnmodes.envs.contract import EnvSpec
from bnmodes.errors import UsageError
from bnmodes.protocol import Protocol
from helpers.settings import settings_of

pytestmark = pytest.mark.numeric

SPEC = EnvSpec("fake", 3, (4, 10, 10), 1, 1.0, 1)
ARMS = ("bn-joined", "bn-separate", "bn-running", "xqc-no-target")
CRITIC_ROLES = ("predict", "bootstrap", "improve_critic")
POLICY_ROLES = ("act", "evaluate", "improve", "bootstrap_actor")
DECLARED = {
    "bn-joined": {"predict": "batch", "bootstrap": "batch", "joined": True},
    "bn-separate": {"predict": "batch", "bootstrap": "batch", "joined": False},
    "bn-running": {"predict": "batch", "bootstrap": "running", "joined": False},
    "xqc-no-target": {"predict": "batch", "bootstrap": "batch", "joined": True},
}


def untouched_agent(arm: str, update: float, **changes) -> XQCAgent:
    """`update` is the weight with which loss forwards write."""
    weights = {f"protocol.{role}.update": update for role in ("predict", "improve")}
    settings = settings_of("xqc", arm, **weights, replay_capacity=100, **changes)
    return XQCAgent(settings, SPEC, seed=0, total_decisions=100)


def make_agent(arm: str, **changes) -> XQCAgent:
    agent = untouched_agent(arm, update=0.5, **changes)
    with torch.no_grad():  # moments and parameters that no two networks share
        for shift, network in enumerate(agent.networks.values()):
            for tensor in network.state_dict().values():
                tensor.mul_(1 + 0.1 * shift).add_(0.01 * (shift + 1))
    return agent


def state_actions(seed: int, rows: int = 6) -> tuple[torch.Tensor, torch.Tensor]:
    rng = np.random.default_rng(seed)
    obs = torch.from_numpy(rng.integers(0, 2, (rows, 4, 10, 10)).astype(np.uint8))
    return obs, torch.eye(3)[torch.from_numpy(rng.integers(3, size=rows))]


def answer(agent: XQCAgent, role: str, now, following) -> torch.Tensor:
    """Of the first row: what the role's network says."""
    protocol = agent.settings.protocol
    with torch.no_grad():
        if role in ("predict", "bootstrap"):
            return agent._critic(role, now, following)[:, 0]
        if role == "improve":  # its features are not its own: those are improve_critic's
            return forward_as(role, protocol, agent.actors, now[0].flatten(1)[:, :128].float())[0]
        if role == "improve_critic":
            return forward_as(role, protocol, agent.critics, now)[:, 0]
        return agent._logits(role, now[0])[0]


def stored(agent: XQCAgent) -> dict[str, list[torch.Tensor]]:
    return {name: [b.clone() for b in net.buffers()] for name, net in agent.networks.items()}


def observe(arm: str, role: str) -> dict:
    """Each question is put to a new agent, because asking may write."""
    now, following, others = state_actions(1), state_actions(2), state_actions(3)
    own, other_half = (following, now) if role == "bootstrap" else (now, following)

    def ask(change=lambda agent: None, own=own, other_half=other_half):
        agent = make_agent(arm)
        change(agent)
        halves = (other_half, own) if role == "bootstrap" else (own, other_half)
        return answer(agent, role, *halves)

    def moved(network: str):
        def change(agent):
            for module in agent.networks[network].modules():
                if hasattr(module, "variance"):
                    module.mean.add_(1.0)
                    module.variance.mul_(3.0)

        return change

    agent = make_agent(arm)
    before = stored(agent)
    said = answer(agent, role, now, following)
    after = stored(agent)
    mates = tuple(torch.cat([mine[:1], new[1:]]) for mine, new in zip(own, others, strict=True))
    return {
        "reads": {name for name in before if not torch.equal(said, ask(moved(name)))},
        "writes": {name for name in before if not all(map(torch.equal, before[name], after[name]))},
        "batch-mates": not torch.allclose(said, ask(own=mates), atol=1e-5),
        "other half": not torch.allclose(said, ask(other_half=others), atol=1e-5),
    }


def promised(arm: str, role: str) -> dict:
    declared, reads, writes = DECLARED[arm], set(), set()
    bootstrap = "online_critic" if arm == "xqc-no-target" else "target_critic"
    if role == "predict":
        writes = {"online_critic"}
    if role == "bootstrap" and declared["bootstrap"] == "running":
        reads = {bootstrap}
    if role == "improve":
        writes = {"online_actor"}
    if role == "improve_critic":
        reads = {"online_critic"}
    if role in ("act", "evaluate", "bootstrap_actor"):
        reads = {"online_critic", "online_actor"}
    return {
        "reads": reads,
        "writes": writes,
        "batch-mates": role == "improve" or declared.get(role) == "batch",
        "other half": role in ("predict", "bootstrap") and declared["joined"],
    }


@pytest.mark.parametrize("arm", ARMS)
@pytest.mark.parametrize("role", CRITIC_ROLES + POLICY_ROLES)
def test_a_forward_does_what_its_arm_declares(arm, role):
    assert observe(arm, role) == promised(arm, role)


@pytest.mark.parametrize("arm", ARMS)
def test_one_update_makes_the_declared_forwards_and_no_other(arm, monkeypatch):
    agent = make_agent(arm, batch_size=8, policy_delay=1)
    fill(agent)
    calls = record_calls(agent, monkeypatch)
    agent.make_updates(1)
    obs = state_actions(1, rows=4)[0].numpy()
    agent.decisions = 10**6
    agent.act(obs[:1])
    agent.greedy(obs)
    assert calls == declared_calls(agent.settings.protocol, batch=8)


def fill(agent: XQCAgent) -> None:
    from bnmodes.envs.contract import Step

    obs = state_actions(0, rows=1)[0].numpy()
    agent.begin(obs)
    for seed in range(20):
        obs = state_actions(seed, rows=1)[0].numpy()
        no = np.zeros(1, bool)
        agent.observe(np.array([seed % 3]), Step(obs, obs, np.ones(1, np.float32), no, no))


def record_calls(agent: XQCAgent, monkeypatch) -> list[tuple]:
    calls = []

    def recorded(name, run):
        def call(x, mode):
            rows = len(x[0] if isinstance(x, tuple) else x)
            calls.append((name, mode.statistics, mode.update, rows))
            return run(x, mode)

        return call

    parts = {f"{p} encoder": e for p, e in agent.encoders.items()}
    parts |= {f"{p} heads": h for p, h in agent.heads.items()}
    parts |= {f"{p} actor": a for p, a in agent.actors.items()}
    for name, part in parts.items():
        monkeypatch.setattr(part, "run", recorded(name, part.run))
    return calls


def declared_calls(protocol: Protocol, batch: int) -> list[tuple]:
    calls = []
    rows = {"joined": 2 * batch, "acting": 1, "evaluation": 4}
    for part, role in (
        ("encoder", "bootstrap_actor"), ("actor", "bootstrap_actor"),
        ("encoder", "bootstrap"), ("heads", "bootstrap"),
        ("encoder", "predict"), ("heads", "predict"),
        ("encoder", "improve_critic"), ("actor", "improve"), ("heads", "improve_critic"),
        ("encoder", "act"), ("actor", "act"),
        ("encoder", "evaluate"), ("actor", "evaluate"),
    ):  # fmt: skip
        forward = getattr(protocol, role)
        count = rows.get(forward.population, batch)
        calls.append((f"{forward.params} {part}", forward.statistics, forward.update, count))
    return calls


def test_joined_moments_are_those_of_exactly_both_halves():
    """With a weight of 1 the stored moments are the batch's own, so they tell which rows it had."""
    now, following = state_actions(1), state_actions(2)
    for arm, obs, action in (
        ("bn-joined", torch.cat([now[0], following[0]]), torch.cat([now[1], following[1]])),
        ("bn-separate", *now),
    ):
        agent = untouched_agent(arm, update=1.0)
        with torch.no_grad():
            agent._critic("predict", now, following)
            convolved = agent.encoders["online"].linears[0](obs.float())
        layer = agent.encoders["online"].norms[0]
        torch.testing.assert_close(layer.mean, convolved.mean((0, 2, 3)))
        torch.testing.assert_close(layer.variance, convolved.var((0, 2, 3), unbiased=False))
        for twin in agent.heads["online"].twins:
            torch.testing.assert_close(twin.input_norm.mean[-3:], action.mean(0))


def test_joined_rows_are_each_normalised_as_in_one_plain_batch():
    now, following = state_actions(1), state_actions(2)
    agent = make_agent("bn-joined")
    both = tuple(torch.cat(parts) for parts in zip(now, following, strict=True))
    with torch.no_grad():
        whole = agent.critics["target"](both, agent.settings.protocol.bootstrap)
        torch.testing.assert_close(agent._critic("bootstrap", now, following), whole[:, 6:])
        whole = agent.critics["online"](both, agent.settings.protocol.predict)
        torch.testing.assert_close(agent._critic("predict", now, following), whole[:, :6])


def test_a_tracked_policy_is_two_passes_over_encoder_and_actor():
    changes = {"protocol.bootstrap_actor.track": 0.5}
    agent, twin = (make_agent("bn-joined", **changes) for _ in range(2))
    obs, _ = state_actions(0)
    with torch.no_grad():
        found = agent._logits("bootstrap_actor", obs)
        declared = twin.settings.protocol.bootstrap_actor
        expected = twin.policies[declared.params](obs, declared)
    assert torch.equal(found, expected)


def test_a_critic_that_runs_in_two_parts_cannot_be_tracked():
    settings = settings_of("xqc", **{"protocol.improve_critic.track": 0.5})
    with pytest.raises(UsageError, match="drop its track"):
        settings.validate(evaluation_rows=10)
