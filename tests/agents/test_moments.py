"""Batch statistics of other rows than the batch's own: whose they are, on real networks."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from bnmodes.agents.c51 import C51Agent
from bnmodes.agents.pqn import PQNAgent
from bnmodes.diagnostics import Transitions
from bnmodes.envs.contract import EnvSpec, Step
from bnmodes.envs.registry import make_env
from bnmodes.errors import UsageError
from bnmodes.norm.layers import BatchNorm, FirstRows
from bnmodes.protocol import BATCH, RUNNING, Forward, explain
from helpers.playing import play
from helpers.settings import settings_of

pytestmark = pytest.mark.numeric

SPEC = EnvSpec("fake", 3, (4, 10, 10), 1, 1.0, 1)
SMALL = {"batch_size": 6, "replay_capacity": 200, "learning_starts_decisions": 20}
OTHERS = ("bn-independent", "bn-pool", "bn-partner")


def c51(arm: str, **changes) -> C51Agent:
    settings = settings_of("c51", arm, "minatar", **SMALL, **changes)
    return C51Agent(settings, SPEC, seed=0, total_decisions=100)


def rows(count: int, seed: int) -> torch.Tensor:
    rng = np.random.default_rng(seed)
    return torch.from_numpy(rng.integers(0, 2, (count, *SPEC.obs_shape)).astype(np.uint8))


def test_statistics_of_the_first_rows_are_theirs_alone():
    x = torch.randn(7, 3, 4, 4, generator=torch.Generator().manual_seed(0))
    layer = BatchNorm(3)
    y = layer(x, FirstRows(rows=4))
    first = x[:4].double()
    mean = first.mean((0, 2, 3), keepdim=True)
    variance = ((first - mean) ** 2).mean((0, 2, 3), keepdim=True)
    torch.testing.assert_close(y.double(), (x - mean) / (variance + 1e-5).sqrt())
    torch.testing.assert_close(layer(x, FirstRows(rows=7)), layer(x, BATCH))
    assert torch.equal(layer.mean, torch.zeros(3))
    assert torch.equal(layer.variance, torch.ones(3))


@pytest.mark.parametrize("arm", OTHERS)
def test_a_row_depends_on_the_rows_of_the_moments_and_not_on_its_batch(arm):
    agent, obs, given = c51(arm), rows(6, 1), rows(6, 2)
    with torch.no_grad():
        before = [buffer.clone() for buffer in agent.networks["target"].buffers()]
        output = agent.forward("bootstrap", obs, given)
        other_mates = agent.forward("bootstrap", torch.cat([obs[:1], rows(5, 3)]), given)
        other_moments = agent.forward("bootstrap", obs, rows(6, 4))
        for buffer in agent.networks["target"].buffers():
            buffer.add_(1.0)
        other_stored = agent.forward("bootstrap", obs, given)
    torch.testing.assert_close(output[0], other_mates[0])
    assert not torch.allclose(output[0], other_moments[0], atol=1e-4)
    torch.testing.assert_close(output, other_stored)
    now = agent.networks["target"].buffers()
    assert all(torch.equal(a + 1.0, b) for a, b in zip(before, now, strict=True))


def test_moments_of_the_same_rows_are_the_batchs_own():
    """With its own rows as the others', every source gives what batch statistics give."""
    obs = rows(6, 1)
    with torch.no_grad():
        own = c51("bn-batch").forward("bootstrap", obs)
        for arm in OTHERS:
            torch.testing.assert_close(c51(arm).forward("bootstrap", obs, obs), own)


def games_of(agent):
    return make_env("minatar/breakout", agent.settings.env_rows, seed=0)


def recorded_bootstraps(agent, monkeypatch) -> list:
    """What each bootstrap forward of an agent is given beside its own rows."""
    seen, forward = [], agent.forward

    def spy(role, obs, companions=None):
        if role == "bootstrap":
            seen.append((obs, companions))
        return forward(role, obs, companions)

    monkeypatch.setattr(agent, "forward", spy)
    return seen


@pytest.mark.parametrize(("arm", "count"), [("bn-independent", 6), ("bn-pool", 50)])
def test_an_update_draws_other_rows_for_its_moments(arm, count, monkeypatch):
    agent = c51(arm, pool_rows=50)
    seen = recorded_bootstraps(agent, monkeypatch)
    play(agent, games_of(agent), steps=32)
    assert seen
    for obs, others in seen:
        assert len(others) == count
        assert not torch.equal(others[:6], obs)
    assert not torch.equal(seen[0][1], seen[1][1]), "new rows for each update"


