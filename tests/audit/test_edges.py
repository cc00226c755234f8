"""Where an audit was wrong once: it is right, or it says that it cannot tell."""

import copy
from itertools import count

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.func import functional_call, stack_module_state, vmap

from bnmodes import Audit, audit, forward_mode
from bnmodes.errors import UsageError

pytestmark = pytest.mark.numeric

BATCH_UPDATE, RUNNING = Audit(False, True, True), Audit(True, False, False)
TRUTH = {True: BATCH_UPDATE, False: RUNNING}
both_flags = pytest.mark.parametrize("training", [True, False])


def net(norm=nn.BatchNorm1d) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(5, 16), norm(16), nn.ReLU(), nn.Linear(16, 3))


def rows(count=8) -> torch.Tensor:
    return torch.randn(count, 5, generator=torch.Generator().manual_seed(1))


def state(module):
    return {name: t.clone() for name, t in module.state_dict(keep_vars=False).items()}


@both_flags
def test_functional_call_with_other_buffers_cannot_be_told(training):
    module, other = net().train(training), state(net())
    found = audit(lambda x: functional_call(module, other, x), rows(), modules=[module])
    assert found == Audit(None, training, None)
    assert found.statistics == "cannot tell"
    assert "functional_call" in found.reasons[0]
    assert "writes       cannot tell\nbecause " in str(found)


@both_flags
def test_functional_call_with_other_parameters_only_is_told(training):
    module = net().train(training)
    parameters = {name: p.detach() * 2 for name, p in net().named_parameters()}
    found = audit(lambda x: functional_call(module, parameters, x), rows(), modules=[module])
    assert found == TRUTH[training]


@both_flags
@pytest.mark.parametrize("members", [3, 8])
@pytest.mark.parametrize("given", ["base", "members"])
def test_an_ensemble_under_vmap_cannot_be_told_but_its_batch_mates_can(training, members, given):
    """With as many members as rows, the axis of the rows is not known by its length."""
    models = [net().train(training) for _ in range(members)]
    for place, model in enumerate(models):
        model[3].weight.data += place
    parameters, buffers = stack_module_state(models)
    base = copy.deepcopy(models[0]).to("meta")

    def forward(x):
        return vmap(lambda p, b, x: functional_call(base, (p, b), x), in_dims=(0, 0, None))(
            parameters, {name: buffer.clone() for name, buffer in buffers.items()}, x
        )

    found = audit(forward, rows(8), modules={"base": [base], "members": models}[given])
    assert found == Audit(None, training, None)
    assert ("vmap" if given == "base" else "seen to run") in found.reasons[0]


class OwnNorm(nn.Module):
    """Moments with other names, kept in another way."""

    def __init__(self, size, kind="buffer"):
        super().__init__()
        for name, value in (("mu", torch.zeros(size)), ("sigma2", torch.ones(size))):
            if kind == "buffer":
                self.register_buffer(name, value)
            elif kind == "parameter":
                self.register_parameter(name, nn.Parameter(value, requires_grad=False))
            else:
                setattr(self, name, value)
        self.register_buffer("count", torch.zeros((), dtype=torch.long))

    def forward(self, x):
        if self.training:
            self.count += 1
            return F.batch_norm(x, self.mu, self.sigma2, training=True)
        return F.batch_norm(x, self.mu, self.sigma2)


@both_flags
@pytest.mark.parametrize("kind", ["buffer", "parameter", "attribute"])
def test_moments_are_found_by_what_they_do(training, kind):
    module = net(lambda n: OwnNorm(n, kind)).train(training)
    found = audit(module, rows())
    assert found == TRUTH[training]
    assert found.constants == ()
    assert module[1].count == 0
    assert torch.equal(module[1].mu, torch.zeros(16))


def test_a_layer_that_reads_its_moments_and_moves_them_with_the_rows():
    class Both(OwnNorm):
        def forward(self, x):
            self.mu.lerp_(x.mean(0), 0.1)
            return (x - self.mu) / self.sigma2.sqrt()

    assert audit(net(Both), rows()) == Audit(True, True, True)


