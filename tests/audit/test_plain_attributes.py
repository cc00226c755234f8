"""Running statistics that are no buffers: in objects, dicts, lists and arrays of NumPy."""

import copy
from collections import namedtuple

import numpy as np
import pytest
import torch
from torch import nn

from bnmodes import Audit, audit

pytestmark = pytest.mark.numeric

Moments = namedtuple("Moments", ["mean", "var"])


def rows(count=8) -> torch.Tensor:
    return torch.randn(count, 4, generator=torch.Generator().manual_seed(1))


class RunningMeanStd:
    """The helper of many observation normalisers: new arrays each time, and a count of rows."""

    def __init__(self, like=torch):
        self.mean, self.var, self.count = like.zeros(4), like.ones(4), 1e-4

    def update(self, mean, rows):
        self.count += rows
        self.mean = self.mean + (mean - self.mean) * rows / self.count


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(4, 3)
        self.begin()

    def forward(self, x):
        if self.training:
            self.move(x)
        mean, var = (torch.as_tensor(moment, dtype=x.dtype) for moment in self.moments())
        return self.head((x - mean) / var.sqrt())


class InObject(Net):
    def begin(self):
        self.rms = RunningMeanStd()

    def moments(self):
        return self.rms.mean, self.rms.var

    def move(self, x):
        self.rms.update(x.mean(0), len(x))


class InObjectOfNumpy(InObject):
    def begin(self):
        self.rms = RunningMeanStd(np)

    def move(self, x):
        self.rms.update(x.mean(0).numpy(), len(x))


class InDictOfObjects(InObject):
    def begin(self):
        self.normalisers = {"obs": RunningMeanStd()}

    @property
    def rms(self):
        return self.normalisers["obs"]


class InDict(Net):
    def begin(self):
        self.stats = {"mean": torch.zeros(4), "var": torch.ones(4)}

    def moments(self):
        return self.stats["mean"], self.stats["var"]

    def move(self, x):
        self.stats["mean"].lerp_(x.mean(0), 0.1)


class InNewDict(InDict):
    def move(self, x):
        self.stats = self.stats | {"mean": self.stats["mean"].lerp(x.mean(0), 0.1)}


class InList(Net):
    def begin(self):
        self.stats = [torch.zeros(4), torch.ones(4)]

    def moments(self):
        return self.stats

    def move(self, x):
        self.stats[0] = self.stats[0].lerp(x.mean(0), 0.1)


class InNamedTuple(InList):
    def begin(self):
        self.stats = Moments(torch.zeros(4), torch.ones(4))

    def move(self, x):
        self.stats = self.stats._replace(mean=self.stats.mean.lerp(x.mean(0), 0.1))


class InArrays(Net):
    def begin(self):
        self.mean, self.var = np.zeros(4), np.ones(4, dtype=np.float32)

    def moments(self):
        return self.mean, self.var

    def move(self, x):
        self.mean += 0.1 * (x.mean(0).numpy() - self.mean)


KINDS = (
    InObject, InObjectOfNumpy, InDictOfObjects, InDict, InNewDict, InList, InNamedTuple, InArrays,
)  # fmt: skip
each_kind = pytest.mark.parametrize("kind", KINDS)


@each_kind
@pytest.mark.parametrize("training", [True, False])
def test_they_are_found_and_put_back(kind, training):
    module = kind().train(training)
    module.move(rows() + 1)
    kept, values = module.moments(), copy.deepcopy(module.moments())
    counted = copy.deepcopy(vars(getattr(module, "rms", object)).get("count"))
    assert audit(module, rows()) == Audit(True, training, training)
    for moment, before, value in zip(module.moments(), kept, values, strict=True):
        assert moment is before
        np.testing.assert_array_equal(moment, value)
    assert vars(getattr(module, "rms", object)).get("count") == counted


@each_kind
def test_what_is_only_read_is_a_constant(kind):
    class ReadOnly(kind):
        def forward(self, x):
            self.training = False
            return super().forward(x)

    found = audit(ReadOnly(), rows())
    assert found == Audit(False, False, False)
    assert len(found.constants) == 2


def test_what_a_list_shares_with_parameters_is_no_statistic():
    """Recurrent layers of PyTorch keep their parameters in a list too."""

    class Recurrent(nn.Module):
        def __init__(self):
            super().__init__()
            self.cell = nn.GRU(4, 3, batch_first=True)

        def forward(self, x):
            return self.cell(x[:, None])[0][:, 0]

    found = audit(Recurrent().requires_grad_(False), rows())
    assert found == Audit(False, False, False)
    assert found.constants == ()


def test_objects_that_hold_no_arrays_or_much_data_are_let_alone():
    class Agent(nn.Module):
        def __init__(self):
            super().__init__()
            self.head = nn.Linear(4, 3)
            self.me, self.library, self.kind = [self], np, Agent
            self.calls = {"forward": 0}
            self.replay = {"frames": np.zeros((2**12, 2**13), dtype=np.uint8)}

        def forward(self, x):
            self.calls["forward"] += 1
            return self.head(x)

    module = Agent()
    assert audit(module, rows()) == Audit(False, False, False)
    assert module.calls["forward"] > 1


@each_kind
def test_two_modules_may_have_the_same_names(kind):
    modules = [kind().eval(), kind().eval()]
    for used in modules:
        assert audit(lambda x, net=used: net(x), rows(), modules=modules).statistics == "running"
