"""The networks of actor-critics, against the same functions written out."""

import pytest
import torch
from torch import nn

from bnmodes.networks.actor_critic import Critic, DenseNetwork, Policy, TwinHeads
from bnmodes.networks.layers import initialise
from bnmodes.networks.mrq import mrq_networks
from bnmodes.networks.torsos import Torso
from bnmodes.norm.layers import BatchNorm
from bnmodes.protocol import BATCH, Mode

pytestmark = pytest.mark.numeric

NONE = Mode(statistics="none")


def batch_norm(shape):
    return BatchNorm(shape[0])


def test_a_dense_network_normalises_its_input_then_each_layer_and_not_its_head():
    network = DenseNetwork(
        {"input": 5, "action": 2}, [8, 6], 3, norm=batch_norm, input_norm=True, bias=False
    )
    x = 3 * torch.randn(16, 7) + 1
    expected = nn.BatchNorm1d(7)(x)
    for linear, units in zip(network.linears, (8, 6), strict=True):
        assert linear.bias is None
        expected = nn.BatchNorm1d(units)(expected @ linear.weight.T).relu()
    expected = expected @ network.head.weight.T + network.head.bias
    torch.testing.assert_close(network(x, BATCH), expected, rtol=1e-4, atol=1e-5)
    assert network.input_parts == {"input": slice(0, 5), "action": slice(5, 7)}


@pytest.mark.parametrize("obs_shape", [(2, 5, 5), (9,)], ids=["pictures", "vectors"])
def test_critic_and_policy_read_the_same_features(obs_shape):
    encoder = Torso(obs_shape, "auto", pixel_scale=1.0)
    inputs = {"input": encoder.units, "action": 3}
    heads = TwinHeads(lambda prefix: DenseNetwork(inputs, [8], 4, prefix=prefix))
    actor = DenseNetwork({"input": encoder.units}, [8], 3, prefix="actor_")
    obs = torch.randint(0, 2, (6, *obs_shape), dtype=torch.uint8)
    obs = obs if len(obs_shape) == 3 else obs.float()
    action, features = torch.eye(3)[[0, 1, 2, 0, 1, 2]], encoder(obs, NONE)
    q = Critic(encoder, heads)((obs, action), NONE)
    assert q.shape == (2, 6, 4)
    for twin, own in zip(heads.twins, q, strict=True):
        torch.testing.assert_close(own, twin(torch.cat([features, action], 1), NONE))
    assert not torch.equal(q[0], q[1])
    torch.testing.assert_close(Policy(encoder, actor)(obs, NONE), actor(features, NONE))


@pytest.mark.parametrize(
    ("scheme", "deviation"), [("kaiming", (2 / 400) ** 0.5), ("xavier", (4 / 700) ** 0.5)]
)
def test_initialisation_has_the_gain_of_a_relu(scheme, deviation):
    layer = nn.Linear(400, 300)
    initialise(layer, scheme, torch.Generator().manual_seed(0))
    assert layer.weight.std().item() == pytest.approx(deviation, rel=0.02)
    assert not layer.bias.any()


def test_orthogonal_kernels_keep_lengths_up_to_the_gain_of_a_relu():
    layer = nn.Linear(20, 30)
    initialise(layer, "orthogonal", torch.Generator().manual_seed(0))
    torch.testing.assert_close(layer.weight.T @ layer.weight, 2 * torch.eye(20), atol=1e-5, rtol=0)


def test_mrqs_critics_read_an_embedding_of_state_and_action():
    critic, actor, model = mrq_networks(
        (4, 40, 40), 3, "mrq", 1 / 255, units=8, action_units=5, reward_bins=7
    )
    obs, action = torch.randint(0, 256, (6, 4, 40, 40), dtype=torch.uint8), torch.eye(3)[[0, 1] * 3]
    state = critic.encoder(obs, NONE)
    embedding = critic.heads.embedding
    embedded_action = nn.functional.elu(embedding.action.linears[0](action))
    embedded = embedding.mix(torch.cat([state, embedded_action], 1), NONE)
    q = torch.stack([twin(embedded, NONE) for twin in critic.heads.twins])
    torch.testing.assert_close(critic((obs, action), NONE), q)
    predicted = model(embedded)
    assert predicted.terminated.shape == (6,)
    assert predicted.next_state.shape == state.shape
    assert predicted.reward_logits.shape == (6, 7)
    assert actor(state, NONE).shape == (6, 3)


@pytest.mark.parametrize(("torso", "offset"), [("mrq", -0.5), ("auto", 0.0), ("minatar", 0.0)])
def test_mrqs_own_torso_centres_pictures(torso, offset):
    critic, _, _ = mrq_networks((2, 40, 40), 3, torso, 1.0, units=8, action_units=5, reward_bins=7)
    assert critic.encoder.pixel_offset == offset