@pytest.mark.parametrize("arm", ["bn-independent", "bn-pool"])
def test_the_other_rows_are_next_observations_of_the_replay(arm):
    """The first observation follows on nothing, the last one precedes nothing."""
    agent = c51(arm, pool_rows=50)
    pictures = play_into(agent, 30)
    drawn = agent.spare_rows("bootstrap", np.random.default_rng(0))
    more = [agent.spare_rows("bootstrap", np.random.default_rng(seed)) for seed in range(40)]
    assert whose(drawn, pictures) <= set(range(1, 31))
    assert set.union(*(whose(rows, pictures) for rows in more)) == set(range(1, 31))


def whose(drawn: torch.Tensor, pictures: np.ndarray) -> set[int]:
    """The places of these rows among the pictures."""
    places = [(pictures == row.numpy()).all((1, 2, 3)).nonzero()[0] for row in drawn]
    assert all(len(place) == 1 for place in places)
    return {int(place[0]) for place in places}


def diagnosed_companions(agent, obs, monkeypatch) -> set[int]:
    """How many rows each measured bootstrap forward is given beside its own."""
    seen, original = set(), agent._role_forward

    def spy(role, obs, companions):
        if role == "bootstrap":
            seen.add(len(companions))
        return original(role, obs, companions)

    monkeypatch.setattr(agent, "_role_forward", spy)
    agent.diagnose(obs, np.random.default_rng(0))
    return seen


@pytest.mark.parametrize(("arm", "count"), [("bn-independent", 6), ("bn-pool", 50)])
def test_diagnostics_use_as_many_other_rows_as_updates(arm, count, monkeypatch):
    agent = c51(arm, pool_rows=50)
    play(agent, games_of(agent), steps=32)
    assert diagnosed_companions(agent, rows(1, 0).numpy(), monkeypatch) == {count}


def test_the_partner_is_predicts_batch(monkeypatch):
    agent = c51("bn-partner")
    seen = recorded_bootstraps(agent, monkeypatch)
    batch = stored_batch(agent)
    agent.loss(batch)
    ((obs, others),) = seen
    assert torch.equal(obs, batch.next_obs)
    assert torch.equal(others, batch.obs)


def stored_batch(agent):
    play_into(agent, 30)
    return agent.replay.sample(6, np.random.default_rng(0))


def play_into(agent, transitions: int) -> np.ndarray:
    """Random transitions, without an update; returns the first picture and each next one."""
    pictures = rows(transitions + 1, 5).numpy()
    agent.replay.begin(pictures[:1])
    going_on = np.zeros(1, bool)
    for number in range(transitions):
        nxt = pictures[number + 1 : number + 2]
        step = Step(nxt, nxt, np.ones(1, np.float32), going_on, going_on)
        agent.replay.add(np.zeros(1, np.int64), step.reward, step)
    return pictures


def test_a_joined_batch_is_normalised_together_and_split_again():
    agent = c51("bn-joined")
    obs, next_obs = rows(6, 1), rows(6, 2)
    network = agent.networks["online"]
    expected = network(torch.cat([next_obs, obs]), BATCH)[6:]
    written = [buffer.clone() for buffer in network.buffers()]
    output = agent.forward("predict", obs, agent.companions("predict", next_obs, None))
    torch.testing.assert_close(output, expected)
    assert not all(torch.equal(a, b) for a, b in zip(written, network.buffers(), strict=True))
    with torch.no_grad():
        target = agent.networks["target"](torch.cat([obs, next_obs]), BATCH)[6:]
        found = agent.forward("bootstrap", next_obs, agent.companions("bootstrap", obs, None))
    torch.testing.assert_close(found, target)


def test_anchored_acting_reads_no_running_statistics():
    agent = c51("bn-anchored", epsilon_start=0.0, epsilon_end=0.0)
    assert len(agent.act(rows(1, 0).numpy())) == 1  # nothing to replay yet: a random action
    play_into(agent, 30)
    companions = agent.acting_companions()
    assert len(companions) == agent.settings.batch_size - 1
    obs = rows(1, 9)
    with torch.no_grad():
        before = agent.forward("act", obs, companions)
        for buffer in agent.networks["online"].buffers():
            buffer.add_(3.0)
        torch.testing.assert_close(agent.forward("act", obs, companions), before)
    assert all(
        forward.statistics != "running" for forward in agent.settings.protocol.roles().values()
    )


