"""Every way in which a module can be called under `forward_mode`: it is right, or it refuses."""

import copy
import threading
from contextlib import ExitStack

import pytest
import torch
from torch import nn
from torch.func import functional_call, stack_module_state, vmap

from bnmodes import forward_mode
from bnmodes.errors import UsageError
from helpers.forward_modes import (
    MODES,
    TRACK,
    Net,
    assert_right,
    by_hand,
    moments,
    rows,
    settings,
    twin_of,
)

pytestmark = pytest.mark.numeric

each_mode = pytest.mark.parametrize("mode", MODES.values(), ids=MODES)


@each_mode
@pytest.mark.parametrize("training", [True, False])
def test_several_calls_in_one_block(mode, training):
    net = Net().train(training)
    assert_right(mode, net, net)
    assert_right(mode, net, lambda x: net(x, scale=1.0))


def test_a_part_that_holds_all_layers_is_tracked():
    net = Net()
    assert_right(TRACK, net, lambda x: net.head(net.features(x)))
    assert_right(TRACK, net, net.forward)


@each_mode
def test_other_modes_hold_for_layers_called_one_by_one(mode):
    if mode is TRACK:
        return
    net = Net()
    assert_right(mode, net, lambda x: net.head(nn.Sequential(*net.features)(x)))


@each_mode
@pytest.mark.parametrize("outer", MODES.values(), ids=[f"in {name}" for name in MODES])
def test_the_innermost_block_decides(mode, outer):
    net = Net()
    xs = [rows(1), rows(2)]
    expected, left = by_hand(mode, net, xs)
    with forward_mode(net, **outer):
        with forward_mode(net, **mode):
            for x, y in zip(xs, expected, strict=True):
                torch.testing.assert_close(net(x), y)
        torch.testing.assert_close(moments(net), left)
        (after,), left = by_hand(outer, twin_of(net), [rows(3)])
        torch.testing.assert_close(net(rows(3)), after)
    torch.testing.assert_close(moments(net), left)


def test_a_block_on_a_part_inside_a_tracked_one():
    net = Net()
    part = net.features[4]
    before = moments(net)
    with forward_mode(net, **TRACK):
        with forward_mode(part, "batch"):
            net(rows())
        with forward_mode(part, "batch", update=0.5), pytest.raises(UsageError, match="inner"):
            net(rows())
    after = moments(net)
    for name in before:
        assert torch.equal(after[name], before[name]) == name.startswith("features.4")


def test_a_tracked_part_inside_a_block():
    net, x = Net(), rows()
    with forward_mode(net, "batch"), forward_mode(net.features[4], **TRACK):
        y = net(x)
    twin = Net()
    twin.features[1].track_running_stats = False
    twin.features[4].momentum = 0.3
    twin(x)
    twin.features[4].eval()
    torch.testing.assert_close(y, twin(x))
    torch.testing.assert_close(moments(net), moments(twin))


@pytest.mark.parametrize("first", MODES.values(), ids=MODES)
@each_mode
def test_blocks_that_end_in_another_order_leave_nothing_behind(first, mode):
    net = Net()
    own = settings(net)
    one, two = forward_mode(net, **first), forward_mode(net, **mode)
    one.__enter__(), two.__enter__()
    one.__exit__(None, None, None)
    (expected,), _ = by_hand(mode, twin_of(net), [rows()])
    torch.testing.assert_close(net(rows()), expected)
    two.__exit__(None, None, None)
    assert settings(net) == own


@each_mode
def test_an_exception_in_a_call_or_in_the_block_leaves_the_layers_as_they_were(mode):
    net = Net()
    net.features[1].momentum = None
    net.features[4].eval()
    own = settings(net)
    with forward_mode(net, **mode):
        with pytest.raises(RuntimeError):
            net(torch.zeros(2, 99))
        net(rows())
    assert settings(net) == own
    with pytest.raises(KeyError), forward_mode(net, **mode):
        raise KeyError
    assert settings(net) == own


@each_mode
def test_dataparallel(mode):
    net = Net()
    wrapper = nn.DataParallel(net)
    assert_right(mode, net, wrapper)
    assert_right(mode, net, wrapper, module=wrapper)


def test_a_replica_in_another_thread_is_refused_or_follows_the_wrapper():
    """As DataParallel calls its replicas on several devices: copied attributes, in threads."""

    class Replicating(nn.Module):
        def __init__(self, module):
            super().__init__()
            self.module = module

        def forward(self, x):
            replicas = {}
            for name, part in self.module.named_modules():
                replicas[name] = part._replicate_for_data_parallel()
                replicas[name]._parameters.update(part._parameters)
                if name:
                    parent, _, child = name.rpartition(".")
                    replicas[parent]._modules[child] = replicas[name]
            found = in_thread(lambda: replicas[""](x))
            if isinstance(found, Exception):
                raise found
            return found

    net = Net()
    wrapper = Replicating(net)
    assert_right(TRACK, net, wrapper, module=wrapper)
    with forward_mode(net, **TRACK), pytest.raises(UsageError, match="on the wrapper"):
        wrapper(rows())


@pytest.fixture
def _process_group():
    store = torch.distributed.HashStore()
    torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    yield
    torch.distributed.destroy_process_group()


@each_mode
@pytest.mark.usefixtures("_process_group")
def test_distributeddataparallel(mode):
    net = Net()
    wrapper = nn.parallel.DistributedDataParallel(net)
    assert_right(mode, net, wrapper)
    assert_right(mode, net, wrapper, module=wrapper)
    with forward_mode(wrapper, **mode):
        wrapper(rows()).sum().backward()
    assert net.head.weight.grad is not None


