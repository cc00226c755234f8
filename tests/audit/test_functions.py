"""The audit of a function of running statistics and rows, with numpy alone."""

import numpy as np
import pytest

from bnmodes import Audit, audit_function
from bnmodes.errors import UsageError

pytestmark = pytest.mark.numeric

RNG = np.random.default_rng(0)
STATISTICS = {"bn": {"mean": np.zeros(4), "var": np.ones(4), "count": np.array(3)}}
ROWS = RNG.normal(2.0, 3.0, (8, 4)).astype(np.float32)
HEAD = RNG.normal(size=(4, 3))


def normalised(statistics, x, train):
    bn = statistics["bn"]
    mean, var = (x.mean(0), x.var(0)) if train else (bn["mean"], bn["var"])
    return (x - mean) / np.sqrt(var + 1e-5)


def moved(statistics, x):
    bn = statistics["bn"]
    new = {"mean": 0.9 * bn["mean"] + 0.1 * x.mean(0), "var": 0.9 * bn["var"] + 0.1 * x.var(0)}
    return {"bn": new | {"count": bn["count"] + 1}}


FORWARDS = {
    "evaluation": (
        lambda s, x: (normalised(s, x, train=False) @ HEAD, None),
        Audit(True, False, False),
    ),
    "training": (
        lambda s, x: (normalised(s, x, train=True) @ HEAD, moved(s, x)),
        Audit(False, True, True),
    ),
    "batch": (
        lambda s, x: (normalised(s, x, train=True) @ HEAD, s),
        Audit(False, True, False),
    ),
    "tracked": (
        lambda s, x: (normalised(moved(s, x), x, train=False) @ HEAD, moved(s, x)),
        Audit(True, True, True),
    ),
    "no norm": (lambda s, x: (x @ HEAD, None), Audit(False, False, False)),
}


@pytest.mark.parametrize(("forward", "truth"), FORWARDS.values(), ids=FORWARDS)
def test_the_modes_are_told_apart(forward, truth):
    assert audit_function(forward, STATISTICS, ROWS) == truth
    nested = audit_function(
        lambda s, b: ({"q": forward(s, b["obs"])[0]}, forward(s, b["obs"])[1]),
        STATISTICS,
        {"obs": ROWS, "step": 3},
    )
    assert nested == truth


def test_what_was_given_is_left_as_it_was():
    def in_place(statistics, x):
        statistics["bn"]["mean"] += x.mean(0)
        x += 1
        return x - statistics["bn"]["mean"], None

    rows, mean = ROWS.copy(), STATISTICS["bn"]["mean"].copy()
    assert audit_function(in_place, STATISTICS, ROWS).writes_stored_moments
    assert np.array_equal(ROWS, rows)
    assert np.array_equal(STATISTICS["bn"]["mean"], mean)


@pytest.mark.parametrize(
    ("then", "reason"),
    [
        (lambda y: y * 0, "the same for every row"),
        (lambda y: (y > 1e9).astype(int), "the same for every row"),
        (lambda y: np.arange(8) + 0 * y.argmax(-1), "whole numbers"),
        (lambda y: (y * 1e-15 + 1e5).astype(np.float32), "the same for every row"),
        (lambda y: (0.05 * np.tanh(y) + 1e4 * ROWS).astype(np.float32), "no more than rounding"),
    ],
)
def test_what_the_output_hides_cannot_be_told(then, reason):
    found = audit_function(
        lambda s, x: (then(normalised(s, x, train=False)), None), STATISTICS, ROWS
    )
    assert found.reads_stored_moments is None
    assert found.writes_stored_moments is False
    assert reason in found.reasons[0]
    both = audit_function(
        lambda s, x: ((then(normalised(s, x, train=False)), normalised(s, x, train=False)), None),
        STATISTICS,
        ROWS,
    )
    assert both == FORWARDS["evaluation"][1], "an inner value shows it"


def test_bad_questions_are_refused_with_a_sentence():
    with pytest.raises(UsageError, match="returns \\(output, new statistics\\)"):
        audit_function(lambda s, x: x, STATISTICS, ROWS)
    with pytest.raises(UsageError, match="not nested as the given"):
        audit_function(lambda s, x: (x, {"batch_stats": s}), STATISTICS, ROWS)
    with pytest.raises(UsageError, match="hold no array"):
        audit_function(lambda s, x: (x, s), {}, ROWS)
    noise = np.random.default_rng(0)
    with pytest.raises(UsageError, match="other outputs for the same rows"):
        audit_function(lambda s, x: (x + noise.normal(), s), STATISTICS, ROWS)