@pytest.mark.parametrize("arm", [*OTHERS, "bn-joined", "bn-anchored"])
def test_runs_go_on_as_if_never_saved(arm):
    whole, parted = c51(arm), c51(arm)
    play(whole, games_of(whole), steps=30)
    parted.load_state(whole.state())
    obs, rng = rows(1, 0).numpy(), np.random.default_rng(0)
    batch = whole.replay.sample(6, rng)
    for agent in (whole, parted):
        agent.act(obs)
        agent.update_on(batch)
    assert whole.moment_stream.bit_generator.state == parted.moment_stream.bit_generator.state
    for a, b in zip(
        whole.networks["online"].state_dict().values(),
        parted.networks["online"].state_dict().values(),
        strict=True,
    ):
        assert torch.equal(a, b)


@pytest.mark.parametrize(("arm", "count"), [("bn-independent", 8), ("bn-pool", 12)])
def test_pqn_draws_the_moments_rows_from_its_rollout(arm, count, monkeypatch):
    changes = {"num_envs": 8, "test_envs": 2, "rollout_steps": 4, "minibatches": 2}
    settings = settings_of("pqn", arm, "minatar", pool_rows=12, **changes)
    agent = PQNAgent(settings, make_env("minatar/breakout", 1, 0).spec, 0, 100)
    agent.next_value = agent._next_value
    seen = recorded_bootstraps(agent, monkeypatch)
    play(agent, games_of(agent), steps=4)
    assert [len(others) for _, others in seen] == [count] * 4
    valued = {row.numpy().tobytes() for obs, _ in seen for row in obs}
    drawn = {row.numpy().tobytes() for _, others in seen for row in others}
    assert drawn <= valued, "next observations of the same rollout"
    assert len(drawn) > 1
    assert diagnosed_companions(agent, games_of(agent).reset(), monkeypatch) == {count}


@pytest.mark.parametrize("arm", [*OTHERS, "bn-joined", "bn-anchored"])
def test_roles_show_the_forward_they_run(arm):
    agent = c51(arm)
    transitions = Transitions(rows(12, 1), torch.zeros(12, dtype=torch.int64), rows(12, 2))
    for role, forward in agent.role_forwards(transitions, torch.Generator()).items():
        with torch.no_grad():
            output = forward.output()
        assert len(output) == forward.batch_size
        declared = getattr(agent.settings.protocol, role)
        assert isinstance(forward.mode, FirstRows) == (declared.moments != "own")


@pytest.mark.parametrize("arm", [*OTHERS, "bn-joined", "bn-anchored"])
def test_diagnostics_measure_every_role(arm):
    agent = c51(arm)
    play(agent, games_of(agent), steps=40)
    row = agent.diagnose(rows(1, 0).numpy(), np.random.default_rng(0))
    assert np.isfinite([v for v in row.values() if isinstance(v, float)]).all()
    assert any(name.startswith("bootstrap/") for name in row)


def test_anchored_acting_is_diagnosed_in_the_batch_that_it_acts_in(monkeypatch):
    agent = c51("bn-anchored")
    play(agent, games_of(agent), steps=40)
    seen = []
    monkeypatch.setattr(agent, "measured", lambda batches, *_: seen.append(batches["act"]) or {})
    agent.diagnose(rows(1, 0).numpy(), np.random.default_rng(0))
    forward = agent._role_forward("act", seen[0][0], agent.acting_companions())
    assert len(forward.inputs) == agent.settings.batch_size, "one acting row beside the replayed"


def test_what_cannot_be_declared_is_refused():
    with pytest.raises(UsageError, match="never stored"):
        Forward.of(RUNNING, "target", "replay-next-obs", "pool")
    with pytest.raises(UsageError, match="never stored"):
        Forward.of(replace(BATCH, update=0.1), "target", "replay-next-obs", "pool")
    for population in ("joined", "acting+replay"):
        with pytest.raises(UsageError, match="use moments own, or another population"):
            Forward.of(BATCH, "target", population, "pool")
    protocol = settings_of("pqn", "bn-batch", "minatar").protocol
    for role, moments, words in (
        ("act", "pool", "act cannot take its statistics from 'pool'"),
        ("bootstrap", "partner", "this agent offers own, independent, pool"),
    ):
        changed = replace(protocol, **{role: replace(getattr(protocol, role), moments=moments)})
        settings = settings_of("pqn", "bn-batch", "minatar", protocol=changed)
        with pytest.raises(UsageError, match=words):
            settings.validate(10)


@pytest.mark.parametrize(
    ("arm", "words"),
    [
        ("bn-independent", "statistics of 32 other rows"),
        ("bn-pool", "statistics of 1,024 other rows"),
        ("bn-partner", "statistics of predict's rows"),
        ("bn-joined", "64 × joined"),
        ("bn-anchored", "32 × acting+replay"),
    ],
)
def test_the_table_says_whose_statistics(arm, words):
    settings = settings_of("c51", arm, "minatar", batch_size=32)
    assert words in explain(settings.protocol, settings.capabilities(10))
