"""`forward_mode` with torch.compile, around the module and inside it, before and after a graph."""

import copy

import pytest
import torch
from torch import nn

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
)

pytestmark = pytest.mark.numeric


@pytest.fixture
def _fresh_compiler():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


each_mode = pytest.mark.parametrize("mode", MODES.values(), ids=MODES)
compiled = pytest.mark.usefixtures("_fresh_compiler")


@compiled
@each_mode
@pytest.mark.parametrize("called_before", [False, True])
@pytest.mark.parametrize("mode_on", ["module", "compiled"])
def test_a_compiled_module(mode, called_before, mode_on):
    net = Net().eval()
    fast = torch.compile(net, backend="eager")
    if called_before:
        fast(rows())
    assert_right(mode, net, fast, module={"module": net, "compiled": fast}[mode_on])
    torch.testing.assert_close(fast(rows()), copy.deepcopy(net)(rows()))


@compiled
@each_mode
@pytest.mark.parametrize("called_before", [False, True])
def test_a_compiled_function_around_the_module(mode, called_before):
    net = Net().eval()
    fast = torch.compile(lambda x: net(x) * 1.0, backend="eager")
    if called_before:
        fast(rows())
    assert_right(mode, net, fast)


@compiled
@each_mode
def test_a_module_that_is_compiled_in_place(mode):
    net = Net().eval()
    net.compile(backend="eager")
    net(rows())
    with forward_mode(net, **mode):
        found = net(rows())
    (expected,), left = by_hand(mode, Net().eval(), [rows()])
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(moments(net), left)


@compiled
def test_a_block_in_the_compiled_function():
    net = Net().eval()

    def call(x):
        with forward_mode(net, **TRACK):
            return net(x)

    (expected,), left = by_hand(TRACK, net, [rows()])
    torch.testing.assert_close(torch.compile(call, backend="eager")(rows()), expected)
    torch.testing.assert_close(moments(net), left)


@pytest.mark.slow
@compiled
def test_compiled_machine_code_is_tracked_and_stays_compiled():
    net = Net().eval()
    fast = torch.compile(net)
    with torch.no_grad():
        fast(rows())
        assert_right(TRACK, net, fast, module=fast)
        entries = len(torch._dynamo.eval_frame._debug_get_cache_entry_list(type(net).forward))
        assert_right(TRACK, net, fast, module=fast)
    after = len(torch._dynamo.eval_frame._debug_get_cache_entry_list(type(net).forward))
    assert after == entries, "a second block compiles nothing anew"


@compiled
@pytest.mark.parametrize("called_before", [False, True])
def test_a_graph_that_may_not_break_refuses_to_track_the_module_inside(called_before):
    net = Net().eval()
    fast = torch.compile(net, backend="eager", fullgraph=True)
    if called_before:
        fast(rows())
    before = moments(net)
    with (
        forward_mode(net, **TRACK),
        pytest.raises(Exception, match="set forward_mode on the compiled"),
    ):
        fast(rows())
    torch.testing.assert_close(moments(net), before)
    assert_right(TRACK, net, fast, module=fast)


@compiled
@pytest.mark.parametrize("called_before", [False, True])
@pytest.mark.parametrize("compile_it", [False, True])
@pytest.mark.parametrize("direct", [False, True])
def test_a_part_that_holds_some_layers_is_refused(called_before, compile_it, direct):
    net = Net().eval()

    def by_layers(x):
        for layer in net.features:
            x = layer.forward(x) if direct else layer(x)
        return net.head(x)

    call = torch.compile(by_layers, backend="eager") if compile_it else by_layers
    if called_before:
        call(rows())
    before, own = moments(net), settings(net)
    with forward_mode(net, **TRACK), pytest.raises(UsageError, match="set forward_mode on what"):
        call(rows())
    assert settings(net) == own
    torch.testing.assert_close(moments(net), before)
    torch.testing.assert_close(call(rows()), net(rows()))
    with forward_mode(net.features[1], **TRACK):
        call(rows())
    assert not torch.equal(net.features[1].running_mean, before["features.1.running_mean"])
    assert torch.equal(net.features[4].running_mean, before["features.4.running_mean"])


@each_mode
@pytest.mark.parametrize("compile_it", [False, True])
@compiled
def test_instancenorm_with_running_statistics_is_set_too(mode, compile_it):
    net = nn.Sequential(
        nn.Conv1d(5, 4, 1), nn.InstanceNorm1d(4, affine=True, track_running_stats=True)
    )
    xs = [rows(1, (7, 5, 6)), rows(2, (7, 5, 6))]
    call = torch.compile(net, backend="eager") if compile_it else net
    call(xs[0])
    before = moments(net)
    assert_right(mode, net, call, xs)
    written = any(not torch.equal(before[name], m) for name, m in moments(net).items())
    assert written == (mode in (MODES["update"], TRACK))
