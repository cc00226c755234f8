"""What TD3, XQC and MR.Q share, and what is special to TD3 and XQC."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from bnmodes.agents.q_learning import q_learning_protocol
from bnmodes.agents.settings import batchnorm_protocol, protocol_without_batchnorm
from bnmodes.agents.shared import forward_as, move_towards
from bnmodes.agents.xqc import ARMS as XQC_ARMS
from bnmodes.envs.probe import PROBES
from bnmodes.errors import UsageError
from bnmodes.learning.relaxed_actions import one_hot
from helpers.actor_critic_agents import ARM, build, fill
from helpers.playing import play
from helpers.settings import settings_of

pytestmark = pytest.mark.numeric

AGENTS = tuple(ARM)


def copied(tensors) -> list[torch.Tensor]:
    return [tensor.clone() for tensor in tensors]


def equal(a, b) -> bool:
    return all(torch.equal(x, y) for x, y in zip(a, b, strict=True))


@pytest.mark.parametrize("name", AGENTS)
@pytest.mark.parametrize(("utd", "num_envs"), [(0.5, 1), (2.0, 1), (1.0, 4)])
def test_updates_per_decision_are_counted_after_the_start(name, utd, num_envs):
    agent, games = build(name, updates_per_decision=utd, num_envs=num_envs)
    play(agent, games, steps=40 // num_envs)
    assert agent.updates == 20 * utd


@pytest.mark.parametrize("name", AGENTS)
def test_actions_are_random_before_learning_starts_and_the_policys_after(name):
    agent, games = build(name, "probe/bandit", num_envs=300)
    obs = games.reset()
    assert np.bincount(agent.act(obs), minlength=3).min() > 60
    with torch.no_grad():
        agent.actors["online"].head.bias += torch.tensor([0.0, 0.0, 100.0])
    agent.decisions = 20
    assert (agent.greedy(obs) == 2).all()
    # e^10 to 1 in the relaxed action; noise of 0.1 seldom makes up for a distance of 1.
    assert np.mean(agent.act(obs) == 2) > 0.99
    with torch.no_grad():
        agent.actors["online"].head.bias -= torch.tensor([0.0, 0.0, 97.0])
    assert np.bincount(agent.act(obs), minlength=3).min() > 10, "near-uniform at temperature 10"


@pytest.mark.parametrize("name", AGENTS)
def test_evaluation_takes_the_likeliest_action_or_a_sample_and_changes_nothing(name):
    agent, games = build(name, "probe/bandit", num_envs=300, evaluate_sampled=False)
    obs = games.reset()[:1].repeat(300, axis=0)
    (likeliest,) = set(agent.greedy(obs).tolist())
    with torch.no_grad():
        assert agent._logits("evaluate", torch.from_numpy(obs[:1])).argmax() == likeliest
    sampled, _ = build(name, "probe/bandit", num_envs=300, evaluate_sampled=True)
    before = sampled.policy_stream.get_state()
    first, second = sampled.greedy(obs), sampled.greedy(obs)
    assert len(set(first.tolist())) > 1
    assert (first != second).any()
    sampled.load_state(sampled.state())
    np.testing.assert_array_equal(sampled.greedy(obs), first)
    sampled.load_networks({name: net.state_dict() for name, net in sampled.networks.items()})
    np.testing.assert_array_equal(sampled.greedy(obs), first)
    for each in (agent, sampled):
        assert torch.equal(each.policy_stream.get_state(), before)


@pytest.mark.parametrize("name", AGENTS)
def test_rewards_are_stored_raw(name):
    agent, games = build(name, "probe/truncation")
    fill(agent, games, 3)
    assert agent.replay.sample(4, np.random.default_rng(0)).reward.tolist() == [0.5] * 4


@pytest.mark.parametrize("name", AGENTS)
def test_metrics_are_means_over_the_updates_since_the_last(name):
    agent, games = build(name)
    assert agent.take_metrics()["updates"] == 0
    play(agent, games, steps=60)
    metrics = agent.take_metrics()
    assert {"loss", "predict_q", "bootstrap_q"} <= metrics.keys()
    assert ("reward_scale" in metrics) == (name != "crossq")
    assert np.isfinite(list(metrics.values())).all()
    assert "loss" not in agent.take_metrics()


def test_averaging_is_towards_the_online_network():
    target, online = [torch.tensor([1.0, 2.0])], [torch.tensor([3.0, -2.0])]
    move_towards(target, online, 0.25)
    assert target[0].tolist() == [1.5, 1.0]
    move_towards(target, online, 1.0)
    assert equal(target, online)
    move_towards(target, [torch.tensor([9.0, 9.0])], 0.0)
    assert equal(target, online)


def test_td3_moves_policy_and_targets_at_every_second_update():
    agent, games = build("td3", target_weight=0.1)
    fill(agent, games, 30)
    networks = {name: copied(net.parameters()) for name, net in agent.networks.items()}
    agent.make_updates(1)
    for name in ("target_critic", "target_actor", "online_actor"):
        assert equal(agent.networks[name].parameters(), networks[name])
    assert not equal(agent.networks["online_critic"].parameters(), networks["online_critic"])
    agent.make_updates(1)
    for part in ("critic", "actor"):
        for old, online, target in zip(
            networks[f"target_{part}"],
            agent.networks[f"online_{part}"].parameters(),
            agent.networks[f"target_{part}"].parameters(),
            strict=True,
        ):
            torch.testing.assert_close(target, 0.9 * old + 0.1 * online)
    assert not equal(agent.networks["online_actor"].parameters(), networks["online_actor"])


def test_td3s_policy_trains_no_encoder_and_no_critic():
    agent, games = build("td3")
    fill(agent, games, 30)
    before = copied(agent.critics["online"].parameters())
    obs = agent.replay.sample(16, agent.replay_stream).obs
    agent.policy_update(obs, agent._gumbel(16))
    assert equal(agent.critics["online"].parameters(), before)


def test_td3s_target_is_the_lower_critic_of_the_noisy_next_action(monkeypatch):
    agent, games = build("td3", target_noise=0.3, target_noise_clip=0.05)
    fill(agent, games, 60)
    stream, policy = agent.replay_stream.bit_generator.state, agent.policy_stream.get_state()
    batch = agent.replay.sample(16, agent.replay_stream)
    with torch.no_grad():
        next_action = agent._next_action(batch.next_obs, agent._bootstrap_noise())
        alone = agent.settings.protocol.bootstrap
        next_q = agent.critics["target"]((batch.next_obs, next_action), alone)[..., 0]
        q = agent.critics["online"]((batch.obs, one_hot(batch.action, 3)), alone)[..., 0]
    expected = 0.0
    scale = np.abs(agent.replay.reward[:60]).mean() or 1.0
    for row in range(16):
        target = batch.reward[row] / scale
        if not batch.terminated[row]:
            target += 0.99 * min(next_q[0, row], next_q[1, row])
        expected += ((q[0, row] - target) ** 2 + (q[1, row] - target) ** 2) / 16
    agent.replay_stream.bit_generator.state = stream
    agent.policy_stream.set_state(policy)
    agent.make_updates(1)
    assert agent.take_metrics()["loss"] == pytest.approx(expected.item(), rel=1e-4)
    assert batch.terminated.any()


@pytest.mark.parametrize(("arm", "follow"), [("bn-joined", False), ("bn-running", True)])
def test_xqcs_target_averages_parameters_and_moments_only_where_they_are_read(arm, follow):
    agent, games = build("xqc", arm=arm, target_weight=0.1)
    fill(agent, games, 30)
    target, online = agent.critics["target"], agent.critics["online"]
    parameters, moments = copied(target.parameters()), copied(target.buffers())
    agent.make_updates(1)
    for old, new, now in zip(parameters, online.parameters(), target.parameters(), strict=True):
        torch.testing.assert_close(now, 0.9 * old + 0.1 * new)
    assert equal(target.buffers(), moments) is not follow
    if follow:
        for old, new, now in zip(moments, online.buffers(), target.buffers(), strict=True):
            torch.testing.assert_close(now, 0.9 * old + 0.1 * new)


def test_every_kernel_of_xqc_stays_on_the_sphere_and_biases_are_free():
    agent, games = build("xqc")
    play(agent, games, steps=60)
    for network in (agent.critics["online"], agent.actors["online"]):
        layers = [m for m in network.modules() if isinstance(m, torch.nn.Linear | torch.nn.Conv2d)]
        assert len(layers) >= 2
        for layer in layers:
            norms = layer.weight.flatten(1).norm(dim=1)
            torch.testing.assert_close(norms, torch.ones_like(norms))
    assert agent.actors["online"].head.bias.abs().max() > 0
    assert all(twin.head.bias.abs().max() > 0 for twin in agent.heads["online"].twins)


def test_xqcs_policy_waits_and_its_learning_rate_falls_to_a_tenth():
    agent, games = build("xqc", total_decisions=60, policy_between="skipped")
    fill(agent, games, 20)
    actor = agent.actors["online"]
    agent.make_updates(1)
    before, moments = copied(actor.parameters()), copied(actor.buffers())
    agent.make_updates(2)
    assert equal(actor.parameters(), before)
    assert equal(actor.buffers(), moments)
    agent.make_updates(1)
    assert not equal(actor.parameters(), before)
    assert agent.learning_rate == pytest.approx(3e-4 * (1 - 0.9 * 4 / 40))
    agent.updates = 40
    assert agent.learning_rate == agent.policy_learning_rate == pytest.approx(3e-5)
    agent.make_updates(1)
    assert agent.optimizers["critic"].learning_rate == pytest.approx(3e-5)


def test_xqcs_release_masks_only_the_policys_optimizer_step():
    """Its running statistics change at every update, its rate falls only with its own steps."""
    agent, games = build("xqc", total_decisions=1220, replay_capacity=3_000)
    fill(agent, games, 20)
    actor = agent.actors["online"]
    agent.make_updates(1)
    parameters = copied(actor.parameters())
    for _ in range(2):
        moments = copied(actor.buffers())
        agent.make_updates(1)
        assert equal(actor.parameters(), parameters)
        assert not equal(actor.buffers(), moments)
    agent.make_updates(1)
    assert not equal(actor.parameters(), parameters)
    assert agent.optimizers["actor"].learning_rate == pytest.approx(3e-4 * (1 - 0.9 / 1200))
    agent.updates = 1200
    assert agent.learning_rate == pytest.approx(3e-5)
    assert agent.policy_learning_rate == pytest.approx(2.1e-4)


def test_statistics_of_a_masked_update_are_those_of_the_policys_loss():
    """The forward without a step leaves the moments that an update with a step of 0 leaves."""
    masked, stepped = (build("xqc", policy_delay=delay)[0] for delay in (3, 1))
    for agent in (masked, stepped):
        fill(agent, build("xqc")[1], 30)
    for agent in (masked, stepped):
        agent.updates = 1
        batch = agent.replay.sample(16, np.random.default_rng(0))
        if agent is stepped:
            agent._policy_loss(batch.obs, agent._gumbel(16))
        else:
            agent.policy_statistics(batch.obs)
    assert equal(masked.actors["online"].buffers(), stepped.actors["online"].buffers())


def test_xqc_without_a_target_bootstraps_from_the_online_critic():
    agent, games = build("xqc", arm="xqc-no-target")
    play(agent, games, steps=30)
    assert set(agent.networks) == {"online_critic", "online_actor"}
    assert np.isfinite(agent.take_metrics()["loss"])


def test_xqcs_target_is_the_whole_distribution_of_the_lower_critic():
    """A critic whose expectation is lower everywhere gives every row its distribution."""
    agent, games = build("xqc", v_min=-10.0, v_max=10.0)
    fill(agent, games, 30)
    low, high = (torch.zeros(2, 21) for _ in range(2))
    low[0, 5], low[1, 8] = 50.0, 50.0  # expectations −5 and −2
    agent._critic = lambda role, now, following: (
        low[:, None].expand(2, 16, 21) if role == "bootstrap" else high.requires_grad_()[:, None]
        .expand(2, 16, 21)
    )  # fmt: skip
    agent._descend = lambda name, loss, rate: loss.backward()
    agent.replay.reward[:] = 0
    agent.replay.terminated[:] = False
    agent.settings = replace(agent.settings, gamma=1.0)
    agent.make_updates(1)
    # The gradient of cross-entropy at equal logits is 1/21 minus the target.
    target = 1 / 21 - high.grad
    assert target[0, 5].item() == pytest.approx(1, abs=1e-4)
    assert target[1, 5].item() == pytest.approx(1, abs=1e-4)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"temperature": 0.0}, "temperature is 0.0, but must be above 0"),
        ({"gamma": 1.5}, "gamma is 1.5, but must be between 0 and 1"),
        ({"batch_size": 0}, "at least 1"),
        ({"exploration_noise": -1.0}, "at least 0"),
        ({"target_noise": float("nan")}, "finite"),
        ({"replay_capacity": 3}, "at least 16"),
        ({"policy_delay": 0}, "at least 1"),
        ({"target_weight": 2.0}, "between 0 and 1"),
        ({"v_min": 5.0}, "must be below"),
        ({"bn_epsilon": 0.0}, "above 0"),
    ],
)
def test_settings_out_of_bounds_are_refused(changes, words):
    with pytest.raises(UsageError, match=words):
        build("xqc", **changes)


def with_role(role, **changes):
    declared = batchnorm_protocol()
    return replace(declared, **{role: replace(getattr(declared, role), **changes)})


@pytest.mark.parametrize(
    ("agent", "protocol", "words"),
    [
        ("xqc", with_role("improve", update=None), "give improve an update"),
        ("xqc", with_role("bootstrap_actor", params="target"), "only bootstrap"),
        ("xqc", with_role("improve", params="target"), "must be online"),
        ("xqc", with_role("improve", population="joined"), "offers replay-obs"),
        ("xqc", with_role("act", statistics="batch"), "one row"),
        ("xqc", protocol_without_batchnorm(), "has BatchNorm"),
        ("xqc", q_learning_protocol(), "declare its forward"),
        ("td3", batchnorm_protocol(), "offers replay-obs"),
        ("td3", batchnorm_protocol(joined=False), "no BatchNorm"),
    ],
)
def test_protocols_without_a_meaning_are_refused(agent, protocol, words):
    with pytest.raises(UsageError, match=words):
        build(agent, protocol=protocol)


@pytest.mark.parametrize("name", AGENTS)
def test_an_unknown_arm_is_refused(name):
    with pytest.raises(UsageError, match="choose one of"):
        settings_of(name, "bn", "atari")


@pytest.mark.parametrize("arm", XQC_ARMS)
@pytest.mark.parametrize("family", ["atari", "minatar", "probe"])
def test_every_arm_of_xqc_is_valid(arm, family):
    settings_of("xqc", arm, family).validate(evaluation_rows=10)


def test_the_studys_atari_hyperparameters():
    td3, xqc, mrq = (settings_of(name, ARM[name], "atari") for name in ("td3", "xqc", "mrq"))
    for each in (td3, xqc, mrq):
        assert (each.batch_size, each.gamma, each.replay_capacity) == (256, 0.99, 1_000_000)
        assert (each.temperature, each.exploration_noise, each.target_noise) == (10, 0.1, 0.1)
    assert [c.target_noise_clip for c in (td3, xqc, mrq)] == [0.25, 0.25, 0.15]
    assert [c.learning_starts_decisions for c in (td3, xqc, mrq)] == [10_000, 5_000, 10_000]
    assert [c.updates_per_decision for c in (td3, xqc, mrq)] == [1, 2, 1]
    assert (td3.policy_delay, xqc.policy_delay) == (2, 3)
    assert td3.target_weight == xqc.target_weight == 0.005
    assert (xqc.atoms, xqc.v_min, xqc.v_max, xqc.bn_epsilon) == (101, -5, 5, 1e-3)
    assert (xqc.hidden_layers, xqc.critic_units, xqc.actor_units) == (4, 512, 256)
    assert xqc.projection.head
    assert (mrq.return_steps, mrq.unroll_steps, mrq.target_period_updates) == (3, 5, 250)


LEARNING = {
    "td3": {"learning_rate": 1e-3, "target_weight": 0.2, "reward_scale_period_updates": 50},
    "xqc": {"learning_rate": 3e-3, "target_weight": 0.1, "v_min": -20.0, "v_max": 20.0},
    "crossq": {"learning_rate": 1e-3, "policy_delay": 1},
    "mrq": {
        "encoder_learning_rate": 1e-3,
        "value_learning_rate": 3e-3,
        "policy_learning_rate": 1e-3,
        "unroll_steps": 2,
    },
}  # fmt: skip
POLICY = {
    "gamma": 0.9,
    "temperature": 1.0,
    "exploration_noise": 0.5,
    "target_noise": 0.0,
    "batch_size": 32,
    "learning_starts_decisions": 100,
    "num_envs": 2,
}


DECISIONS = {"td3": 700, "xqc": 600, "crossq": 900, "mrq": 400}
LONGER = {("xqc", "truncation"): 1000}
# CrossQ's critic learns only at corners of the simplex, and its policy may stay at the bandit's
# second-best action.
LEARNT = [(n, p) for n in AGENTS for p in PROBES if (n, p) != ("crossq", "bandit")]


@pytest.mark.learns
@pytest.mark.parametrize(("name", "probe"), LEARNT)
def test_learned_values_and_actions_are_right_on_the_probes(name, probe, seed):
    """Much noise keeps every action visited; at temperature 1 the policy becomes the greedy one,
    whose values are the optimal ones.

    Where no episode ends, each sweep through the target brings a value nearer by a tenth only, and
    XQC's learning rate falls over all decisions: of a run of 600 its values end at 4.1 to 4.5
    instead of 5, whatever the processor; of a run of 1,000 they are right.
    """
    settings = POLICY | LEARNING[name]
    decisions = LONGER.get((name, probe), DECISIONS[name])
    agent, games = build(name, f"probe/{probe}", None, decisions, seed, **settings)
    play(agent, games, steps=decisions // games.num_envs)
    observations, true_q = PROBES[probe].true_values(gamma=0.9)
    states, actions = true_q.shape
    obs = torch.from_numpy(observations).repeat_interleave(actions, 0)
    action = one_hot(torch.arange(actions).repeat(states), actions)
    with torch.no_grad():
        said = forward_as("improve_critic", agent.settings.protocol, agent.critics, (obs, action))
    if name == "xqc":
        q = agent._expected(said).mean(0) * agent.returns.deviation
    else:
        q = said.squeeze(-1).mean(0) * getattr(agent, "reward_scale", 1.0)
    np.testing.assert_allclose(q.reshape(states, actions), true_q, atol=0.25, rtol=0.1)
    best = true_q.max(1) - true_q[np.arange(states), agent.greedy(observations)]
    assert best.max() < 1e-9, "no action but an optimal one"
