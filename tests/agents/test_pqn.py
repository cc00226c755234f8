import numpy as np
import pytest
import torch

from bnmodes.agents.pqn import PQNAgent
from bnmodes.agents.pqn_arms import ARMS
from bnmodes.envs.probe import PROBES
from bnmodes.envs.registry import make_env
from bnmodes.errors import UsageError
from bnmodes.protocol import BATCH, RUNNING
from helpers.playing import play
from helpers.settings import settings_of

pytestmark = pytest.mark.numeric

SMALL = {"num_envs": 6, "test_envs": 2, "rollout_steps": 8, "minibatches": 4}
COMBINATIONS = {
    "bn-running": (RUNNING, RUNNING),
    "bn-bootstrap-only": (RUNNING, BATCH),
    "bn-act-only": (BATCH, RUNNING),
    "bn-batch": (BATCH, BATCH),
}


def build(
    arm="bn-batch", env="minatar/breakout", total_decisions=2000, alpha=0.01, seed=0, **changes
):
    if arm.startswith("bn"):
        changes |= {"protocol.predict.update": alpha}
    settings = settings_of("pqn", arm, **(SMALL | changes))
    settings.validate(evaluation_rows=10)
    games = make_env(env, settings.env_rows, seed=seed)
    return PQNAgent(settings, games.spec, seed=seed, total_decisions=total_decisions), games


def parameters(agent: PQNAgent) -> list[torch.Tensor]:
    return [p.detach().clone() for p in agent.networks["online"].parameters()]


def equal(a, b) -> bool:
    return all(torch.equal(x, y) for x, y in zip(a, b, strict=True))


@pytest.mark.parametrize("arm", COMBINATIONS)
@pytest.mark.parametrize("role", ["act", "bootstrap", "predict"])
def test_each_role_depends_on_what_its_combination_declares(arm, role):
    act, bootstrap = COMBINATIONS[arm]
    mode = {"act": act, "bootstrap": bootstrap, "predict": BATCH}[role]
    rng = np.random.default_rng(0)
    x, others = (
        torch.from_numpy(rng.integers(0, 2, (8, 4, 10, 10)).astype(np.uint8)) for _ in range(2)
    )

    def first_row(rows, shift=0.0):
        agent, _ = build(arm)
        for module in agent.networks["online"].norms:
            module.mean.add_(shift)
            module.variance.mul_(1 + shift)
        before = [b.clone() for b in agent.networks["online"].buffers()]
        y = agent.forward(role, rows).detach()[0]
        return y, equal(before, agent.networks["online"].buffers())

    y, unwritten = first_row(x)
    stored_matter = not torch.equal(y, first_row(x, shift=1.0)[0])
    mates_matter = not torch.allclose(y, first_row(torch.cat([x[:1], others[1:]]))[0], atol=1e-6)
    assert stored_matter == (mode is RUNNING)
    assert mates_matter == (mode is BATCH)
    assert unwritten == (role != "predict")


def test_in_batch_batch_nothing_depends_on_stored_moments():
    """Two very different weights of the stored moments: one and the same trajectory."""
    trajectories = []
    for alpha in (0.001, 0.9):
        agent, games = build("bn-batch", alpha=alpha)
        obs = play(agent, games, steps=40)
        trajectories.append([*parameters(agent), torch.from_numpy(obs)])
    assert agent.updates == 5
    assert equal(*trajectories)


@pytest.mark.parametrize("arm", ["bn-running", "bn-act-only", "bn-bootstrap-only"])
def test_elsewhere_the_weight_of_the_stored_moments_matters(arm):
    trajectories = []
    for alpha in (0.001, 0.9):
        agent, games = build(arm, alpha=alpha)
        play(agent, games, steps=40)
        trajectories.append(parameters(agent))
    assert not equal(*trajectories)


def values_of(source: str, arm: str, env: str, **changes):
    """Next values of one rollout, and which of them count (a terminated step's do not)."""
    agent, games = build(arm, env, bootstrap_source=source, **changes)
    obs = games.reset()
    for _ in range(agent.settings.rollout_steps):
        actions = agent.act(obs)
        step = games.step(actions)
        agent.observe(actions, step)
        obs = step.obs
    return agent._next_values(agent.rollout.on_device()), ~agent.rollout.terminated


