"""What is measured of real agents, on networks changed so that the answer is known."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from bnmodes.agents.registry import AGENTS
from bnmodes.diagnostics import replay_batches, rollout_batches
from bnmodes.diagnostics.role_forward import RoleForward, joined
from bnmodes.envs.registry import make_env
from bnmodes.protocol import BATCH, RUNNING, Mode
from bnmodes.runs.checkpoint import _encode
from helpers.playing import play
from helpers.settings import settings_of

pytestmark = pytest.mark.numeric

ROLES = ("predict", "bootstrap", "act")


def learnt(name, arm, steps, **changes):
    """An agent after a few updates, and what it is going to act on."""
    settings = settings_of(name, arm, **changes)
    games = make_env("minatar/breakout", settings.env_rows, seed=0)
    agent = AGENTS[name].build(settings, games.spec, seed=0, total_decisions=1_000)
    return agent, play(agent, games, steps)


def c51(arm="bn-batch", decisions=120, **changes):
    short = {"learning_starts_decisions": 80, "replay_capacity": 300}
    if arm == "bn-tracked":
        short["protocol.bootstrap.track"] = 0.5
    return learnt("c51", arm, decisions, **(short | changes))


def pqn(arm="bn-running", decisions=8, **changes):
    small = {"num_envs": 16, "test_envs": 4, "rollout_steps": 8, "minibatches": 4}
    return learnt("pqn", arm, decisions, **(small | changes))


def rng():
    return np.random.default_rng(5)


def batches_of(agent) -> dict:
    """The rows that `agent.diagnose(obs, rng())` looks at."""
    return replay_batches(agent.replay, agent.settings.batch_size, 256, agent.acting_group, rng())


@pytest.mark.parametrize("arm", ["none", "ln"])
def test_without_batchnorm_there_is_no_mismatch_to_measure(arm):
    agent, obs = c51(arm)
    row = agent.diagnose(obs, rng())
    assert not [name for name in row if "shift" in name or "changed" in name]
    assert row.keys() >= {"predict/max_q", "dormant_0.025", "effective_rank", "spectrum"}


@pytest.mark.parametrize(
    ("make", "arm"),
    [
        (c51, "bn-running"), (c51, "bn-batch"), (c51, "bn-tracked"),
        (pqn, "bn-running"), (pqn, "bn-batch"),
    ],
)  # fmt: skip
def test_every_batchnorm_arm_measures_every_role_and_layer(make, arm):
    agent, obs = make(arm)
    row = agent.diagnose(obs, rng())
    for role in ROLES:
        for layer in ("conv1", "dense"):
            for name in ("mean_shift", "mean_shift_p90", "log_variance_ratio", "kl"):
                assert row[f"{role}/{layer}/{name}"] > 0
                assert row[f"{role}/{layer}/{name}_floor"] > 0
        assert 0 <= row[f"{role}/greedy_changed"] <= 1
        assert row[f"{role}/q_change"] > 0
        assert (f"{role}/total_variation" in row) == (make is c51)
    assert len(row["spectrum"]) == 128
    assert np.isfinite([v for v in row.values() if isinstance(v, float)]).all()


def test_nothing_is_measured_before_the_first_update_also_after_a_resume():
    agent, obs = c51(decisions=79)
    assert agent.diagnose(obs, rng()) == {}
    agent.load_state(agent.state())
    assert agent.diagnose(obs, rng()) == {}


@pytest.mark.parametrize(
    ("make", "arm"), [(c51, "bn-tracked"), (c51, "bn-wn"), (pqn, "bn-running"), (pqn, "bn-batch")]
)
def test_measuring_leaves_the_agent_as_it_was(make, arm):
    agent, obs = make(arm)

    def everything():
        tensors = {}
        tree = repr(_encode(agent.state(), tensors))
        values = [t.clone() for t in tensors.values()]
        return tree, [*values, torch.get_rng_state()], obs.copy()

    before = everything()
    agent.diagnose(obs, rng())
    after = everything()
    assert before[0] == after[0]
    assert all(torch.equal(a, b) for a, b in zip(before[1], after[1], strict=True))
    assert np.array_equal(before[2], after[2])
    assert agent.diagnose(obs, rng()) == agent.diagnose(obs, rng())


def test_stored_moments_shifted_by_a_known_amount_are_found_in_the_role_that_reads_them():
    """Moments of all rows, then moved by 0.7 standard deviations and three times the variance."""
    agent, obs = c51("bn-batch", batch_size=256)
    (batch,) = batches_of(agent)["bootstrap"]
    target = agent.networks["target"]
    with torch.no_grad():
        target(batch, Mode(statistics="batch", update=1.0))
        exact = agent.diagnose(obs, rng())
        for norm in target.norms:
            norm.mean.add_(0.7 * (norm.variance + norm.epsilon).sqrt())
            norm.variance.mul_(3)
    moved = agent.diagnose(obs, rng())
    for layer in ("conv1", "dense"):
        assert exact[f"bootstrap/{layer}/mean_shift"] == pytest.approx(0, abs=1e-4)
        assert exact[f"bootstrap/{layer}/kl"] == pytest.approx(0, abs=1e-4)
        assert moved[f"bootstrap/{layer}/mean_shift"] == pytest.approx(0.7, rel=1e-3)
        assert moved[f"bootstrap/{layer}/mean_shift_p90"] == pytest.approx(0.7, rel=1e-3)
        assert moved[f"bootstrap/{layer}/log_variance_ratio"] == pytest.approx(np.log(3), rel=1e-3)
    for name in moved:
        if not name.startswith("bootstrap/"):
            assert moved[name] == exact[name], "the online network's moments are others"


def test_exact_moments_change_no_output():
    biased = {"norm.bn_stored_variance": "biased"}
    agent, obs = c51("bn-running", batch_size=256, **biased)
    (batch,) = batches_of(agent)["bootstrap"]
    with torch.no_grad():
        agent.networks["target"](batch, Mode(statistics="batch", update=1.0))
    row = agent.diagnose(obs, rng())
    assert row["bootstrap/q_change"] == pytest.approx(0, abs=1e-4)
    assert row["bootstrap/total_variation"] == pytest.approx(0, abs=1e-4)
    assert row["bootstrap/greedy_changed"] == 0


@pytest.mark.parametrize("arm", ["bn-running", "bn-batch"])
def test_the_change_of_outputs_is_between_the_two_statistics_on_the_same_rows(arm):
    agent, obs = c51(arm)
    row = agent.diagnose(obs, rng())
    for role, name in (("predict", "online"), ("bootstrap", "target"), ("act", "online")):
        total_variation, changed, difference, max_q = [], [], [], []
        for batch in batches_of(agent)[role]:
            with torch.no_grad():
                logits = {m: agent.networks[name](batch, m) for m in (RUNNING, BATCH)}
            p, q = (x.softmax(-1).double().numpy() for x in logits.values())
            support = np.linspace(-10, 10, 51)
            total_variation.append(np.abs(p - q).sum(-1) / 2)
            changed.append((p @ support).argmax(-1) != (q @ support).argmax(-1))
            difference.append(np.abs(p @ support - q @ support))
            own = getattr(agent.settings.protocol, role).statistics
            max_q.append(((p if own == "running" else q) @ support).max(-1))
        assert row[f"{role}/total_variation"] == pytest.approx(np.mean(total_variation), rel=1e-3)
        assert row[f"{role}/greedy_changed"] == pytest.approx(np.mean(changed), rel=1e-4)
        assert row[f"{role}/q_change"] == pytest.approx(np.mean(difference), rel=1e-3)
        assert row[f"{role}/max_q"] == pytest.approx(np.mean(max_q), rel=1e-3)


def test_a_tracked_role_reads_moments_that_its_own_rows_have_moved():
    """With weight 0.5, half of the first layer's shift remains."""
    agent, obs = c51("bn-tracked")
    tracked = agent.diagnose(obs, rng())
    protocol = agent.settings.protocol
    reading = replace(protocol, bootstrap=replace(protocol.bootstrap, track=None))
    agent.settings = replace(agent.settings, protocol=reading)
    plain = agent.diagnose(obs, rng())
    shift = "bootstrap/conv1/mean_shift"
    assert tracked[shift] == pytest.approx(0.5 * plain[shift], rel=1e-3)
    assert tracked["predict/conv1/mean_shift"] == plain["predict/conv1/mean_shift"]


