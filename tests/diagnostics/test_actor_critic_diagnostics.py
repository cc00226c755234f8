"""What is measured of actor-critics, on networks and populations changed so that it is known."""

from copy import deepcopy

import numpy as np
import pytest
import torch
from torch import nn

from bnmodes.agents.actor_critic import joined
from bnmodes.protocol import BATCH, RUNNING, Mode
from bnmodes.runs.checkpoint import _encode
from helpers.actor_critic_agents import build, fill
from helpers.playing import play

pytestmark = pytest.mark.numeric

XQC_ARMS = ("bn-joined", "bn-separate", "bn-running", "xqc-no-target")
CRITIC_LAYERS = (
    "conv1", "dense", "critic1_input", "critic1_action", "critic1_dense1", "critic2_dense1",
)  # fmt: skip
ACTOR_LAYERS = ("actor_input", "actor_dense1")
NAMES = ("mean_shift", "mean_shift_p90", "log_variance_ratio", "kl")
EPSILON = 1e-3
"""XQC's, added to every variance."""


def learnt(name, decisions=80, **changes):
    """After some updates; one minibatch of 64 rows is twice the width."""
    agent, games = build(name, **({"batch_size": 64, "learning_starts_decisions": 64} | changes))
    play(agent, games, steps=decisions)
    return agent


def rng():
    return np.random.default_rng(5)


def measured(agent) -> dict:
    return agent.diagnose(np.zeros(0), rng())


@torch.no_grad()
def inputs_of(agent):
    """What `measured` gives each role, where it looks at one minibatch."""
    random = rng()
    drawn = agent.transitions(agent.settings.batch_size, random)
    noise = torch.Generator().manual_seed(int(random.integers(2**63 - 1)))
    return {role: one.inputs for role, one in agent.role_forwards(drawn, noise).items()}


@torch.no_grad()
def joined_of(agent):
    """(s, a) and (s′, a′) of that minibatch as one batch, also where no role joins them."""
    inputs, count = inputs_of(agent), agent.settings.batch_size
    if len(inputs["predict"][0]) > count:
        return inputs["predict"]
    return joined(inputs["predict"], inputs["bootstrap"])


@pytest.mark.parametrize("arm", XQC_ARMS)
def test_every_batchnorm_arm_measures_every_role_and_layer(arm):
    row = measured(learnt("xqc", arm=arm))
    layers = {
        "predict": CRITIC_LAYERS, "bootstrap": CRITIC_LAYERS, "improve_critic": CRITIC_LAYERS,
        "act": ("conv1", "dense", *ACTOR_LAYERS), "improve": ACTOR_LAYERS,
        "bootstrap_actor": ("conv1", "dense", *ACTOR_LAYERS),
        "halves": CRITIC_LAYERS, "now_half": CRITIC_LAYERS, "next_half": CRITIC_LAYERS,
    }  # fmt: skip
    for role, places in layers.items():
        for layer in places:
            assert {f"{role}/{layer}/{name}" for name in NAMES} <= row.keys()
            assert all(row[f"{role}/{layer}/{name}_floor"] > 0 for name in NAMES)
    for role in ("predict", "bootstrap", "improve_critic"):
        assert row[f"{role}/q_change"] > 0
        assert 0 < row[f"{role}/total_variation"] < 1
        assert f"{role}/greedy_changed" not in row
    for role in ("act", "improve", "bootstrap_actor"):
        assert 0 <= row[f"{role}/greedy_changed"] <= 1
    assert np.isfinite(np.hstack(list(row.values()))).all()


@pytest.mark.parametrize(
    ("name", "layers"),
    [
        ("td3", {"conv1", "dense", "critic1_dense2", "critic2_head", "actor_dense1"}),
        ("xqc", {"conv1", "dense", "critic1_dense1", "critic2_head", "actor_dense1"}),
        ("mrq", {"dense", "embedding_action", "embedding_dense2", "critic2_dense3", "actor_head"}),
    ],
)
def test_every_agent_measures_plasticity(name, layers):
    row = measured(learnt(name))
    assert len(row["spectrum"]) == 32
    assert 1 < row["effective_rank"] <= 32
    assert {"predict/mean_q", "bootstrap/mean_q", "actor/dormant_0.025"} <= row.keys()
    for layer in layers:
        assert row[f"{layer}/gradient_norm"] > 0
        assert 0 < row[f"{layer}/effective_learning_rate"] < 1
        assert (f"{layer}/dormant_0" in row) != layer.endswith("head")
    assert any("shift" in key for key in row) == (name == "xqc")


