"""Options of scoring: the test metric of PQN's release beside ours."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from bnmodes.cli.scoring import Scoring
from bnmodes.errors import UsageError
from bnmodes.studies.quick import QUICK
from helpers.synthetic import minatar_study, synthetic_results


def test_released_metrics_are_made_of_each_test_environments_last_game():
    results = synthetic_results(QUICK)
    last = pl.col("metric").replace("test/return", "test/last_return")
    rows = results.table.with_columns(metric=last, value=pl.col("value") + 5)
    results = replace(results, table=pl.concat([results.table, rows]))
    ours = Scoring().numbers(results)
    released = Scoring(released_metrics=True).numbers(results)
    for arm in QUICK.arms:
        np.testing.assert_allclose(released.raw(arm).values, ours.raw(arm).values + 5)


def test_the_kind_of_interval_is_the_chosen_one():
    results = synthetic_results(minatar_study())
    assert "(stretched)" in Scoring().numbers(results).interval_words
    assert "(plain percentile)" in Scoring(interval="percentile").numbers(results).interval_words


def test_they_are_refused_where_evaluations_are_scored():
    results = synthetic_results(minatar_study())
    with pytest.raises(UsageError, match="leave out --released-metrics"):
        Scoring(released_metrics=True).numbers(results)
