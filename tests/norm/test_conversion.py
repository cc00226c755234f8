"""A network that changes sides gives the same outputs and writes the same running statistics."""

import numpy as np
import pytest
import torch
from torch import nn

from bnmodes import (
    BATCH,
    RUNNING,
    BatchNorm,
    Mode,
    ModedModule,
    forward_mode,
    mode_of,
    state_from_torch,
    state_to_torch,
)
from bnmodes.errors import UsageError

pytestmark = pytest.mark.numeric

MODES = {
    "batch": BATCH,
    "update": Mode(statistics="batch", update=0.2),
    "running": RUNNING,
    "track": Mode(statistics="running", track=0.2),
}
SHAPES = {1: (8, 5), 2: (8, 5, 4, 3), 3: (8, 5, 2, 2, 2)}
KINDS = {1: nn.BatchNorm1d, 2: nn.BatchNorm2d, 3: nn.BatchNorm3d}
each_mode = pytest.mark.parametrize("mode", MODES.values(), ids=MODES)
each_shape = pytest.mark.parametrize("axes", SHAPES)


def rows(axes, seed=0, dtype=torch.float32):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(SHAPES[axes], generator=generator, dtype=dtype) * 3 + 2


def used(axes, **options) -> nn.Module:
    torch.manual_seed(3)
    layer = KINDS[axes](5, eps=1e-3, momentum=0.2, **options)
    for tensor in (layer.weight, layer.bias, layer.running_mean, layer.running_var):
        if tensor is not None:
            tensor.data.copy_(torch.rand(5) + 0.5)
    return layer


def assert_alike(ours: BatchNorm, theirs: nn.Module, mode: Mode, axes: int):
    for seed in (1, 2):
        x = rows(axes, seed, theirs.running_mean.dtype)
        with forward_mode(theirs, mode.statistics, track=mode.track, update=mode.update):
            torch.testing.assert_close(ours(x, mode), theirs(x))
    torch.testing.assert_close(ours.mean, theirs.running_mean)
    torch.testing.assert_close(ours.variance, theirs.running_var)


@each_mode
@each_shape
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_from_torch(mode, axes, dtype):
    theirs = used(axes).to(dtype)
    ours = BatchNorm.from_torch(theirs)
    assert ours.mean is not theirs.running_mean
    assert ours.mean.dtype == ours.weight.dtype == dtype
    assert_alike(ours, theirs, mode, axes)


@each_mode
@each_shape
def test_there_and_back(mode, axes):
    theirs = used(axes)
    back = BatchNorm.from_torch(theirs).to_torch(axes, update=0.2)
    assert type(back) is KINDS[axes]
    assert (back.eps, back.momentum) == (1e-3, 0.2)
    state = theirs.state_dict() | {"num_batches_tracked": torch.tensor(0)}
    torch.testing.assert_close(dict(back.state_dict()), dict(state))
    assert_alike(BatchNorm.from_torch(theirs), back, mode, axes)


def test_the_mode_of_a_layer_is_what_its_flags_mean():
    never_moved = used(1)
    never_moved.momentum = 0.0
    for layer in (
        used(1).train(),
        used(1).eval(),
        used(1, track_running_stats=False),
        used(1, track_running_stats=False).eval(),
        never_moved,
    ):
        ours, mode = BatchNorm.from_torch(layer), mode_of(layer)
        torch.testing.assert_close(ours(rows(1), mode), layer(rows(1)))
        if layer.running_mean is not None:
            torch.testing.assert_close(ours.mean, layer.running_mean)
    layer = used(1)
    with forward_mode(layer, "batch"):
        assert mode_of(layer) == BATCH
    layer.momentum = None
    with pytest.raises(UsageError, match="momentum=None"):
        mode_of(layer)


def test_without_scale():
    theirs = used(1, affine=False)
    ours = BatchNorm.from_torch(theirs)
    assert not ours.weight.requires_grad
    assert_alike(ours, theirs, RUNNING, 1)


