"""Diagnostics through the loop: a grid of their own, and no trace of them in training."""

import json
from dataclasses import replace

import pytest
import torch

from bnmodes.runs.folder import RunFolder
from bnmodes.runs.loop import train
from bnmodes.runs.metrics_file import numbers
from bnmodes.runs.spec import DiagnosticsSettings, spec_from_json
from helpers.run_specs import make_pqn_spec, make_small_actor_critic_spec, make_spec

SPECS = {
    "c51 bn-tracked": make_spec(arm="bn-tracked"),
    "c51 bn-batch": make_spec(arm="bn-batch"),
    "pqn bn-running": make_pqn_spec(arm="bn-running"),
    "pqn bn-batch": make_pqn_spec(arm="bn-batch"),
    "td3": make_small_actor_critic_spec("td3"),
    "xqc bn-joined": make_small_actor_critic_spec("xqc"),
    "xqc bn-running": make_small_actor_critic_spec("xqc", arm="bn-running"),
    "mrq": make_small_actor_critic_spec("mrq"),
}


FOUR_POINTS = DiagnosticsSettings(points=4)


def rows_of(folder, diagnostics: bool):
    return [r for r in folder.metrics() if (r["kind"] == "diagnostics") == diagnostics]


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
def test_training_is_bit_for_bit_the_same_with_and_without(spec, tmp_path):
    with_them = train(replace(spec, diagnostics=FOUR_POINTS), tmp_path / "with")
    without = train(replace(spec, diagnostics=DiagnosticsSettings(points=0)), tmp_path / "without")
    assert len(rows_of(with_them, True)) >= 3
    assert rows_of(without, True) == []
    assert rows_of(with_them, False) == rows_of(without, False)
    networks = [folder.networks()[0] for folder in (with_them, without)]
    for name in networks[0]:
        for key in networks[0][name]:
            assert torch.equal(networks[0][name][key], networks[1][name][key])


def test_they_stand_on_an_equal_grid_that_ends_with_the_run_from_the_first_update_on(tmp_path):
    spec = replace(make_spec(total_decisions=200), diagnostics=DiagnosticsSettings(points=8))
    rows = rows_of(train(spec, tmp_path), True)
    assert [row["decision"] for row in rows] == [75, 100, 125, 150, 175, 200]
    assert all(len(row["spectrum"]) == 128 for row in rows)
    assert "diagnostics/predict/dense/mean_shift" in numbers(rows[0])
    assert "NaN" not in json.dumps(rows)
    assert "Infinity" not in json.dumps(rows)


@pytest.mark.parametrize(
    "name", ["c51 bn-tracked", "pqn bn-running", "td3", "xqc bn-running", "mrq"]
)
def test_a_run_resumed_between_two_updates_measures_the_same(name, tmp_path, train_in_parts):
    """Before its next update a resumed agent has no gradient, but what its optimizer remembers."""
    spec = replace(SPECS[name], total_decisions=240, diagnostics=DiagnosticsSettings(points=8))
    if not name.startswith("pqn"):
        spec = replace(spec, settings=replace(spec.settings, updates_per_decision=0.05))
    whole = rows_of(train(spec, tmp_path / "whole"), True)
    # Measured at 150 and 210, before the next update.
    assert rows_of(train_in_parts(spec, tmp_path / "parts", (144, 204)), True) == whole


def test_the_grid_is_part_of_a_runs_name_only_where_it_is_not_the_default():
    spec = replace(make_spec(), diagnostics=DiagnosticsSettings())
    older = spec.to_json()
    del older["diagnostics"]
    assert spec_from_json(older) == spec
    changed = replace(spec, diagnostics=DiagnosticsSettings(points=5))
    assert changed.content_hash != spec.content_hash


def test_the_command_line_sets_the_grid(run, tmp_path):
    short = ("train", "c51", "--total-decisions", 60, "--learning-starts-decisions", 20)
    code, _, err = run(*short, "--diagnostics.points", -1, "--out", tmp_path / "bad")
    assert code == 2
    assert "diagnostics.points is -1, but must be at least 0" in err
    run(*short, "--evaluation.episodes", 2, "--diagnostics.points", 6, "--out", tmp_path / "run")
    rows = rows_of(RunFolder(tmp_path / "run"), True)
    assert [row["decision"] for row in rows] == [30, 40, 50, 60]
