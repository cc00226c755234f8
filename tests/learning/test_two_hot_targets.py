import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bnmodes.learning.targets import TwoHot, symexp

pytestmark = pytest.mark.numeric

LIMIT = 22025.0  # just inside e^10 − 1


@given(st.floats(-LIMIT, LIMIT, width=32))
def test_a_number_comes_back_and_lies_on_two_neighbours(number):
    coder = TwoHot()
    weights = coder.encode(torch.tensor([number]))
    assert coder.decode(weights).item() == pytest.approx(number, rel=1e-4, abs=1e-4)
    held = weights[0].nonzero()[:, 0]
    assert len(held) in (1, 2)
    assert held[-1] - held[0] <= 1
    assert weights.sum().item() == pytest.approx(1, abs=1e-6)
    assert (weights >= 0).all()


def test_the_bins_are_symexp_of_equal_steps():
    places = TwoHot().places()
    steps = [-10 + k * 20 / 64 for k in range(65)]
    expected = [math.copysign(math.exp(abs(x)) - 1, x) for x in steps]
    torch.testing.assert_close(places, torch.tensor(expected), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(symexp(torch.tensor([0.0, math.log(2)])), torch.tensor([0.0, 1.0]))


@pytest.mark.parametrize(("number", "bin_"), [(1e9, 64), (-1e9, 0), (0.0, 32)])
def test_ends_and_middle_are_single_bins(number, bin_):
    weights = TwoHot().encode(torch.tensor([[number]]))
    assert weights.shape == (1, 1, 65)
    assert weights[0, 0, bin_] == pytest.approx(1.0, abs=1e-5)


def test_weights_are_shared_by_nearness_in_the_numbers_own_space():
    coder = TwoHot()
    low, high = coder.places()[40], coder.places()[41]
    weights = coder.encode((0.25 * low + 0.75 * high)[None])
    torch.testing.assert_close(weights[0, 40:42], torch.tensor([0.25, 0.75]), atol=1e-5, rtol=0)