@pytest.mark.parametrize("name", ["td3", "xqc", "mrq"])
def test_nothing_is_measured_before_critic_and_policy_were_updated(name):
    agent, games = build(name)
    fill(agent, games, 30)
    assert measured(agent) == {}


@pytest.mark.parametrize(
    ("name", "arm"), [("td3", None), ("mrq", None), ("xqc", "bn-joined"), ("crossq", "batchrenorm")]
)
def test_measuring_leaves_the_agent_as_it_was(name, arm):
    agent = learnt(name, arm=arm)

    def everything():
        tensors = {}
        tree = repr(_encode(agent.state(), tensors))
        return tree, [*(t.clone() for t in tensors.values()), torch.get_rng_state()]

    before = everything()
    row = measured(agent)
    after = everything()
    assert before[0] == after[0]
    assert all(torch.equal(a, b) for a, b in zip(before[1], after[1], strict=True))
    assert measured(agent) == row


@pytest.mark.parametrize(
    ("name", "arm"), [("td3", None), ("mrq", None), *(("xqc", arm) for arm in XQC_ARMS)]
)
def test_what_is_measured_is_the_forward_that_the_agent_runs(name, arm):
    """The network that diagnostics run gives what the agent's own code gives in the role."""
    agent = learnt(name, arm=arm)
    drawn = agent.transitions(16, rng())
    forwards = agent.role_forwards(drawn, torch.Generator().manual_seed(0))
    protocol = agent.settings.protocol
    assert list(forwards) == list(protocol.roles())
    for role, forward in forwards.items():
        assert forward.mode == getattr(protocol, role)
        networks = [agent.networks[n] for n in forward.networks]
        before = [deepcopy(network.state_dict()) for network in networks]
        with torch.no_grad():
            own = forward.output()
        for network, state in zip(networks, before, strict=True):
            network.load_state_dict(state)
        assert len(own) == forward.batch_size
        if forward.network is not None:
            mode = Mode(statistics=forward.mode.statistics)
            with torch.no_grad():
                output = forward.samples_first(forward.network(forward.inputs, mode))
            assert torch.equal(output, own)
        else:
            assert role in ("model", "model_target")


def test_stored_moments_shifted_by_a_known_amount_are_found_in_the_role_that_reads_them():
    """Moments of all joined rows, then moved by 0.7 deviations and three times the variance."""
    agent = learnt("xqc")
    target = agent.critics["target"]
    with torch.no_grad():
        target(joined_of(agent), Mode(statistics="batch", update=1.0))
        exact = measured(agent)
        norms = [m for m in target.modules() if hasattr(m, "variance")]
        for norm in norms:
            norm.mean.add_(0.7 * (norm.variance + norm.epsilon).sqrt())
            norm.variance.mul_(3)
    moved = measured(agent)
    for layer in CRITIC_LAYERS:
        assert exact[f"bootstrap/{layer}/mean_shift"] == pytest.approx(0, abs=1e-4)
        assert exact[f"bootstrap/{layer}/kl"] == pytest.approx(0, abs=1e-4)
        assert moved[f"bootstrap/{layer}/mean_shift"] == pytest.approx(0.7, rel=1e-3)
    assert moved["bootstrap/dense/log_variance_ratio"] == pytest.approx(np.log(3), rel=0.01)
    for name in ("q_change", "total_variation"):
        assert exact[f"bootstrap/{name}"] == pytest.approx(0, abs=1e-4)
        assert moved[f"bootstrap/{name}"] > 0.05
    for name in moved:
        if not name.startswith("bootstrap/"):
            assert moved[name] == exact[name], "the online networks' moments are others"


def two_populations(arm):
    """The replay only knows action 0, and the policy only action 2."""
    agent = learnt("xqc", arm=arm)
    agent.replay.action[:] = 0
    with torch.no_grad():
        head = agent.actors["online"].head
        head.weight.zero_()
        head.bias.copy_(torch.tensor([0.0, 0.0, 1000.0]))
    return agent


