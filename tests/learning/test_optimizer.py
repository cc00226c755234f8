"""The same steps as PyTorch's optimizers."""

import pytest
import torch
from torch import nn

from bnmodes.learning.optimizer import Optimizer

pytestmark = pytest.mark.numeric

ORIGINALS = {
    "adam": lambda p: torch.optim.Adam(p, lr=0.01, eps=3e-4, fused=True),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.01, eps=3e-4, weight_decay=0.1, fused=True),
    "radam": lambda p: torch.optim.RAdam(p, lr=0.01, eps=3e-4, foreach=True),
}
each_rule = pytest.mark.parametrize("rule", ORIGINALS)


def network() -> nn.Module:
    torch.manual_seed(0)
    layers = nn.Sequential(nn.Conv2d(3, 5, 3), nn.ReLU(), nn.Flatten(), nn.Linear(20, 2))
    return layers.to(memory_format=torch.channels_last)


def ours(rule: str, parameters) -> Optimizer:
    decay = 0.1 if rule == "adamw" else 0.0
    return Optimizer(rule, parameters, 0.01, epsilon=3e-4, weight_decay=decay)


def loss_of(layers: nn.Module, seed: int) -> torch.Tensor:
    return (
        layers(torch.randn(4, 3, 4, 4, generator=torch.Generator().manual_seed(seed)))
        .square()
        .mean()
    )


def same(a: nn.Module, b: nn.Module) -> bool:
    return all(torch.equal(p, q) for p, q in zip(a.parameters(), b.parameters(), strict=True))


@each_rule
@pytest.mark.parametrize("clip", [None, 0.1])
def test_it_steps_as_the_original_does(rule, clip):
    mine, theirs = network(), network()
    optimizer, original = ours(rule, mine.parameters()), ORIGINALS[rule](theirs.parameters())
    for step in range(12):  # RAdam changes its rule at the sixth
        rate = 0.01 if rule == "radam" else 0.01 / (step + 1)
        norm = optimizer.descend(
            loss_of(mine, step), rate if rule == "radam" else optimizer.at(rate), clip
        )
        original.zero_grad()
        loss_of(theirs, step).backward()
        if clip is not None:
            theirs_norm = nn.utils.clip_grad_norm_(theirs.parameters(), clip)
            torch.testing.assert_close(norm, theirs_norm, rtol=1e-6, atol=0)
            assert norm > clip
        original.param_groups[0]["lr"] = rate
        original.step()
        for p, q in zip(mine.parameters(), theirs.parameters(), strict=True):
            torch.testing.assert_close(p, q, rtol=1e-5, atol=1e-7)


@each_rule
def test_a_loaded_state_goes_on_as_if_never_saved(rule):
    whole, parted = network(), network()
    first = ours(rule, whole.parameters())
    for step in range(4):
        first.descend(loss_of(whole, step), 0.01)
    parted.load_state_dict(whole.state_dict())
    second = ours(rule, parted.parameters())
    assert not second.has_stepped
    second.load_state([{name: t.clone() for name, t in row.items()} for row in first.state()])
    assert second.has_stepped
    for step in range(4, 8):
        first.descend(loss_of(whole, step), 0.01)
        second.descend(loss_of(parted, step), 0.01)
    assert same(whole, parted)


def test_it_moves_its_own_parameters_and_leaves_no_gradient():
    layers = network()
    before = [p.detach().clone() for p in layers.parameters()]
    head = list(layers[3].parameters())
    Optimizer("adam", head, 0.01).descend(loss_of(layers, 0), 0.01)
    moved = [not torch.equal(a, b) for a, b in zip(before, layers.parameters(), strict=True)]
    assert moved == [False, False, True, True]
    assert all(p.grad is None for p in layers.parameters())