@pytest.mark.parametrize(
    ("env", "arm", "changes", "same"),
    [
        *(
            (env, arm, changes, True)
            for env in ("minatar/breakout", "probe/truncation")
            for arm, changes in (("bn-running", {}), ("ln", {}), ("bn-batch", {"test_envs": 0}))
        ),
        # 8 rows acted together, 6 are bootstrapped: other rows, other moments.
        ("minatar/breakout", "bn-batch", {}, False),
        # The cache holds what acting computed, whatever bootstrap declares.
        ("minatar/breakout", "bn-bootstrap-only", {}, False),
    ],
)
def test_the_acting_cache_is_a_recomputation_only_of_the_same_rows_in_the_same_mode(
    env, arm, changes, same
):
    cached, counts = values_of("acting-cache", arm, env, **changes)
    recomputed, _ = values_of("recompute", arm, env, **changes)
    assert torch.allclose(cached[counts], recomputed[counts], atol=1e-5) is same


def test_after_a_truncation_the_cache_does_not_use_the_next_game():
    """Every fifth step truncates: there the next acting value belongs to a new game."""
    agent, games = build("ln", "probe/truncation", bootstrap_source="acting-cache")
    obs = games.reset()
    for _ in range(8):
        actions = agent.act(obs)
        step = games.step(actions)
        agent.observe(actions, step)
        obs = step.obs
    assert agent.rollout.cut[4].all()
    agent.rollout.acting_value[5] = 99.0
    values = agent._next_values(agent.rollout.on_device())
    assert (values[4] < 50).all()
    assert (agent._targets(agent.rollout.on_device())[:5] < 50).all()


@pytest.mark.parametrize("terminates", [False, True])
def test_a_truncated_episodes_last_value_is_dropped_only_as_released(terminates):
    agent, games = build(
        "ln", "probe/truncation", trace=0.0, gamma=0.9, truncation_terminates=terminates
    )
    agent.learn = lambda: None  # keeps the rollout
    play(agent, games, steps=8)
    rollout = agent.rollout.on_device()
    truncated = rollout["cut"]
    assert truncated.any()
    assert rollout["terminated"].equal(truncated) == terminates, "nothing else ends there"
    bootstrapped = agent._targets(rollout) - rollout["reward"]
    assert (bootstrapped[truncated] == 0).all() == terminates


def test_test_rows_act_greedily_and_are_never_learnt_from():
    agent, games = build("ln")
    obs = games.reset()
    actions = agent.act(obs)
    with torch.no_grad():
        greedy = agent.forward("act", torch.from_numpy(obs)).argmax(-1).numpy()
    assert agent.epsilon == 1.0
    assert (actions[6:] == greedy[6:]).all()
    runs = []
    for reward in (0.0, 1000.0):
        agent, games = build("ln", clip_rewards=False)
        obs = games.reset()
        for _ in range(16):
            actions = agent.act(obs)
            step = games.step(actions)
            step.reward[6:] = reward
            agent.observe(actions, step)
            agent.learn()
            obs = step.obs
        runs.append(parameters(agent))
    assert agent.updates == 2
    assert equal(*runs)


def test_an_update_is_epochs_times_minibatches_steps_over_every_transition(monkeypatch):
    agent, games = build(epochs=3)
    seen = []
    update = agent.update

    def watched(obs, action, target):
        seen.append(target)
        return update(obs, action, target)

    monkeypatch.setattr(agent, "update", watched)
    play(agent, games, steps=8)
    assert len(seen) == 3 * 4
    epochs = [torch.cat(seen[i : i + 4]) for i in range(0, 12, 4)]
    assert all(torch.equal(e.sort().values, epochs[0].sort().values) for e in epochs)
    assert not torch.equal(epochs[0], epochs[1]), "each epoch has its own order"


def test_epsilon_falls_linearly_in_updates_over_its_part_of_the_run():
    agent, _ = build(total_decisions=48 * 100)
    assert agent.total_updates == 100
    epsilons = []
    for agent.updates in (0, 5, 10, 50):
        epsilons.append(agent.epsilon)
    assert epsilons == pytest.approx([1.0, 0.5005, 0.001, 0.001])


def test_the_gradient_is_clipped():
    moved = []
    for clip in (10.0, 1e-9):
        agent, games = build("none", gradient_clip=clip, learning_rate=1.0)
        before = parameters(agent)
        play(agent, games, steps=8)
        pairs = zip(parameters(agent), before, strict=True)
        moved.append(max((a - b).abs().max().item() for a, b in pairs))
    assert moved[1] < moved[0]


