import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from bnmodes.norm.foreign import forward_mode
from bnmodes.norm.layers import BatchNorm, LayerNorm
from bnmodes.protocol import BATCH, RUNNING, Mode

pytestmark = pytest.mark.numeric

SHAPES = [(8, 5), (8, 5, 4, 3)]
RUNNING_THEN_BATCH = [RUNNING, BATCH, Mode(statistics="batch", update=0.1)]


def rows(shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)) * 3 + 2


def pytorch_twin(layer: BatchNorm, ndim: int, momentum: float = 0.1) -> nn.Module:
    twin = {2: nn.BatchNorm1d, 4: nn.BatchNorm2d}[ndim](
        len(layer.mean), eps=layer.epsilon, momentum=momentum
    )
    with torch.no_grad():
        twin.weight.copy_(layer.weight)
        twin.bias.copy_(layer.bias)
        twin.running_mean.copy_(layer.mean)
        twin.running_var.copy_(layer.variance)
    return twin


def used_layer(**options) -> BatchNorm:
    """With scales, offsets and moments that are not those of a new layer."""
    layer = BatchNorm(5, **options)
    with torch.no_grad():
        for tensor in (layer.weight, layer.bias, layer.mean, layer.variance):
            tensor.copy_(torch.rand(5) + 0.5)
    return layer


@pytest.mark.parametrize("shape", SHAPES)
@given(seed=st.integers(0, 1000), update=st.floats(0.001, 1.0))
def test_batchnorm_is_pytorchs_own_in_training_mode(shape, seed, update):
    layer, x = used_layer(), rows(shape, seed)
    twin = pytorch_twin(layer, len(shape), update).train()
    y = layer(x, Mode(statistics="batch", update=update))
    torch.testing.assert_close(y, twin(x))
    torch.testing.assert_close(layer.mean, twin.running_mean)
    torch.testing.assert_close(layer.variance, twin.running_var)


@pytest.mark.parametrize("shape", SHAPES)
def test_batchnorm_is_pytorchs_own_in_evaluation_mode(shape):
    layer, x = used_layer(), rows(shape)
    assert torch.equal(layer(x, RUNNING), pytorch_twin(layer, len(shape)).eval()(x))


@pytest.mark.parametrize("shape", SHAPES)
def test_batch_without_update_is_pytorchs_untracked_batchnorm_and_writes_nothing(shape):
    layer, x = used_layer(), rows(shape)
    twin = pytorch_twin(layer, len(shape)).train()
    twin.track_running_stats = False
    before = layer.mean.clone(), layer.variance.clone()
    assert torch.equal(layer(x, BATCH), twin(x))
    assert torch.equal(layer.mean, before[0])
    assert torch.equal(layer.variance, before[1])


