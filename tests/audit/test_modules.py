"""The audit against forwards whose mode is known by construction."""

import random

import numpy as np
import pytest
import torch
from torch import nn

import bnmodes
from bnmodes import Audit, audit, forward_mode
from bnmodes.errors import UsageError
from bnmodes.networks.value import NormSettings, QNetwork
from bnmodes.protocol import Mode

pytestmark = pytest.mark.numeric

MODES = {
    "batch": Mode(statistics="batch"),
    "batch, update": Mode(statistics="batch", update=0.01),
    "running": Mode(statistics="running"),
    "tracked": Mode(statistics="running", track=0.01),
}
NONE = Audit(False, False, False)


def foreign(norm=nn.BatchNorm1d, dropout=0.0) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(5, 16), norm(16), nn.ReLU(), nn.Dropout(dropout), nn.Linear(16, 3)
    )


def rows(count=8) -> torch.Tensor:
    return torch.randn(count, 5, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("mode", MODES.values(), ids=MODES)
def test_the_four_modes_of_our_network_are_told_apart(mode):
    network = QNetwork(
        (2, 10, 10),
        (3, 7),
        "minatar",
        NormSettings(kind="bn"),
        1.0,
        torch.Generator().manual_seed(0),
    )
    x = torch.randint(0, 2, (6, 2, 10, 10), dtype=torch.uint8)
    observed = audit(lambda x: network(x, mode), x, modules=[network])
    assert observed == Audit.promised_by(mode)
    assert observed == Audit(
        reads_stored_moments=mode.statistics == "running",
        depends_on_batch_mates=mode.statistics == "batch" or mode.track is not None,
        writes_stored_moments=mode.update is not None or mode.track is not None,
    )


@pytest.mark.parametrize("mode", MODES.values(), ids=MODES)
@pytest.mark.parametrize("trained", [True, False])
def test_a_foreign_module_under_forward_mode_is_told_apart_too(mode, trained):
    module = foreign().train(trained)
    with forward_mode(module, mode.statistics, track=mode.track, update=mode.update):
        assert audit(module, rows()) == Audit.promised_by(mode)


def test_pytorchs_flags():
    assert audit(foreign().train(), rows()) == Audit.promised_by(MODES["batch, update"])
    assert audit(foreign().eval(), rows()) == Audit.promised_by(MODES["running"])
    without_moments = foreign(lambda n: nn.BatchNorm1d(n, track_running_stats=False)).eval()
    assert audit(without_moments, rows()) == Audit.promised_by(MODES["batch"])


def test_a_module_that_mixes_both_is_neither():
    module = nn.Sequential(foreign().eval(), nn.BatchNorm1d(3).train())
    assert audit(module, rows()) == Audit(True, True, True)
    assert audit(module, rows()).statistics == "running+batch"


@pytest.mark.parametrize("norm", [nn.LayerNorm, lambda n: nn.GroupNorm(4, n), nn.Identity])
def test_rows_that_stand_alone(norm):
    assert audit(foreign(norm).train(), rows()) == NONE
    assert NONE.statistics == "none"


@pytest.mark.parametrize(("training", "expected"), [(True, "batch, update"), (False, "running")])
def test_dropout_is_no_batch_mate_and_does_not_hide_one(training, expected):
    without_norm = foreign(nn.Identity, dropout=0.5).train()
    assert audit(without_norm, rows()) == NONE
    module = foreign(dropout=0.5)
    module[1].train(training)
    assert audit(module, rows()) == Audit.promised_by(MODES[expected])


def test_numpys_and_pythons_randomness_is_held_and_put_back():
    def noisy(x):
        return x + np.random.standard_normal() + random.random()

    after = []
    for forward in (noisy, lambda x: x):  # the type checks of the tests draw from random themselves
        np.random.seed(3), random.seed(3)
        assert audit(forward, rows(), modules=[]) == NONE
        after.append((np.random.standard_normal(), random.random()))
    assert after[0] == after[1]


def test_a_forward_with_its_own_random_stream_is_refused():
    stream = torch.Generator()
    with pytest.raises(UsageError, match="other outputs for the same rows"):
        audit(lambda x: x + torch.randn(x.shape, generator=stream), rows(), modules=[])


@pytest.mark.parametrize("count", [2, 3, 9])
def test_any_number_of_rows_but_one(count):
    assert audit(foreign().train(), rows(count)).statistics == "batch"
    assert audit(foreign().eval(), rows(count)).statistics == "running"
    with pytest.raises(UsageError, match="two rows"):
        audit(foreign().eval(), rows(1))


@pytest.mark.parametrize("count", [2, 3])
def test_rows_that_are_alike_after_the_exchange_silence_no_layer(count):
    module = nn.Sequential(nn.BatchNorm1d(5))
    with forward_mode(module, "batch"):
        assert audit(module, rows(count)) == Audit(False, True, False)


def test_a_write_that_changes_nothing_any_more_is_seen():
    """Momentum 1 stores this batch's moments; the same batch again stores the same."""
    module = foreign(lambda n: nn.BatchNorm1d(n, momentum=1.0)).train()
    module(rows())
    assert audit(module, rows()).writes_stored_moments


def test_a_diverged_network_in_eval_writes_nothing():
    module = foreign().eval()
    module[1].running_mean[0] = torch.nan
    assert audit(module, rows()) == Audit(None, False, False), "every output is NaN"


def test_a_silenced_relu_does_not_hide_the_stored_moments():
    module = foreign().eval()
    module[1].running_mean.fill_(100.0)
    assert audit(module, rows()).statistics == "running"


def test_other_buffers_are_no_stored_moments():
    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("scale", torch.ones(5))
            self.register_buffer("calls", torch.zeros(()))

        def forward(self, x):
            self.calls += 1
            return x * self.scale

    module = Scaled()
    assert audit(module, rows()) == NONE
    assert module.calls == 0


@pytest.mark.parametrize("fails", [False, True])
def test_everything_is_left_as_it_was(fails):
    class Restless(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = foreign(dropout=0.5)
            self.register_buffer("mean", torch.zeros(3))

        def forward(self, x):
            self.mean = self.mean + 1  # another tensor in the buffer's place
            self.inner.train(not self.inner.training)
            y = self.inner(x)
            return y.sum() if fails else y

    module = Restless()
    tensors = dict(module.named_buffers())
    values = {name: tensor.clone() for name, tensor in tensors.items()}
    torch.manual_seed(3), np.random.seed(3)
    states = torch.get_rng_state(), np.random.get_state()[1].copy()
    x = rows()
    if fails:
        with pytest.raises(UsageError, match="a row for each row"):
            audit(module, x)
    else:
        audit(module, x)
    for name, buffer in module.named_buffers():
        assert buffer is tensors[name]
        assert torch.equal(buffer, values[name])
    assert all(part.training for part in module.modules())
    assert torch.equal(torch.get_rng_state(), states[0])
    assert np.array_equal(np.random.get_state()[1], states[1])
    assert torch.equal(x, rows())
    assert all(p.grad is None for p in module.parameters())


class FrozenNorm(nn.Module):
    """As torchvision's FrozenBatchNorm2d: no BatchNorm layer, and nothing ever writes."""

    def __init__(self, size):
        super().__init__()
        self.register_buffer("running_mean", torch.zeros(size))
        self.register_buffer("running_var", torch.ones(size))

    def forward(self, x):
        return (x - self.running_mean) / (self.running_var + 1e-5).sqrt()


def test_running_statistics_are_known_by_name_in_any_layer():
    found = audit(foreign(FrozenNorm), rows())
    assert found == Audit.promised_by(MODES["running"])
    assert found.constants == ()


@pytest.mark.parametrize(("training", "expected"), [(True, "batch, update"), (False, "running")])
def test_an_exported_network_has_no_layers_left_but_is_told(training, expected):
    module = foreign().train(training)
    module[-1].weight.data.zero_()
    exported = torch.export.export(module, (rows(),)).module()
    assert audit(exported, rows()) == Audit.promised_by(MODES[expected])


def test_bad_questions_are_refused_with_a_sentence():
    module = foreign()
    for compiled in (torch.jit.script(module), torch.jit.trace(module.eval(), rows())):
        with pytest.raises(UsageError, match="TorchScript shows nothing"):
            audit(compiled, rows())
    with pytest.raises(UsageError, match="TorchScript shows nothing"):
        audit(nn.Sequential(torch.jit.script(module)), rows())
    with pytest.raises(UsageError, match="give audit its modules"):
        audit(lambda x: module(x), rows())
    with pytest.raises(UsageError, match="rows of this batch are alike"):
        audit(module, rows()[:1].expand(6, -1))


def test_it_reads_well():
    assert bnmodes.audit is audit
    assert str(audit(foreign().train(), rows())) == (
        "statistics   batch: statistics of these rows\n"
        "batch-mates  each row depends on them\n"
        "writes       running statistics"
    )
    assert "batch-mates  each row stands alone" in str(audit(foreign().eval(), rows()))
