"""PQN through the same loop as every agent."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from bnmodes.runs.folder import RunFolder
from bnmodes.runs.loop import train
from bnmodes.runs.spec import DiagnosticsSettings, EvaluationSettings
from helpers.run_specs import make_pqn_spec
from helpers.settings import settings_of

pytestmark = pytest.mark.numeric


@pytest.mark.parametrize("arm", ["bn-running", "bn-batch"])
def test_stopped_inside_a_rollout_and_resumed_equals_never_stopped(arm, tmp_path, train_in_parts):
    spec = make_pqn_spec(arm=arm)
    train(spec, tmp_path / "whole")
    train_in_parts(spec, tmp_path / "parts", (66, 300, 450))
    metrics = [(tmp_path / name / "metrics.jsonl").read_text() for name in ("whole", "parts")]
    assert metrics[0] == metrics[1]
    networks = [RunFolder(tmp_path / name).networks()[0]["online"] for name in ("whole", "parts")]
    assert all(torch.equal(networks[0][key], networks[1][key]) for key in networks[0])


def test_the_test_metric_bins_finished_games_of_the_test_rows_only(tmp_path, monkeypatch):
    """Test games end every fifth decision with a return of 2.5, training rows are told apart."""
    spec = make_pqn_spec("probe/truncation", "ln", total_decisions=600)
    rows = train(spec, tmp_path).metrics()
    tests = [row for row in rows if row["kind"] == "test"]
    assert [row["bin"] for row in tests] == list(range(10))
    assert [row["decision"] for row in tests] == list(range(60, 601, 60))
    assert [row["games"] for row in tests] == [4] * 10, "two games each ten steps, in two rows"
    assert all(row["return"] == 2.5 for row in tests)
    training = [row for row in rows if row["kind"] == "train"]
    assert [row["games"] for row in training] == [12] * 10


def test_every_bin_has_a_row_where_a_step_jumps_over_some(tmp_path):
    spec = make_pqn_spec("probe/truncation", "ln", total_decisions=32)  # six steps of six
    tests = [row for row in train(spec, tmp_path).metrics() if row["kind"] == "test"]
    assert [row["bin"] for row in tests] == list(range(10))
    assert sum(row["games"] for row in tests) == 2


def test_no_return_is_made_up_where_no_test_game_ended(tmp_path):
    spec = make_pqn_spec("minatar/freeway", "ln", total_decisions=120)
    tests = [row for row in train(spec, tmp_path).metrics() if row["kind"] == "test"]
    assert all(row["games"] == 0 and "return" not in row for row in tests)


def test_the_released_metric_is_the_last_finished_game_at_each_decision_and_0_before_it(tmp_path):
    """Test games end at every fifth of a bin's ten steps with a return of 2.5."""
    spec = make_pqn_spec("probe/truncation", "ln", total_decisions=600)
    tests = [row for row in train(spec, tmp_path).metrics() if row["kind"] == "test"]
    assert [row["last_return"] for row in tests] == pytest.approx([0.6 * 2.5, *[2.5] * 9])


@pytest.mark.slow
def test_the_full_atari_setting_runs_one_rollout_and_update(tmp_path):
    spec = replace(
        make_pqn_spec("atari/Pong", "bn-batch", total_decisions=128 * 32),
        settings=settings_of("pqn", "bn-batch", "atari"),
        record_every_decisions=128 * 32,
        evaluation=EvaluationSettings(every_decisions=128 * 32, episodes=2, epsilon=1.0),
        diagnostics=DiagnosticsSettings(points=1),
    )
    (row,) = [row for row in train(spec, tmp_path).metrics() if row["kind"] == "train"]
    assert row["updates"] == 1
    assert np.isfinite(row["loss"])