@pytest.mark.parametrize("shape", SHAPES)
@given(seed=st.integers(0, 1000), update=st.floats(0.001, 1.0))
def test_biased_storage_is_flaxs_convention(shape, seed, update):
    layer, x = used_layer(stored_variance="biased"), rows(shape, seed).double()
    momentum = 1 - update
    axes = [axis for axis in range(len(shape)) if axis != 1]
    mean = x.mean(axes)
    variance = (x**2).mean(axes) - mean**2
    flax_mean = momentum * layer.mean + (1 - momentum) * mean
    flax_variance = momentum * layer.variance + (1 - momentum) * variance
    layer(x.float(), Mode(statistics="batch", update=update))
    torch.testing.assert_close(layer.mean, flax_mean.float())
    torch.testing.assert_close(layer.variance, flax_variance.float(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("shape", SHAPES)
def test_tracked_writes_first_and_then_reads(shape):
    layer, x = used_layer(), rows(shape)
    twin = pytorch_twin(layer, len(shape), momentum=0.3)
    twin.train()(x)
    expected = twin.eval()(x)
    torch.testing.assert_close(layer(x, Mode(statistics="running", track=0.3)), expected)
    torch.testing.assert_close(layer.mean, twin.running_mean)


@pytest.mark.parametrize("stored_variance", ["unbiased", "biased"])
@pytest.mark.parametrize("shape", SHAPES)
def test_gradients_are_pytorchs_in_every_mode(shape, stored_variance):
    for mode in RUNNING_THEN_BATCH:
        layer = used_layer(stored_variance=stored_variance)
        twin = pytorch_twin(layer, len(shape)).train(mode.statistics == "batch")
        gradients = []
        for normalise in (lambda x, layer=layer, mode=mode: layer(x, mode), twin):
            x = rows(shape).requires_grad_()
            gradients.append(torch.autograd.grad(normalise(x).pow(3).sum(), x)[0])
        torch.testing.assert_close(*gradients)


def test_a_write_between_forward_and_backward_leaves_the_gradient_alone():
    layer, x = used_layer(), rows((8, 5)).requires_grad_()
    alone = torch.autograd.grad(layer(x, RUNNING).pow(2).sum(), x)
    y = layer(x, RUNNING)
    layer(rows((8, 5), seed=1), Mode(statistics="batch", update=1.0))
    assert torch.equal(torch.autograd.grad(y.pow(2).sum(), x)[0], alone[0])


def test_batchnorm_refuses_a_forward_that_declares_no_statistics():
    with pytest.raises(ValueError, match="batch or running"):
        used_layer()(rows((8, 5)), Mode(statistics="none"))


def test_layernorm_over_channels_is_per_position():
    x = rows((6, 5, 4, 3))
    y = LayerNorm((5, 4, 3))(x, RUNNING)
    twin = nn.LayerNorm(5, eps=1e-6)
    torch.testing.assert_close(y, twin(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2))


def test_layernorm_over_all_is_torchs_over_the_feature_map():
    x = rows((6, 5, 4, 3))
    y = LayerNorm((5, 4, 3), axes="all")(x, RUNNING)
    torch.testing.assert_close(y, nn.LayerNorm((5, 4, 3), eps=1e-6)(x))


@pytest.mark.parametrize("axes", ["channels", "all"])
def test_layernorm_is_the_same_in_every_mode(axes):
    layer, x = LayerNorm((5,), axes=axes), rows((6, 5))
    outputs = [layer(x, mode) for mode in RUNNING_THEN_BATCH]
    assert all(torch.equal(outputs[0], y) for y in outputs)


def foreign_network(seed=0) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(
        nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Dropout(0.5),
        nn.Linear(4 * 4 * 4, 6), nn.SyncBatchNorm(6), nn.ReLU(), nn.Linear(6, 3),
    )  # fmt: skip


def moments(module: nn.Module) -> list[torch.Tensor]:
    return [buffer.clone() for buffer in module.buffers()]


@pytest.mark.parametrize("training", [True, False])
def test_forward_mode_batch_reads_and_writes_nothing_stored(training):
    network, x = foreign_network().eval().train(training), rows((8, 2, 6, 6))
    network[4].eval()  # dropout would hide what we look for
    before = moments(network)
    with forward_mode(network, "batch"):
        y = network(x)
        for buffer in network.buffers():
            buffer.data.add_(1)
        assert torch.equal(network(x), y)
        for buffer in network.buffers():
            buffer.data.sub_(1)
    assert all(torch.allclose(a, b) for a, b in zip(moments(network), before, strict=True))
    assert network[1].num_batches_tracked == 0


def test_forward_mode_batch_with_update_writes_with_that_weight():
    network, x = foreign_network().eval(), rows((8, 2, 6, 6))
    with forward_mode(network, "batch", update=1.0):
        network(x)
    torch.testing.assert_close(network[1].running_mean, network[0](x).mean((0, 2, 3)))


def test_forward_mode_running_is_evaluation_mode():
    network, x = foreign_network().train(), rows((8, 2, 6, 6))
    network[4].eval()
    network(x)
    with forward_mode(network, "running"):
        y = network(x)
    assert torch.equal(y, network.eval()(x))


def test_forward_mode_track_is_a_discarded_pass_over_the_whole_network_before_each_call():
    network, twin, x = foreign_network().eval(), foreign_network().eval(), rows((8, 2, 6, 6))
    for layer in (twin[1], twin[6]):
        layer.momentum = 0.2
        layer.train()
    twin(x)
    expected = twin.eval()(x)
    with forward_mode(network, "running", track=0.2):
        assert torch.equal(network(x), expected)
    assert torch.equal(network(x), expected), "no further pass after the block"


def test_forward_mode_restores_every_layer_even_after_an_exception():
    network = foreign_network().train()
    network[6].eval()
    network[6].momentum = None
    before = [(m.training, getattr(m, "momentum", 0)) for m in network.modules()]
    for arguments in (
        {"statistics": "batch"},
        {"statistics": "batch", "update": 0.5},
        {"statistics": "running"},
        {"statistics": "running", "track": 0.5},
    ):
        with pytest.raises(RuntimeError), forward_mode(network, **arguments):
            network(torch.zeros(1, 99))
        assert [(m.training, getattr(m, "momentum", 0)) for m in network.modules()] == before
        assert all(m.track_running_stats for m in (network[1], network[6]))
        assert not network._forward_pre_hooks


def test_forward_mode_nests():
    network, x = foreign_network().eval(), rows((8, 2, 6, 6))
    with forward_mode(network, "running"):
        stored = network(x)
        with forward_mode(network, "batch"):
            assert not torch.equal(network(x), stored)
        assert torch.equal(network(x), stored)


def test_forward_mode_refuses_what_has_no_meaning():
    with (
        pytest.raises(ValueError, match=r"no nn.BatchNorm layer"),
        forward_mode(nn.Linear(2, 2), "batch"),
    ):
        pass
    untracked = nn.BatchNorm1d(3, track_running_stats=False)
    with (
        pytest.raises(ValueError, match="stores no running statistics"),
        forward_mode(untracked, "running"),
    ):
        pass
    with pytest.raises(ValueError, match="drop track"), forward_mode(untracked, "batch", track=0.1):
        pass
