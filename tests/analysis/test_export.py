"""Tables for other programs."""

import numpy as np
import polars as pl
import pytest

from bnmodes.analysis.arms import momentum_of
from bnmodes.analysis.export import export, run_table
from bnmodes.analysis.scores import auc, collect, final
from bnmodes.analysis.study_numbers import StudyNumbers
from bnmodes.errors import UsageError
from bnmodes.studies.quick import QUICK
from helpers.synthetic import minatar_study, synthetic_results


@pytest.fixture(scope="module")
def results():
    return synthetic_results(QUICK, is_missing=lambda run: run.arm == "LN" and run.seed == 1)


def test_each_run_has_its_hash_its_settings_that_differ_and_its_scores(results):
    table = run_table(results)
    assert len(table) == 34
    run = QUICK.runs[8]
    row = table.row(by_predicate=pl.col("run") == run.spec.content_hash, named=True)
    assert (row["arm"], row["agent"], row["base"]) == ("BN running 0.999", "pqn", "bn-running")
    assert row["momentum"] == momentum_of(QUICK.arm(run.arm), run.game) == 0.999
    scores = collect(results, run.arm)
    place = (list(scores.games).index(run.game), run.seed)
    assert (row["auc"], row["final"]) == (auc(scores)[place], final(scores)[place])
    assert row["set.protocol.act.statistics"] == "running"
    assert row["set.norm.kind"] == "bn"
    assert "set.gamma" not in row, "the same in every run"
    of_ln = table.filter(pl.col("arm") == "LN", pl.col("seed") == 0)
    assert of_ln["set.norm.kind"].to_list() == ["ln", "ln"]


def test_normalised_scores_are_those_of_the_report_and_empty_where_it_leaves_runs_out(results):
    table = run_table(results)
    numbers = StudyNumbers(results, allow_missing=True, resamples=20)
    for arm in numbers.arms:
        rows = table.filter(pl.col("arm") == arm.name).sort("game", "seed")
        expected = numbers.values(arm, "final")
        kept = rows.filter(pl.col("final_normalised").is_not_null())
        assert set(kept["seed"]) == {0, 2}, "seed 1 is compared nowhere"
        np.testing.assert_allclose(
            kept["final_normalised"], expected[~np.isnan(expected)], rtol=1e-12
        )


def test_without_a_reference_to_divide_by_raw_scores_are_written_alone():
    table = run_table(synthetic_results(minatar_study(), level=lambda arm: 0.0))
    assert table["auc"].null_count() == 0
    assert table["auc_normalised"].null_count() == len(table)


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_both_formats_hold_the_same(results, tmp_path, ending):
    rows, runs_path = export(results, tmp_path / f"deep/r.{ending}")
    assert runs_path.name == f"r-runs.{ending}"
    read = pl.read_parquet if ending == "parquet" else pl.read_csv
    table, runs = read(tmp_path / f"deep/r.{ending}"), read(runs_path)
    assert len(table) == rows == len(results.frame)
    assert set(table["run"]) == set(runs["run"])
    assert table["value"].sum() == pytest.approx(results.frame["value"].sum())
    with pytest.raises(UsageError, match=r"\.parquet or \.csv"):
        export(results, tmp_path / "r.xlsx")