def test_dead_units_and_tied_features_are_counted():
    agent, obs = c51("none")
    conv, dense = agent.networks["online"].linears
    with torch.no_grad():
        conv.weight[:4] = 0
        conv.bias[:4] = -1
        dense.weight[:32] = 0
        dense.bias[:32] = -1
        dense.weight[32:] = dense.weight[32:33]  # 96 units that say the same
        dense.bias[32:] = 50
    row = agent.diagnose(obs, rng())
    assert row["conv1/dormant_0"] == 4 / 16
    assert row["dense/dormant_0"] == 32 / 128
    assert row["dormant_0"] == 36 / 144
    assert row["effective_rank"] == pytest.approx(1, abs=1e-3)
    assert row["srank"] == 1


@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_a_diverged_network_does_not_end_the_run(value):
    agent, obs = c51("bn-batch")
    with torch.no_grad():
        agent.networks["online"].linears[0].weight.fill_(value)
    assert np.isnan(agent.diagnose(obs, rng())["effective_rank"])


def test_features_are_those_of_the_predict_role():
    """In minibatches of its size, normalised by each of them."""
    agent, obs = c51("bn-batch")
    batches = batches_of(agent)["predict"]
    assert batches.shape[:2] == (8, 32)
    with torch.no_grad():
        features = [agent.networks["online"].hidden(b, BATCH).numpy() for b in batches]
    features = np.concatenate(features).astype(np.float64)
    values = np.linalg.svd(features - features.mean(0), compute_uv=False)
    np.testing.assert_allclose(agent.diagnose(obs, rng())["spectrum"], values, rtol=1e-3, atol=1e-3)