@pytest.mark.parametrize("arm", ["bn-joined", "bn-separate", "bn-running", "xqc-no-target"])
def test_two_populations_of_actions_are_far_apart_and_each_is_far_from_both(arm):
    """Means (1, 0, 0) and (0, 0, 1), each without variance; of both together (½, 0, ½) and ¼."""
    row = measured(two_populations(arm))
    for twin in (1, 2):
        halves = {p: f"{p}/critic{twin}_action" for p in ("halves", "now_half", "next_half")}
        assert row[f"{halves['halves']}/mean_shift"] == pytest.approx(EPSILON**-0.5, rel=1e-3)
        for half in ("now_half", "next_half"):
            shift = row[f"{halves[half]}/mean_shift"]
            assert shift == pytest.approx(0.5 / (0.25 + EPSILON) ** 0.5, rel=1e-3)
            ratio = row[f"{halves[half]}/log_variance_ratio"]
            assert ratio == pytest.approx(np.log((0.25 + EPSILON) / EPSILON), rel=1e-3)
        for pair in halves.values():
            assert row[f"{pair}/mean_shift"] > 5 * row[f"{pair}/mean_shift_floor"]


def test_joined_batches_meet_the_moments_that_separate_ones_cannot():
    """With the moments of both halves stored, a joined role is consistent and a lone one is not."""
    found = {}
    for arm in ("bn-joined", "bn-separate"):
        agent = two_populations(arm)
        with torch.no_grad():
            agent.critics["target"](joined_of(agent), Mode(statistics="batch", update=1.0))
        found[arm] = measured(agent)["bootstrap/critic1_action/mean_shift"]
    assert found["bn-joined"] == pytest.approx(0, abs=1e-4)
    assert found["bn-separate"] == pytest.approx(0.5 / EPSILON**0.5, rel=1e-3)


def test_halves_of_one_population_are_as_far_apart_as_random_halves():
    agent = learnt("xqc", decisions=100)
    with torch.no_grad():  # every action as likely as every other, in replay and policy
        agent.actors["online"].head.weight.zero_()
        agent.actors["online"].head.bias.zero_()
    agent.replay.action[:] = np.arange(len(agent.replay.action))[:, None] % 3
    row = measured(agent)
    for pair in ("halves", "now_half", "next_half"):
        floor = row[f"{pair}/critic1_action/kl_floor"]
        assert row[f"{pair}/critic1_action/kl"] < 4 * floor
        assert row[f"{pair}/conv1/kl"] < 4 * row[f"{pair}/conv1/kl_floor"]


def test_relaxed_actions_are_another_population_than_one_hot_ones():
    """A policy near uniform: the means agree, and the variance is a hundredth of a one-hot's."""
    agent = learnt("xqc")
    with torch.no_grad():
        for twin in agent.heads["online"].twins:
            twin.input_norm.mean[-3:] = 1 / 3
            twin.input_norm.variance[-3:] = 2 / 9  # of one of three one-hot actions, drawn alike
    relaxed = inputs_of(agent)["improve_critic"][1].double().numpy()
    row = measured(agent)
    ratio = (2 / 9 + EPSILON) / (relaxed.var(0) + EPSILON)
    layer = "improve_critic/critic1_action"
    assert row[f"{layer}/log_variance_ratio"] == pytest.approx(np.median(np.log(ratio)), rel=1e-3)
    assert row[f"{layer}/log_variance_ratio"] > 3
    assert row[f"{layer}/log_variance_ratio"] > 5 * row[f"{layer}/log_variance_ratio_floor"]


def test_the_change_of_outputs_is_between_the_two_statistics_on_the_same_rows():
    agent = learnt("xqc")
    row, inputs, support = measured(agent), inputs_of(agent), agent.support.double().numpy()
    count = agent.settings.batch_size
    for role, params, batch, kept in (
        ("predict", "online", inputs["predict"], slice(0, count)),
        ("bootstrap", "target", inputs["bootstrap"], slice(count, None)),
        ("improve_critic", "online", inputs["improve_critic"], slice(None)),
    ):
        with torch.no_grad():
            logits = [agent.critics[params](batch, mode)[:, kept] for mode in (RUNNING, BATCH)]
        p, q = (x.softmax(-1).double().numpy() for x in logits)
        total_variation = np.abs(p - q).sum(-1).mean() / 2
        assert row[f"{role}/total_variation"] == pytest.approx(total_variation, rel=1e-3)
        assert row[f"{role}/q_change"] == pytest.approx(np.abs((p - q) @ support).mean(), rel=1e-3)
        own = p if role == "improve_critic" else q
        assert row[f"{role}/mean_q"] == pytest.approx((own @ support).mean(), rel=1e-3, abs=1e-5)
    with torch.no_grad():
        actor, encoder = agent.actors["online"], agent.encoders["online"]
        logits = [
            actor(encoder(inputs["bootstrap_actor"], mode), mode) for mode in (RUNNING, BATCH)
        ]
        changed = (logits[0].argmax(-1) != logits[1].argmax(-1)).double().mean()
        assert row["bootstrap_actor/greedy_changed"] == pytest.approx(float(changed), rel=1e-4)
        logits = [actor(inputs["improve"], mode) for mode in (RUNNING, BATCH)]
        changed = (logits[0].argmax(-1) != logits[1].argmax(-1)).double().mean()
        assert row["improve/greedy_changed"] == pytest.approx(float(changed), rel=1e-4)


