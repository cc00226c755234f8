"""What of the online network is in the target, and what a copy copies."""

import pytest
import torch
from torch import nn

from bnmodes import CopyAudit, audit_copy
from bnmodes.errors import UsageError

pytestmark = pytest.mark.numeric


def network(seed=0, trained=True):
    torch.manual_seed(seed)
    net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))
    if trained:
        net(torch.randn(6, 3))
    return net


def copy_parameters(online, target, weight=1.0):
    """Stable-Baselines3's averaging before its pull request 1004: parameters only."""
    for new, old in zip(online.parameters(), target.parameters(), strict=True):
        old.data.lerp_(new.data, weight)


def copy_buffers(online, target):
    for new, old in zip(online.buffers(), target.buffers(), strict=True):
        old.data.copy_(new)


def test_what_is_there_now():
    online, target = network(0), network(1)
    assert audit_copy(online, target) == CopyAudit(False, False)
    copy_parameters(online, target)
    found = audit_copy(online, target)
    assert found == CopyAudit(True, False)
    assert found.different == ("1.running_mean", "1.running_var")
    assert "parameters          copied\nrunning statistics  not copied" in str(found)
    assert "copy buffers too" in str(found)
    target.load_state_dict(online.state_dict())
    assert audit_copy(online, target) == CopyAudit(True, True)
    target[0].weight.data.add_(1)
    assert audit_copy(online, target) == CopyAudit(False, True)


def test_statistics_that_are_equal_by_chance_are_no_copy():
    online, target = network(0, trained=False), network(0, trained=False)
    found = audit_copy(online, target)
    assert found == CopyAudit(True, None)
    assert "those of new layers" in found.reasons[0]
    without = nn.Linear(2, 2)
    assert audit_copy(without, without).statistics is None


@pytest.mark.parametrize("weight", [1.0, 0.005])
def test_a_copy_is_tried_and_everything_put_back(weight):
    online, target = network(0, trained=False), network(0, trained=False)
    before = {n: t.clone() for net in (online, target) for n, t in net.state_dict().items()}

    def parameters_only():
        copy_parameters(online, target, weight)

    def both():
        parameters_only()
        copy_buffers(online, target)

    found = audit_copy(online, target, parameters_only)
    assert found == CopyAudit(True, False)
    assert found.weight == pytest.approx(weight)
    assert audit_copy(online, target, both) == CopyAudit(True, True)
    assert audit_copy(online, target, both).statistics_weight == 1
    assert audit_copy(online, target, lambda: None) == CopyAudit(False, False)
    swapped = audit_copy(target, online, both)
    assert swapped == CopyAudit(False, False), "from target to online is no copy to the target"
    for net in (online, target):
        assert all(torch.equal(t, before[name]) for name, t in net.state_dict().items())
    if weight < 1:
        assert "averaged with weight 0.005" in str(found)


def test_a_copy_of_some_layers_is_no_copy():
    online, target = network(0), network(1)
    found = audit_copy(online, target, lambda: target[0].load_state_dict(online[0].state_dict()))
    assert found == CopyAudit(None, False)
    assert found.different == (
        "1.weight", "1.bias", "2.weight", "2.bias", "1.running_mean", "1.running_var",
    )  # fmt: skip
    assert "one weight" in found.reasons[0]


class Critic(nn.Module):
    """C51's atoms in a buffer, and an encoder that may be shared."""

    def __init__(self, encoder=None, atoms=None):
        super().__init__()
        self.encoder = encoder or nn.Identity()
        self.head = nn.Linear(4, 2)
        if atoms is not None:
            self.register_buffer("atoms", atoms)


def test_what_both_networks_share_is_left_out():
    encoder = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
    online, target = Critic(encoder), Critic(encoder)
    found = audit_copy(online, target, lambda: target.load_state_dict(online.state_dict()))
    assert found == CopyAudit(True, None)
    assert (found.weight, found.different) == (1.0, ())
    assert found.shared[0] == "encoder.0.weight"
    assert "shared              encoder.0.weight, " in str(found)
    assert "besides `shared`" in found.reasons[0]
    assert audit_copy(online, target, lambda: None) == CopyAudit(False, None)
    assert audit_copy(online, target) == CopyAudit(False, None)
    assert audit_copy(online, online) == CopyAudit(None, None)


def test_a_copy_that_leaves_no_numbers_cannot_be_told():
    online, target = network(0), network(1)
    found = audit_copy(online, target, lambda: target[0].weight.fill_(torch.nan))
    assert found == CopyAudit(None, False)
    assert "0.weight" in found.different


def test_atoms_are_no_running_statistics():
    online, target = (Critic(atoms=torch.linspace(-10, 10, 5)) for _ in range(2))
    found = audit_copy(online, target, lambda: copy_parameters(online, target, 0.01))
    assert found == CopyAudit(True, None)
    assert found.constants == ("atoms",)
    assert "copy buffers too" not in str(found)
    assert "constants           atoms" in str(found)
    target.load_state_dict(online.state_dict())
    assert audit_copy(online, target) == CopyAudit(True, None)
    target.atoms.add_(1)
    assert audit_copy(online, target) == CopyAudit(True, False)


def test_atoms_beside_running_statistics():
    atoms = torch.linspace(-10, 10, 5)
    online, target = (Critic(nn.BatchNorm1d(4), atoms.clone()) for _ in range(2))
    found = audit_copy(online, target, lambda: copy_buffers(online.encoder, target.encoder))
    assert found == CopyAudit(False, True)
    assert found.different == ("encoder.weight", "encoder.bias", "head.weight", "head.bias")


def test_networks_that_are_not_alike_are_refused():
    with pytest.raises(UsageError, match="different names or shapes"):
        audit_copy(network(), nn.Linear(3, 2))
