import pytest

from bnmodes.analysis.statistics import Interval
from bnmodes.analysis.wording import counted, written


def test_one_is_singular():
    assert [counted(n, "game") for n in (0, 1, 2, 1_300)] == [
        "0 games",
        "1 game",
        "2 games",
        "1,300 games",
    ]


@pytest.mark.parametrize(
    ("interval", "text"),
    [
        (Interval(102.4, 89.6, 113.2), "102% [90, 113]"),
        (Interval(9.99, -59.19, 78.98), "10% [−59, 79]"),
        (Interval(0.301, -0.129, 0.5), "0.30% [−0.13, 0.50]"),
        (Interval(181.2, 181.2, 181.2), "181% [–]"),
    ],
)
def test_an_interval_has_the_digits_that_its_largest_number_needs(interval, text):
    assert written(interval, "%") == text
