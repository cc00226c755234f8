from dataclasses import dataclass, field

import pytest

from bnmodes.bounds import Bins, Count, Fraction, NotNegative, Positive, Whole, check_bounds
from bnmodes.errors import UsageError


@dataclass(frozen=True)
class Inner:
    share: Fraction = 0.5
    name: str = "inner"


@dataclass(frozen=True)
class Record:
    count: Count = 1
    whole: Whole = 0
    bins: Bins = 2
    fraction: Fraction = 0.0
    positive: Positive = 1e-9
    not_negative: NotNegative = 0.0
    free: float = -1e9
    weight: float | None = None
    switch: bool = False
    inner: Inner = field(default_factory=Inner)


@pytest.mark.parametrize(
    "inside",
    [
        {},
        {"count": 10**9, "whole": 10**9, "bins": 3, "fraction": 1.0, "positive": 1e9},
        {"weight": -1.0, "switch": True, "free": 1e9},
    ],
)
def test_numbers_inside_their_bounds_are_taken(inside):
    check_bounds(Record(**inside))


@pytest.mark.parametrize(
    ("outside", "sentence"),
    [
        ({"count": 0}, "count is 0, but must be at least 1."),
        ({"whole": -1}, "whole is -1, but must be at least 0."),
        ({"bins": 1}, "bins is 1, but must be at least 2."),
        ({"fraction": 1.5}, "fraction is 1.5, but must be between 0 and 1."),
        ({"fraction": -0.1}, "fraction is -0.1, but must be between 0 and 1."),
        ({"positive": 0.0}, "positive is 0.0, but must be above 0."),
        ({"not_negative": -1.0}, "not_negative is -1.0, but must be at least 0."),
        ({"positive": float("inf")}, "positive is inf, but must be a finite number."),
        ({"free": float("nan")}, "free is nan, but must be a finite number."),
        ({"weight": float("-inf")}, "weight is -inf, but must be a finite number."),
        ({"inner": Inner(share=2.0)}, "inner.share is 2.0, but must be between 0 and 1."),
    ],
)
def test_a_number_outside_its_bounds_is_refused_by_its_dotted_name(outside, sentence):
    with pytest.raises(UsageError) as refused:
        check_bounds(Record(**outside))
    assert str(refused.value) == sentence


def test_a_name_can_be_given_its_place():
    with pytest.raises(UsageError, match=r"^evaluation\.inner\.share is 2\.0"):
        check_bounds(Record(inner=Inner(share=2.0)), "evaluation.")
