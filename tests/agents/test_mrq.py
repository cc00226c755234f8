"""What is special to MR.Q: its model, its bursts, its several-step targets and its priorities."""

import numpy as np
import pytest
import torch

from bnmodes.learning.relaxed_actions import one_hot
from bnmodes.protocol import Mode
from helpers.actor_critic_agents import build, fill

EACH_ROW_ALONE = Mode(statistics="none")

pytestmark = pytest.mark.numeric


def copied(network) -> list[torch.Tensor]:
    return [tensor.clone() for tensor in network.state_dict().values()]


def same(network, before) -> bool:
    return all(map(torch.equal, network.state_dict().values(), before))


def test_targets_are_copied_and_the_encoder_learns_in_bursts_only():
    agent, games = build("mrq", target_period_updates=5)
    fill(agent, games, 60)
    encoder, target = agent.encoders["online"], agent.critics["target"]
    embedding = agent.heads["online"].embedding
    begin = copied(encoder)
    critic_before = copied(agent.critics["online"])
    agent.make_updates(1)
    assert not same(encoder, begin)
    assert same(target, critic_before), "the copy comes before the burst"
    after_burst, embedded = copied(encoder), copied(embedding)
    target_before = copied(target)
    for _ in range(4):
        twins, actor = copied(agent.heads["online"].twins), copied(agent.actors["online"])
        agent.make_updates(1)
        assert same(encoder, after_burst), "no gradient of values or policy reaches it"
        assert same(embedding, embedded)
        assert same(target, target_before)
        assert not same(agent.heads["online"].twins, twins)
        assert not same(agent.actors["online"], actor)
    before_copy = copied(agent.critics["online"])
    agent.make_updates(1)
    assert not same(encoder, after_burst)
    assert same(target, before_copy)


def test_the_scale_of_the_target_values_is_the_one_they_were_learnt_in():
    agent, games = build("mrq", "probe/truncation", target_period_updates=2)
    fill(agent, games, 30)
    agent.make_updates(1)
    assert agent.reward_scale == agent.target_reward_scale == pytest.approx(0.5)
    agent.replay.reward[:30] = 2.0
    agent.make_updates(1)
    assert agent.reward_scale == 0.5
    agent.make_updates(1)
    assert (agent.reward_scale, agent.target_reward_scale) == (2.0, 0.5)


def test_value_targets_against_a_loop_over_rows():
    agent, games = build("mrq")
    fill(agent, games, 80)
    agent.reward_scale, agent.target_reward_scale = 0.3, 0.7
    _, _, sequences = agent._sample(agent.settings.batch_size, 3, agent.replay_stream)
    stream = agent.policy_stream.get_state()
    last = sequences.last_next_obs()
    with torch.no_grad():
        next_rows = (last, agent._next_action(last, agent._bootstrap_noise()))
        next_q = agent.critics["target"](next_rows, EACH_ROW_ALONE)[..., 0]
        now = (sequences.observation(0), one_hot(sequences.action[:, 0], 3))
        q = agent.critics["online"](now, EACH_ROW_ALONE)[..., 0]
    errors, losses = [], []
    for row in range(len(last)):
        total, alive, steps = 0.0, True, 0
        for step in range(3):
            if sequences.exists[row, step]:
                total += 0.99**step * sequences.reward[row, step].item()
                alive = not sequences.terminated[row, step]
                steps += 1
        bootstrap = 0.99**steps * next_q[:, row].min().item() * 0.7 if alive else 0.0
        both = [abs(q[k, row].item() - (total + bootstrap) / 0.3) for k in range(2)]
        errors.append(max(both))
        losses += [0.5 * e**2 if e < 1 else e - 0.5 for e in both]
    agent.policy_stream.set_state(stream)
    found = agent._learn_values(sequences).numpy()
    np.testing.assert_allclose(found, errors, rtol=1e-4, atol=1e-4)
    assert agent.means.take()["loss"] == pytest.approx(np.mean(losses), rel=1e-4)
    assert sequences.terminated.any()
    assert (~sequences.exists).any()


@pytest.mark.parametrize("termination_seen", [True, False])
def test_the_model_loss_against_a_loop_over_rows_and_steps(termination_seen):
    agent, games = build("mrq", batch_size=40)
    fill(agent, games, 80)
    agent.termination_seen = termination_seen
    state = agent.replay_stream.bit_generator.state
    _, _, sequences = agent._sample(agent.settings.batch_size, 3, agent.replay_stream)
    online, places = agent.critics["online"], agent.reward_bins.places()
    losses = []
    with torch.no_grad():
        for row in range(40):
            zs = online.encoder(sequences.observation(0)[row : row + 1], EACH_ROW_ALONE)
            total = 0.0
            for step in range(3):
                if (sequences.terminated[row, :step]).any() or not sequences.exists[row, step]:
                    break
                action = one_hot(sequences.action[row : row + 1, step], 3)
                said = agent.model(online.heads.embedding((zs, action), EACH_ROW_ALONE))
                zs = said.next_state
                came = sequences.observation(step + 1)[row : row + 1]
                came = agent.encoders["target"](came, EACH_ROW_ALONE)
                reward = sequences.reward[row, step]
                at = int((places - reward).abs().argmin())
                assert abs(places[at] - reward) < 1e-4 or reward == 1.0
                log_p = said.reward_logits.log_softmax(-1)[0]
                weights = agent.reward_bins.encode(reward[None])[0]
                total += ((zs - came) ** 2).mean().item()
                total -= 0.1 * sum(w * lp for w, lp in zip(weights, log_p, strict=True)).item()
                if termination_seen:
                    done = float(sequences.terminated[row, step])
                    total += 0.1 * (said.terminated.item() - done) ** 2
            losses.append(total)
    agent.replay_stream.bit_generator.state = state
    agent._learn_model()
    assert agent.model_means.take()["model_loss"] == pytest.approx(np.mean(losses), rel=1e-3)
    assert sequences.terminated.any()


def test_a_termination_is_remembered_and_a_truncation_is_none():
    for probe, seen in (("truncation", False), ("bandit", True)):
        agent, games = build("mrq", f"probe/{probe}")
        fill(agent, games, 20)
        assert agent.termination_seen is seen


def test_priorities_follow_the_errors_of_what_was_learnt_from():
    agent, games = build("mrq", batch_size=8)
    fill(agent, games, 60)
    state = agent.replay_stream.bit_generator.state
    agent._learn_values = lambda sequences: torch.full((8,), 32.0)
    agent._learn_model = lambda: None
    _, transition, _ = agent._sample(agent.settings.batch_size, 3, agent.replay_stream)
    agent.replay_stream.bit_generator.state = state
    agent.make_updates(1)
    values = agent.priorities.values[:60, 0]
    drawn = np.isin(np.arange(60), transition)
    np.testing.assert_allclose(values[drawn], 4.0)
    np.testing.assert_allclose(values[~drawn], 1.0)


def test_what_is_timed_does_an_encoder_update_with_every_update():
    timed = build("mrq")[0].settings.for_timing()
    assert timed.target_period_updates == 1
    assert timed.learning_starts_decisions == 0
