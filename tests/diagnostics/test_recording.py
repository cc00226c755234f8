"""What hooks record of a forward, against the forward itself."""

import pytest
import torch

from bnmodes.diagnostics.recording import kernels, record
from bnmodes.networks.actor_critic import Critic, DenseNetwork, Policy, TwinHeads
from bnmodes.networks.mrq import mrq_networks
from bnmodes.networks.norms import NormSettings
from bnmodes.networks.torsos import Torso
from bnmodes.networks.value import QNetwork
from bnmodes.norm.layers import BatchNorm
from bnmodes.protocol import BATCH, RUNNING, Mode

pytestmark = pytest.mark.numeric

NONE = Mode(statistics="none")


def q_network():
    generator = torch.Generator().manual_seed(0)
    return QNetwork((2, 6, 6), (3, 4), "minatar", NormSettings("bn"), 1.0, generator)


def xqc_like():
    """A critic and a policy with BatchNorm on every layer and input."""

    def norm(shape):
        return BatchNorm(shape[0])

    encoder = Torso((2, 6, 6), "minatar", 1.0, norm=norm)
    inputs, options = {"input": 128, "action": 3}, {"norm": norm, "input_norm": True}
    heads = TwinHeads(lambda prefix: DenseNetwork(inputs, [8], 4, prefix=prefix, **options))
    actor = DenseNetwork({"input": 128}, [8], 3, prefix="actor_", **options)
    return Critic(encoder, heads), Policy(encoder, actor)


def pictures(count=8):
    torch.manual_seed(0)
    return torch.randint(0, 2, (count, 2, 6, 6), dtype=torch.uint8)


def pairs():
    return pictures(), torch.eye(3)[[0, 1, 2, 0, 1, 2, 0, 1]]


@pytest.mark.parametrize("mode", [BATCH, RUNNING])
def test_a_value_network_is_recorded_layer_by_layer(mode):
    network, x = q_network(), pictures()
    recorded = record(network, x, mode)
    assert torch.equal(recorded.output, network(x, mode))
    assert [layer.name for layer in recorded.layers] == ["conv1", "dense"]
    conv, dense = recorded.layers
    assert torch.equal(conv.before_norm, network.linears[0](x.float()))
    for layer, norm in zip(recorded.layers, network.norms, strict=True):
        assert layer.norm is norm
        assert torch.equal(layer.units, norm(layer.before_norm, mode).relu())
    assert torch.equal(recorded.head_inputs["head"], dense.units)
    assert torch.equal(network.head(dense.units).unflatten(1, (3, 4)), recorded.output)


def test_twins_are_recorded_under_their_names_and_their_input_in_parts():
    critic, _ = xqc_like()
    recorded = record(critic, pairs(), BATCH)
    assert torch.equal(recorded.output, critic(pairs(), BATCH))
    assert [layer.name for layer in recorded.layers] == [
        "conv1", "dense",
        "critic1_input", "critic1_action", "critic1_dense1",
        "critic2_input", "critic2_action", "critic2_dense1",
    ]  # fmt: skip
    by_name = {layer.name: layer for layer in recorded.layers}
    for twin, name in zip(critic.heads.twins, ("critic1", "critic2"), strict=True):
        features, action = by_name[f"{name}_input"], by_name[f"{name}_action"]
        assert features.norm is action.norm is twin.input_norm
        assert torch.equal(features.before_norm, by_name["dense"].units)
        assert torch.equal(action.before_norm, pairs()[1])
        assert len(twin.input_norm.mean[action.channels]) == 3
        assert features.units is action.units is None
        assert torch.equal(recorded.head_inputs[f"{name}_head"], by_name[f"{name}_dense1"].units)


def test_a_policy_is_recorded_with_the_encoder_that_it_reads():
    _, policy = xqc_like()
    names = [layer.name for layer in record(policy, pictures(), BATCH).layers]
    assert names == ["conv1", "dense", "actor_input", "actor_dense1"]


def test_mrqs_embedding_is_recorded_too():
    critic, _, _ = mrq_networks((2, 6, 6), 3, "auto", 1.0, units=8, action_units=5, reward_bins=7)
    recorded = record(critic, pairs(), NONE)
    embedding = ["embedding_action", "embedding_dense1", "embedding_dense2"]
    assert [layer.name for layer in recorded.layers] == [
        "conv1", "dense", *embedding, *(f"critic{n}_dense{m}" for n in "12" for m in "123"),
    ]  # fmt: skip
    assert list(recorded.head_inputs) == ["embedding_head", "critic1_head", "critic2_head"]
    action = recorded.layers[2]
    assert torch.equal(action.units, torch.nn.functional.elu(action.before_norm))


def test_kernels_are_found_in_the_order_of_the_layers():
    critic, policy = xqc_like()
    found = kernels(critic)
    assert list(found) == [
        "conv1", "dense", "critic1_dense1", "critic1_head", "critic2_dense1", "critic2_head",
    ]  # fmt: skip
    assert found["critic2_head"] is critic.heads.twins[1].head.weight
    assert list(kernels(policy.actor)) == ["actor_dense1", "actor_head"]
    assert list(kernels(q_network())) == ["conv1", "dense", "head"]


def test_recording_writes_nothing_and_leaves_no_hook_also_when_a_forward_fails():
    critic, _ = xqc_like()
    before = [buffer.clone() for buffer in critic.buffers()]
    record(critic, pairs(), BATCH)
    assert all(torch.equal(a, b) for a, b in zip(before, critic.buffers(), strict=True))
    with pytest.raises(ValueError, match="must choose batch or running"):
        record(critic, pairs(), NONE)
    assert not any(module._forward_hooks for module in critic.modules())