@pytest.mark.parametrize("stored_variance", ["unbiased", "biased"])
def test_flax_there_and_back(stored_variance):
    ours = BatchNorm(5, epsilon=1e-3, stored_variance=stored_variance)
    for tensor in (ours.weight, ours.bias, ours.mean, ours.variance):
        tensor.data.copy_(torch.rand(5) + 0.5)
    variables = ours.to_flax()
    scale, bias = variables["params"]["scale"], variables["params"]["bias"]
    mean, var = variables["batch_stats"]["mean"], variables["batch_stats"]["var"]
    x = rows(1)
    by_hand = (x.numpy() - mean) / np.sqrt(var + 1e-3) * scale + bias
    np.testing.assert_allclose(ours(x, RUNNING).detach().numpy(), by_hand, rtol=1e-5)
    back = BatchNorm.from_flax(variables["params"], variables["batch_stats"], epsilon=1e-3)
    assert back.stored_variance == "biased"
    torch.testing.assert_close(back(x, RUNNING), ours(x, RUNNING))
    ours.mean.add_(1)
    assert np.array_equal(variables["batch_stats"]["mean"], back.mean.numpy()), "copies"
    back(x, Mode(statistics="batch", update=1.0))
    np.testing.assert_allclose(back.variance.numpy(), x.numpy().var(0), rtol=1e-5)
    plain = BatchNorm.from_flax({}, variables["batch_stats"])
    assert not plain.weight.requires_grad


def test_flaxs_own_layer_gives_the_same():
    jax, flax = pytest.importorskip("jax"), pytest.importorskip("flax.linen")
    ours = BatchNorm(5, stored_variance="biased")
    for tensor in (ours.weight, ours.bias, ours.mean, ours.variance):
        tensor.data.copy_(torch.rand(5) + 0.5)
    theirs, variables, x = flax.BatchNorm(momentum=0.8), ours.to_flax(), rows(1)
    evaluated = theirs.apply(variables, x.numpy(), use_running_average=True)
    np.testing.assert_allclose(ours(x, RUNNING).detach().numpy(), evaluated, rtol=1e-4, atol=1e-5)
    trained, new = theirs.apply(
        variables, x.numpy(), use_running_average=False, mutable=["batch_stats"]
    )
    found = ours(x, Mode(statistics="batch", update=0.2)).detach().numpy()
    np.testing.assert_allclose(found, trained, rtol=1e-4, atol=1e-5)
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4),
        ours.to_flax()["batch_stats"],
        dict(new["batch_stats"]),
    )


class Ours(ModedModule):
    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(2, 5, 3), BatchNorm(5)
        self.dense, self.last = nn.Linear(5 * 16, 4), BatchNorm(4)

    def run(self, x, mode):
        y = self.norm(self.conv(x), mode).relu().flatten(1)
        return self.last(self.dense(y), mode)


class Theirs(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(2, 5, 3), nn.BatchNorm2d(5)
        self.dense, self.last = nn.Linear(5 * 16, 4), nn.BatchNorm1d(4)

    def forward(self, x):
        return self.last(self.dense(self.norm(self.conv(x)).relu().flatten(1)))


@each_mode
def test_state_dicts_of_whole_networks(mode):
    x = torch.randn(8, 2, 6, 6)
    theirs, ours = Theirs(), Ours()
    theirs(x * 3 + 1)
    ours.load_state_dict(state_from_torch(theirs.state_dict()))
    with forward_mode(theirs, mode.statistics, track=mode.track, update=mode.update):
        torch.testing.assert_close(ours(x, mode), theirs(x))
    back = Theirs()
    back.load_state_dict(state_to_torch(ours.state_dict()))
    torch.testing.assert_close(back.eval()(x), theirs.eval()(x))


def test_what_cannot_be_converted_is_refused():
    for layer in (nn.Linear(2, 2), nn.LazyBatchNorm1d(), nn.InstanceNorm1d(3)):
        with pytest.raises(UsageError, match=r"no nn.BatchNorm layer"):
            BatchNorm.from_torch(layer)
    with pytest.raises(UsageError, match="axes 1, 2 or 3"):
        BatchNorm(2).to_torch(4, update=0.1)