def ranks(features) -> tuple[float, int]:
    """exp of the entropy of the singular values' shares, and how many make up 99% of their sum."""
    values = np.linalg.svd(features - features.mean(0), compute_uv=False)
    share = values / values.sum()
    share = share[share > 1e-12]
    return float(np.exp(-(share * np.log(share)).sum())), int((share.cumsum() < 0.99).sum()) + 1


def test_ranks_are_also_those_of_one_batch_normalised_together():
    agent, obs = c51("bn-batch")
    row, batches = agent.diagnose(obs, rng()), batches_of(agent)["predict"]
    with torch.no_grad():
        features = agent.networks["online"].hidden(batches.flatten(0, 1), BATCH).double().numpy()
    entropy_rank, srank = ranks(features)
    assert row["one_batch_effective_rank"] == pytest.approx(entropy_rank, rel=1e-3)
    assert row["one_batch_srank"] == srank
    assert row["effective_rank"] != pytest.approx(entropy_rank, rel=1e-3)


@pytest.mark.parametrize("arm", ["none", "ln"])
def test_rows_that_stand_alone_have_the_same_ranks_in_any_batch(arm):
    agent, obs = c51(arm)
    row = agent.diagnose(obs, rng())
    assert row["one_batch_effective_rank"] == row["effective_rank"]
    assert row["one_batch_srank"] == row["srank"]


@pytest.mark.parametrize("kept", [slice(None), slice(2), slice(2, None)])
def test_joined_batches_have_the_samples_that_are_kept_first(kept):
    forwards = [
        RoleForward(
            BATCH, lambda x: x[0], (torch.arange(4) + 10 * n, torch.zeros(4)), (), kept=kept
        )
        for n in range(3)
    ]
    whole = joined(forwards)
    wanted = torch.cat([forward.inputs[0][kept] for forward in forwards])
    assert whole.inputs[0][whole.kept].tolist() == wanted.tolist()
    every = torch.cat([forward.inputs[0] for forward in forwards])
    assert sorted(whole.inputs[0].tolist()) == sorted(every.tolist())
    assert len(whole.inputs[1]) == 12


def test_replay_rows_are_transitions_and_acting_rows_are_the_newest():
    agent, _ = c51(decisions=120)
    replay = agent.replay
    everything = replay.gather(np.zeros(120, np.int64), np.arange(120))
    pairs = {
        (a.numpy().tobytes(), b.numpy().tobytes())
        for a, b in zip(everything.obs, everything.next_obs, strict=True)
    }
    batches = replay_batches(replay, 20, 50, 20, rng())
    assert batches["predict"].shape[:2] == batches["bootstrap"].shape[:2] == (3, 20)
    for a, b in zip(batches["predict"].flatten(0, 1), batches["bootstrap"].flatten(0, 1)):  # noqa: B905
        assert (a.numpy().tobytes(), b.numpy().tobytes()) in pairs
    newest = sorted(row.numpy().tobytes() for row in everything.obs[60:])
    acted = sorted(row.numpy().tobytes() for row in batches["act"].flatten(0, 1))
    assert acted == newest
    assert batches["act"].shape[:2] == (3, 20)


def test_several_environments_act_in_the_batches_that_they_acted_in():
    agent, _ = c51(decisions=40, num_envs=4, learning_starts_decisions=20)
    act = replay_batches(agent.replay, 32, 64, 32, rng())["act"]
    assert act.shape[:2] == (2, 4)
    for batch, decision in zip(act, (39, 38), strict=True):
        together = agent.replay.gather(np.arange(4), np.full(4, decision)).obs
        assert torch.equal(batch, together)


def test_a_rollouts_rows_are_minibatches_steps_and_the_acting_batch():
    agent, obs = pqn(decisions=19)
    batches = rollout_batches(agent.rollout, 32, obs, 64, rng())
    assert {role: tuple(b.shape[:2]) for role, b in batches.items()} == {
        "predict": (2, 32), "bootstrap": (4, 16), "act": (1, 20),
    }  # fmt: skip
    steps = {step.numpy().tobytes() for step in agent.rollout.next_obs}
    assert {step.numpy().tobytes() for step in batches["bootstrap"]} <= steps
    held = {row.numpy().tobytes() for row in agent.rollout.obs.flatten(0, 1)}
    assert {row.numpy().tobytes() for row in batches["predict"].flatten(0, 1)} <= held
    assert np.array_equal(batches["act"][0].numpy(), obs)
    assert rollout_batches(agent.rollout, 32, obs, 999, rng())["predict"].shape[:2] == (4, 32)