@each_mode
def test_syncbatchnorm(mode):
    net = nn.SyncBatchNorm.convert_sync_batchnorm(Net())
    assert_right(mode, net, net)


@each_mode
def test_functional_call_with_other_buffers(mode):
    net, other = Net(), Net()
    for buffer in other.buffers():
        buffer.data += 1
    state = {name: t.clone() for name, t in (*other.named_parameters(), *other.named_buffers())}
    (expected,), left = by_hand(mode, other, [rows()])
    own, before = settings(net), moments(net)
    with forward_mode(net, **mode):
        torch.testing.assert_close(functional_call(net, state, rows()), expected)
    torch.testing.assert_close({name: state[name] for name in left}, left)
    torch.testing.assert_close(moments(net), before)
    assert settings(net) == own


@each_mode
def test_vmap_over_stacked_modules(mode):
    nets = [Net(), Net()]
    for buffer in nets[1].buffers():
        buffer.data += 1
    params, buffers = stack_module_state(nets)
    base, x = Net().to("meta"), rows()
    own = settings(base)
    with forward_mode(base, **mode):
        found = vmap(lambda p, b: functional_call(base, (p, b), x))(params, buffers)
    for place, net in enumerate(nets):
        (expected,), left = by_hand(mode, net, [rows()])
        torch.testing.assert_close(found[place], expected)
        torch.testing.assert_close({name: buffers[name][place] for name in left}, left)
    assert settings(base) == own


@each_mode
@pytest.mark.parametrize("lazy", [nn.LazyBatchNorm1d, nn.LazyInstanceNorm1d])
def test_lazy_layers_are_refused_and_unharmed(mode, lazy):
    options = {} if lazy is nn.LazyBatchNorm1d else {"track_running_stats": True}
    shape = (8, 5) if lazy is nn.LazyBatchNorm1d else (8, 5, 7)
    net = nn.Sequential(lazy(**options))
    with pytest.raises(UsageError, match="call the module once"), forward_mode(net, **mode):
        net(rows(shape=shape))
    net(rows(shape=shape))
    assert net[0].running_mean.shape == (5,)
    with forward_mode(net, **mode):
        net(rows(shape=shape))


@each_mode
def test_a_lazy_linear_layer_is_none_of_ours(mode):
    net = nn.Sequential(nn.LazyLinear(8), nn.BatchNorm1d(8))
    with forward_mode(net, **mode):
        assert net(rows()).shape == (8, 8)


def test_instancenorm_without_running_statistics_is_left_alone():
    with pytest.raises(UsageError, match=r"no nn.BatchNorm layer"):
        ExitStack().enter_context(forward_mode(nn.InstanceNorm1d(4), "batch"))


def in_thread(call):
    found = []

    def run():
        try:
            found.append(call())
        except Exception as error:
            found.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return found[0]


def test_another_thread_gets_the_mode_and_may_open_no_block_on_the_same_layers():
    net, x = Net(), rows()
    (batch,), _ = by_hand(MODES["batch"], net, [x])

    def open_block(module):
        with forward_mode(module, "running"):
            return module(x)

    own = settings(net)
    with forward_mode(net, "batch"):
        torch.testing.assert_close(in_thread(lambda: net(x)), batch)
        refusal = in_thread(lambda: open_block(net))
        assert isinstance(refusal, UsageError)
        assert "another thread" in str(refusal)
        assert isinstance(in_thread(lambda: open_block(Net())), torch.Tensor)
        torch.testing.assert_close(net(x), batch)
    assert settings(net) == own
    with forward_mode(net, **TRACK):
        assert "another thread" in str(in_thread(lambda: net(x)))
    assert isinstance(in_thread(lambda: open_block(net)), torch.Tensor)


@pytest.mark.parametrize("mode", [m for m in MODES.values() if m is not TRACK])
def test_a_flag_that_undoes_the_mode_inside_the_block_is_refused(mode):
    net = Net()
    own = settings(net.features[1])
    with pytest.raises(UsageError, match="undid"), forward_mode(net, **mode):
        net.train(mode["statistics"] == "running")
    assert settings(net.features[1]) == own
    with forward_mode(net, **mode):
        net.train(mode["statistics"] == "batch")


def test_tracking_is_not_undone_by_flags():
    net = Net()
    (expected,), _ = by_hand(TRACK, net, [rows()])
    with forward_mode(net, **TRACK):
        net.train()
        torch.testing.assert_close(net(rows()), expected)


def test_a_tracked_module_cannot_be_copied_in_the_block():
    net = Net()
    with forward_mode(net, **TRACK):
        with pytest.raises(UsageError, match="copy it outside"):
            copy.deepcopy(net)
        assert net.state_dict().keys() == Net().state_dict().keys()
    copy.deepcopy(net)(rows())


def test_torchscript_is_refused():
    net = nn.Sequential(torch.jit.script(Net().features), nn.BatchNorm1d(8))
    with pytest.raises(UsageError, match="TorchScript"), forward_mode(net, "batch"):
        pass


def test_gradients_flow_through_the_pass_that_counts():
    net, twin, x = Net(), Net(), rows()
    with forward_mode(net, **TRACK):
        net(x).sum().backward()
    for layer in (twin.features[1], twin.features[4]):
        layer.momentum = 0.3
    twin(x)
    twin.eval()(x).sum().backward()
    for a, b in zip(net.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(a.grad, b.grad)