def test_the_papers_hyperparameters():
    settings = settings_of("pqn", "bn-running", "atari")
    assert (settings.num_envs, settings.test_envs, settings.rollout_steps) == (128, 8, 32)
    assert (settings.minibatches, settings.epochs, settings.minibatch_size) == (32, 2, 128)
    assert (settings.learning_rate, settings.gradient_clip) == (2.5e-4, 10.0)
    assert (settings.gamma, settings.trace) == (0.99, 0.65)
    assert (settings.epsilon_start, settings.epsilon_end, settings.epsilon_decay_fraction) == (
        1,
        0.001,
        0.1,
    )
    assert settings.norm.bn_stored_variance == "biased"
    assert settings.protocol.predict.update == 0.01
    assert (settings.bins, settings.v_min, settings.v_max) == (51, -10, 20)
    for arm in ARMS:
        settings_of("pqn", arm, "atari").validate(evaluation_rows=10)


def test_the_papers_table_is_complete():
    """Rows that are no settings: optimizer, initialisation, activation, counts, σ."""
    said = settings_of("pqn", "bn-batch", "atari", head="hl-gauss").fixed()
    assert said["optimizer"] == "RAdam, β (0.9, 0.999)"
    assert "LeCun" in said["initialisation"]
    assert said["activation"] == "ReLU"
    assert said["transitions per update"] == "4,096"
    assert (said["minibatch size"], said["optimizer steps per update"]) == ("128", "64")
    assert said["HL-Gauss σ"] == "0.75 bins"


def test_what_does_not_divide_is_refused():
    with pytest.raises(UsageError, match="does not divide into 5 minibatches"):
        settings_of("pqn", "ln", "atari", minibatches=5).validate(evaluation_rows=10)


PROBE_SETTINGS = {
    "gamma": 0.9,
    "clip_rewards": False,
    "num_envs": 32,
    "test_envs": 2,
    "rollout_steps": 4,
    "minibatches": 2,
    "learning_rate": 2e-3,
    "epsilon_end": 0.5,
    "trace": 0.0,
}


@pytest.mark.learns
@pytest.mark.parametrize(
    ("probe", "arm", "head"),
    [
        ("bandit", "bn-batch", "scalar"),
        ("terminal-reward", "bn-batch", "scalar"),
        ("chain", "ln", "scalar"),
        ("chain", "ln", "hl-gauss"),
        ("truncation", "ln", "scalar"),
        ("truncation", "bn-batch", "hl-gauss"),
    ],
)
def test_learned_values_are_right_on_the_probes(probe, arm, head, seed):
    """λ is 0, because Q(λ) follows the exploring actions. Values are read beside the rollout's own
    rows, because batch statistics belong to a mixture of states."""
    agent, games = build(
        arm, f"probe/{probe}", 32 * 4 * 250, seed=seed, head=head, **PROBE_SETTINGS
    )
    play(agent, games, steps=4 * 250)
    observations, true_q = PROBES[probe].true_values(gamma=0.9)
    np.testing.assert_allclose(values_among_rollout(agent, observations), true_q, atol=0.3)


@torch.no_grad()
def values_among_rollout(agent: PQNAgent, observations: np.ndarray) -> np.ndarray:
    rows = torch.cat([torch.from_numpy(observations), agent.rollout.obs.flatten(0, 1)])
    return agent.q_values(agent.forward("act", rows))[: len(observations)].numpy()


@pytest.mark.learns
def test_batch_statistics_learn_the_chain_from_many_rows_of_one_population(seed):
    """The next observations hold the dark one after the end, which no acting row is: on a chain of
    four states that is another population, and values shift. The acting cache has none.

    At a constant learning rate the values move around the true ones, here by up to 0.4: what is
    learnt is their mean over the last updates, which is within 0.15 for seeds 0 to 4."""
    agent, games = build(
        "bn-batch",
        "probe/chain",
        bootstrap_source="acting-cache",
        seed=seed,
        total_decisions=128 * 2 * 400,
        **(PROBE_SETTINGS | {"num_envs": 128, "rollout_steps": 2}),
    )
    observations, true_q = PROBES["chain"].true_values(gamma=0.9)
    obs = play(agent, games, steps=400)
    values = []
    for _ in range(20):
        obs = play(agent, games, steps=20, obs=obs)
        values.append(values_among_rollout(agent, observations))
    q = np.mean(values, axis=0)
    np.testing.assert_allclose(q, true_q, atol=0.25)
    assert (q.argmax(-1)[1:] == 1).all()
