"""The cache of results: what it holds, when it is read, and when it is made anew."""

import json

import numpy as np
import polars as pl
import pytest

from bnmodes.studies import columns
from bnmodes.studies.results import gather, run_path
from helpers.finished import mark_finished
from helpers.small_study import small_study

ROWS = [
    {"kind": "train", "decision": 300, "frame": 300, "loss": 0.5, "episodes": 3},
    {"kind": "evaluation", "decision": 300, "frame": 300, "return": 2.0, "returns": [1.0, 3.0]},
    {"kind": "evaluation", "decision": 600, "frame": 600, "return": float("nan"), "returns": []},
]


def write(root, run, rows):
    folder = run_path(root, run)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "spec.json").write_text(json.dumps({"spec": run.spec.to_json()}))
    mark_finished(folder)


@pytest.fixture
def root(tmp_path):
    for place, run in enumerate(small_study().runs):
        write(tmp_path, run, [row | {"loss": place} if "loss" in row else row for row in ROWS])
    return tmp_path


@pytest.fixture
def parsed(monkeypatch):
    """The runs that were parsed, by hash."""
    seen = []
    parse = columns._parse
    monkeypatch.setattr(columns, "_parse", lambda runs: seen.extend(runs) or parse(runs))
    return seen


def test_every_number_is_a_row_and_lists_are_left_out(root):
    study = small_study()
    results = gather(study, root)
    assert results.metrics == ("evaluation/return", "train/episodes", "train/loss")
    assert len(results.frame) == 4 * len(study.runs)
    for place, run in enumerate(study.runs):
        rows = results.frame.filter(
            pl.col("arm") == run.arm, pl.col("game") == run.game, pl.col("seed") == run.seed
        )
        assert set(rows["study"]) == {"small"}
        by_metric = {(row["metric"], row["decision"]): row["value"] for row in rows.to_dicts()}
        assert by_metric["train/loss", 300] == place
        assert by_metric["train/episodes", 300] == 3
        assert by_metric["evaluation/return", 300] == 2
        assert np.isnan(by_metric["evaluation/return", 600]), "written as it was"
    assert results.returns["metric"].unique().to_list() == ["evaluation/return"]


def test_unchanged_runs_are_parsed_once(root, parsed):
    first = gather(small_study(), root).frame
    assert len(parsed) == 8
    again = gather(small_study(), root).frame
    assert len(parsed) == 8
    assert first.sort(pl.all()).equals(again.sort(pl.all()))


def test_a_run_whose_file_changed_is_parsed_again_and_only_that(root, parsed):
    study = small_study()
    gather(study, root)
    parsed.clear()
    changed = [ROWS[0] | {"loss": 77.0}, *ROWS[1:]]
    write(root, study.runs[2], changed)
    results = gather(study, root)
    assert parsed == [study.runs[2].spec.content_hash]
    losses = results.rows(["train/loss"])["value"].sort().to_list()
    assert losses == [0, 1, 3, 4, 5, 6, 7, 77]


def test_a_part_of_a_study_keeps_the_runs_of_the_whole(root, parsed):
    gather(small_study(), root)
    part = gather(small_study().restricted(seeds=[0]), root)
    assert len(part.frame) == 16
    gather(small_study(), root)
    assert len(parsed) == 8


@pytest.mark.parametrize("damage", ["table", "index", "both"])
def test_a_damaged_cache_is_made_anew(root, parsed, damage):
    whole = gather(small_study(), root).frame.sort(pl.all())
    parsed.clear()
    if damage in ("table", "both"):
        path = root / "columns" / "small.parquet"
        path.write_bytes(path.read_bytes()[:-10])
    if damage in ("index", "both"):
        (root / "columns" / "small.json").write_text("{")
    assert gather(small_study(), root).frame.sort(pl.all()).equals(whole)
    assert len(parsed) == 8


def test_results_that_cannot_be_written_beside_are_read_all_the_same(root):
    (root / "columns").write_text("a file where the folder should be")
    assert len(gather(small_study(), root).frame) == 32


def test_a_metric_is_read_without_the_others(root, monkeypatch):
    monkeypatch.setattr(columns, "_ROW_GROUP", 4)
    results = gather(small_study(), root)
    plan = results.table.filter(pl.col("metric") == "train/loss").explain()
    assert "SELECTION" in plan.upper(), "the file's reader itself leaves the other metrics out"