def test_a_moment_of_momentum_one_is_one():
    class LastMean(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("last", torch.zeros(5))

        def forward(self, x):
            if self.training:
                self.last.copy_(x.mean(0))
                return x - x.mean(0)
            return x - self.last

    assert audit(LastMean().train(), rows()) == BATCH_UPDATE
    assert audit(LastMean().eval(), rows()) == RUNNING


def test_caches_and_constants_are_no_running_statistics():
    class Head(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("atoms", torch.linspace(-1, 1, 5))
            self.register_buffer("seen", torch.zeros(8, 5))

        def forward(self, x):
            self.seen.copy_(x)
            return (x.softmax(-1) * self.atoms).sum(-1)

    found = audit(Head(), rows())
    assert found == Audit(False, False, False)
    assert found.constants == ("atoms",)
    assert "constants    atoms: read, and written by nothing" in str(found)
    in_eval = audit(nn.Sequential(nn.BatchNorm1d(5), Head()).eval(), rows())
    assert in_eval == RUNNING


def zero_head(module):
    module[3].weight.data.zero_()
    module[3].bias.data.zero_()


def scale(value, offset):
    def change(module):
        module[1].weight.data.fill_(value)
        module[1].bias.data.fill_(offset)

    return change


def far_output(module):
    module[3].bias.data.fill_(1e6)
    module[3].weight.data.mul_(1e-3)


HIDDEN = {
    "zero head": zero_head,
    "gamma 0": scale(0.0, 0.0),
    "gamma 0, offset 1": scale(0.0, 1.0),
    "gamma 1e-7": scale(1e-7, 0.0),
    "gamma 1e-7, offset 1": scale(1e-7, 1.0),
    "outputs near 1e6": far_output,
    "silenced": scale(1.0, -100.0),
}


@both_flags
@pytest.mark.parametrize("hide", HIDDEN.values(), ids=HIDDEN)
def test_parameters_that_hide_it_are_looked_behind(training, hide):
    module = net().train(training)
    hide(module)
    before = state(module)
    assert audit(module, rows()) == TRUTH[training]
    after = state(module)
    assert all(torch.equal(after[name], before[name]) for name in before)


@both_flags
@pytest.mark.parametrize(
    "then",
    [lambda y: y * 0, lambda y: y * 1e-9 + 1e6, lambda y: y > 1e9, lambda y: y.argmax(-1) * 0],
    ids=["times zero", "drowned", "never true", "whole zeros"],
)
def test_what_the_function_itself_hides_cannot_be_told(training, then):
    module = net().train(training)
    found = audit(lambda x: then(module(x)), rows(), modules=[module])
    truth = TRUTH[training]
    assert found.writes_stored_moments == truth.writes_stored_moments
    for name in ("reads_stored_moments", "depends_on_batch_mates"):
        assert getattr(found, name) in (None, getattr(truth, name))
    assert found.statistics == "cannot tell"
    assert "layers inside depend on" in found.reasons[0]


@both_flags
def test_greedy_actions_are_right_or_unknown(training):
    module = net().train(training)
    found = audit(lambda x: module(x).argmax(-1), rows(32), modules=[module])
    truth = TRUTH[training]
    assert found.writes_stored_moments == truth.writes_stored_moments
    assert found.reads_stored_moments in (None, truth.reads_stored_moments)
    assert found.depends_on_batch_mates in (None, truth.depends_on_batch_mates)


@both_flags
def test_scales_of_inputs_do_not_matter(training):
    for size in (1e-6, 1e6):
        module = net().train(training)
        for _ in range(3):
            net_input = rows() * size
            with forward_mode(module, "batch", update=1.0):
                module(net_input)
        assert audit(module, net_input) == TRUTH[training]


@both_flags
def test_a_scale_of_zero_in_tensors_that_cannot_be_changed_is_unknown(training):
    module = net().train(training)
    zero = {"1.weight": torch.zeros(16)}
    skip = lambda x: functional_call(module, zero, x) + x[:, :3]  # noqa: E731
    found = audit(skip, rows(), modules=[module])
    assert found.reads_stored_moments is None
    assert found.writes_stored_moments is training
    assert "1 gives the same output for every row" in found.reasons[0]


class Nested(nn.Module):
    def __init__(self):
        super().__init__()
        self.obs, self.goal = net(), net()

    def forward(self, batch):
        q = self.obs(batch["obs"]) + self.goal(batch["goal"][0])
        return {"q": q, "more": (q.argmax(-1), [q * 2, None]), "loss": q.mean(), "name": "q"}


@both_flags
def test_inputs_and_outputs_may_be_nested(training):
    module = Nested().train(training)
    batch = {"obs": rows(), "goal": (rows() * 2 + 1, "text"), "step": 3}
    assert audit(module, batch) == TRUTH[training]
    assert audit(lambda b: module(b)["q"], batch, modules=[module]) == TRUTH[training]


def test_the_batch_may_be_numpys():
    module = net().eval()
    numpy_rows = rows().numpy()
    found = audit(lambda x: module(torch.from_numpy(x)), numpy_rows, modules=[module])
    assert found == RUNNING


def test_rows_that_do_not_fit_are_refused():
    with pytest.raises(UsageError, match=r"different numbers of rows .*/obs: 8"):
        audit(Nested(), {"obs": rows(8), "goal": (rows(4),)})
    with pytest.raises(UsageError, match="no tensor with rows"):
        audit(net(), {"obs": "none"})
    with pytest.raises(UsageError, match="two rows"):
        audit(Nested(), {"obs": rows(1), "goal": (rows(1),)})


def test_lazy_layers_are_refused_and_unharmed():
    module = nn.Sequential(nn.LazyLinear(4), nn.LazyBatchNorm1d())
    with pytest.raises(UsageError, match="call it once"):
        audit(module, rows())
    module(rows())
    assert audit(module, rows()) == BATCH_UPDATE


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
@both_flags
def test_other_precisions(training, dtype):
    assert audit(net().to(dtype).train(training), rows(32).to(dtype)) == TRUTH[training]


@both_flags
def test_a_compiled_module_keeps_no_trace_of_the_look_inside(training):
    torch._dynamo.reset()
    module = net().train(training)
    fast = torch.compile(module, backend="eager")
    assert audit(fast, rows()) == TRUTH[training]
    torch.testing.assert_close(fast(rows()), copy.deepcopy(module)(rows()))
    assert not any(part._forward_hooks or part._forward_pre_hooks for part in module.modules())
    torch._dynamo.reset()


def test_a_tracked_module_called_as_compiled_is_told():
    torch._dynamo.reset()
    module = net().eval()
    fast = torch.compile(module, backend="eager")
    fast(rows())
    with forward_mode(module, "running", track=0.1):
        assert audit(fast, rows(), modules=[module]) == Audit(True, True, True)
    torch._dynamo.reset()


def test_a_backward_that_waits_may_go_on():
    module = net().eval()
    loss = module(rows()).sum()
    audit(module, rows())
    loss.backward()
    assert module[0].weight.grad is not None


def test_a_forward_that_fails_in_training_mode_or_with_other_parameters_is_told():
    class Choosy(OwnNorm):
        def forward(self, x):
            assert not self.training
            return super().forward(x)

    module = net(Choosy).eval()
    weight = module[0].weight.detach().clone()

    def forward(x):
        assert torch.equal(module[0].weight, weight)
        return module(x)

    found = audit(forward, rows(), modules=[module])
    assert found == Audit(False, False, False), "nothing shows that mu and sigma2 are ever written"
    assert found.constants == ("1.mu", "1.sigma2")


def test_frozen_parameters_are_no_running_statistics():
    module = net().eval().requires_grad_(False)
    found = audit(module, rows())
    assert found == RUNNING
    assert found.constants == ()


def test_faint_noise_is_no_evidence():
    """A forward that rounds differently in each run, as some devices do."""
    module, call = net(nn.Identity), count()
    found = audit(lambda x: module(x) * (1 + 1e-6 * (next(call) % 3)), rows(), modules=[module])
    assert found == Audit(False, False, False)