@pytest.mark.parametrize("name", ["td3", "xqc", "mrq"])
def test_max_q_is_of_the_best_one_hot_action(name):
    agent = learnt(name)
    obs, _ = inputs_of(agent)["improve_critic"]
    mode = agent.settings.protocol.improve_critic
    with torch.no_grad():
        each = [
            agent.q_values(agent.critics["online"]((obs, one.expand(64, -1)), mode)).mean(0)
            for one in torch.eye(3)
        ]
    best = float(torch.stack(each).amax(0).mean())
    assert measured(agent)["improve_critic/max_q"] == pytest.approx(best, rel=1e-3, abs=1e-5)


def test_features_are_those_of_the_predicted_half_before_the_first_critics_head():
    agent = learnt("xqc")
    critic = deepcopy(agent.critics["online"])
    for twin in critic.heads.twins:
        twin.head = nn.Identity()
    with torch.no_grad():
        features = critic(joined_of(agent), BATCH)[0, :64].double().numpy()
    values = np.linalg.svd(features - features.mean(0), compute_uv=False)
    np.testing.assert_allclose(measured(agent)["spectrum"], values, rtol=1e-3, atol=1e-3)


def test_dead_units_are_counted_in_critic_and_policy():
    agent = learnt("td3")
    critic, actor = agent.critics["online"], agent.actors["online"]
    with torch.no_grad():
        for linear, units in (
            (critic.encoder.linears[0], 4),
            (critic.heads.twins[1].linears[0], 8),
            (actor.linears[1], 16),
        ):
            linear.weight[:units] = 0
            linear.bias[:units] = -1
    row = measured(agent)
    for layer, share in (("conv1", 4 / 16), ("critic2_dense1", 8 / 32), ("actor_dense2", 16 / 32)):
        assert row[f"{layer}/dormant_0"] >= share
    hidden = {"conv1": 16, "dense": 128} | {f"critic{n}_dense{m}": 32 for n in "12" for m in "12"}
    pooled = sum(units * row[f"{layer}/dormant_0"] for layer, units in hidden.items())
    assert row["dormant_0"] == pytest.approx(pooled / sum(hidden.values()), rel=1e-4)
    pooled = (row["actor_dense1/dormant_0"] + row["actor_dense2/dormant_0"]) / 2
    assert row["actor/dormant_0"] == pytest.approx(pooled, rel=1e-4)


def test_a_unit_that_is_always_negative_is_not_dormant_behind_an_elu():
    agent = learnt("mrq")
    conv = agent.encoders["online"].linears[0]
    with torch.no_grad():
        conv.weight[:6] = 0
        conv.bias[:4] = -1  # |ELU(−1)| is 0.63
        conv.bias[4:6] = 0
        conv.bias[6:] = 1
    assert measured(agent)["conv1/dormant_0"] == 2 / 16


def test_mrqs_rows_are_prioritised_and_bootstrap_after_its_return():
    agent = learnt("mrq", return_steps=3)
    replay = agent.replay
    newest = replay.newest_frame[: replay.transitions_added, 0]
    start = next(t for t in range(40) if newest[t + 3] == newest[t] + 3)
    replay.terminated[start : start + 3] = False
    agent.priorities.values[:] = 0
    agent.priorities.values[start] = 1
    obs, action, next_obs = agent.transitions(5, rng())
    held = replay.gather(np.zeros(2, np.int64), np.array([start, start + 3]))
    assert (obs == held.obs[0]).all()
    assert (next_obs == held.obs[1]).all()
    assert (action == held.action[0]).all()
