"""CrossQ as published, against an independent computation with PyTorch's own functions."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from bnmodes.agents.registry import AGENTS
from bnmodes.agents.settings import batchnorm_protocol
from bnmodes.diagnostics.recording import record
from bnmodes.errors import UsageError
from bnmodes.norm.layers import BatchNorm
from bnmodes.protocol import BATCH
from helpers.actor_critic_agents import build, fill
from helpers.playing import play

pytestmark = pytest.mark.numeric


def plain_stack(stack, x):
    """Linear, ReLU, BatchNorm over the batch, for each layer, and the head: nothing of ours."""
    if stack.input_norm is not None:
        x = F.batch_norm(x, None, None, training=True, eps=1e-3)
    for linear in stack.linears:
        if linear.weight.ndim == 4:
            x = F.conv2d(x, linear.weight, linear.bias)
        else:
            x = x.permute(0, 2, 3, 1).flatten(1) if x.ndim == 4 else x
            x = F.linear(x, linear.weight, linear.bias)
        x = F.batch_norm(F.relu(x), None, None, training=True, eps=1e-3)
    return x if stack.head is None else F.linear(x, stack.head.weight, stack.head.bias)


def test_the_critics_loss_is_half_the_squared_error_of_one_joined_batch():
    agent, games = build("crossq", arm="batchnorm", hidden_layers=2)
    fill(agent, games, 40)
    batch = agent.replay.sample(16, np.random.default_rng(0))
    next_action = torch.eye(agent.num_actions)[torch.arange(16) % agent.num_actions]
    agent._next_action = lambda obs, noise: next_action
    loss, _, _ = agent._critic_loss(batch, agent._bootstrap_noise())

    critic = agent.critics["online"]
    features = plain_stack(critic.encoder, torch.cat([batch.obs, batch.next_obs]).float())
    actions = torch.cat([F.one_hot(batch.action, agent.num_actions).float(), next_action])
    q = torch.stack(
        [plain_stack(twin, torch.cat([features, actions], 1)) for twin in critic.heads.twins]
    ).squeeze(-1)
    alive = 1 - batch.terminated.float()
    target = (batch.reward + 0.99 * alive * q[:, 16:].amin(0)).detach()
    errors = q[:, :16] - target
    torch.testing.assert_close(loss, 0.5 * errors.square().mean(1).sum())


def test_it_has_no_target_no_projection_no_reward_scale_and_biases():
    agent, games = build("crossq", arm="batchnorm", learning_rate=1e-2)
    play(agent, games, steps=60)
    assert set(agent.networks) == {"online_critic", "online_actor"}
    metrics = agent.take_metrics()
    assert np.isfinite(metrics["loss"])
    assert "reward_scale" not in metrics
    for stack in (agent.critics["online"].encoder, *agent.heads["online"].twins):
        for linear in stack.linears:
            assert linear.bias.abs().max() > 0
            assert linear.weight.flatten(1).norm(dim=1).std() > 1e-3, "no fixed norm"
    assert {optimizer.betas for optimizer in agent.optimizers.values()} == {(0.5, 0.999)}


def test_renorm_is_batchnorm_until_its_warmup_is_over():
    """Rounding soon drives two agents apart, so only the first losses are compared."""
    losses = {}
    for arm, warmup in (("batchnorm", 0), ("batchrenorm", 1_000), ("batchrenorm", 1)):
        agent, games = build("crossq", arm=arm, renorm_warmup_updates=warmup)
        fill(agent, games, 40)
        for update in range(2):
            agent.make_updates(1)
            losses[arm, warmup, update] = agent.take_metrics()["loss"]
    plain = losses["batchnorm", 0, 0]
    assert losses["batchrenorm", 1_000, 0] == pytest.approx(plain, rel=1e-5)
    assert losses["batchrenorm", 1, 0] == pytest.approx(plain, rel=1e-5)
    cold, warm = (losses["batchrenorm", warmup, 1] for warmup in (1_000, 1))
    assert cold == pytest.approx(losses["batchnorm", 0, 1], rel=0.02)
    assert warm != pytest.approx(cold, rel=0.05)


def test_a_target_network_is_refused():
    with pytest.raises(UsageError, match="bootstrap asks for target params, but this agent has no"):
        build("crossq", protocol=batchnorm_protocol(params="target"))


def test_diagnostics_see_the_norms_input_after_the_activation():
    agent, games = build("crossq", arm="batchnorm")
    fill(agent, games, 20)
    obs = torch.from_numpy(games.reset()).repeat(4, 1, 1, 1)
    found = record(agent.critics["online"].encoder, obs, BATCH)
    assert [layer.name for layer in found.layers] == ["conv1", "dense"]
    for layer in found.layers:
        assert isinstance(layer.norm, BatchNorm)
        assert torch.equal(layer.before_norm, layer.units)
        assert layer.units.min() == 0


def test_the_defaults_are_the_releases():
    settings = AGENTS["crossq"].settings()
    assert (settings.critic_units, settings.actor_units, settings.hidden_layers) == (2048, 256, 2)
    assert (settings.learning_rate, settings.adam_beta1, settings.policy_delay) == (1e-3, 0.5, 3)
    assert (settings.updates_per_decision, settings.renorm_warmup_updates) == (1.0, 100_000)
    agent, _ = build("crossq", critic_units=2048)
    kernel = agent.heads["online"].twins[0].linears[0].weight
    assert kernel.std().item() == pytest.approx(kernel.shape[1] ** -0.5, rel=0.02), "LeCun's"
