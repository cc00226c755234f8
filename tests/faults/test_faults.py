"""A short version of `make test-faults` (see campaign.py), for every change."""

from collections import Counter
from pathlib import Path

import pytest

from bnmodes.runs.loop import train
from bnmodes.studies.registry import STUDIES
from bnmodes.studies.results import run_path
from faults import bad_input, files, kills, signals
from helpers.run_specs import make_spec
from helpers.small_study import small_study

SPEC = make_spec("probe/chain", "bn-batch")
STUDY = small_study(games=("probe/chain",), total_decisions=60)


def nothing_of(count: Counter, *bad: str) -> None:
    assert {name: count[name] for name in bad} == dict.fromkeys(bad, 0), dict(count)


def test_killed_runs_lose_nothing(tmp_path):
    chosen = {name: kills.SPECS[name] for name in ("C51, CartPole", "PQN, MinAtar")}
    count = kills.kill_runs(tmp_path, 10, 1, chosen)
    nothing_of(count, "lost or changed", "damaged", "left over")
    assert count["kills while writing"] > 0


def test_killed_launchers_lose_nothing(tmp_path):
    count = kills.kill_studies(tmp_path, STUDY, kills=3, seed=1)
    nothing_of(count, "lost or changed", "doubled", "failed")


def test_a_full_disk_is_one_sentence_and_costs_nothing(tmp_path):
    count = files.fill_the_disk(SPEC, tmp_path, [100, 2_000, 30_000])
    nothing_of(count, "not one sentence", "lost")


def test_a_read_only_or_disappearing_folder_is_one_sentence(tmp_path):
    tmp_path.chmod(0o755)
    count = files.read_only(SPEC, tmp_path) + files.disappear(SPEC, tmp_path, 2, seed=0)
    nothing_of(count, "not one sentence", "made anew")


def test_damaged_files_are_found(tmp_path):
    count = files.damage_files(SPEC, tmp_path, 12, seed=0)
    nothing_of(count, "silently wrong", "tracebacks", "refused without a name")


def test_no_command_line_gets_a_traceback_or_leaves_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    count = bad_input.try_command_lines(tmp_path, 120, seed=0)
    nothing_of(count, "tracebacks", "changed files")


@pytest.fixture(scope="module")
def results(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("results")
    for run in STUDY.runs:
        train(run.spec, run_path(root, run))
    return root


def test_no_damaged_file_gives_a_command_a_traceback(results, tmp_path, monkeypatch):
    monkeypatch.setitem(STUDIES, "small", STUDY)
    count = bad_input.try_damaged_files(results, tmp_path, 40, seed=0)
    nothing_of(count, "tracebacks", "half outputs")


def test_ctrl_c_during_imports_is_no_traceback(tmp_path):
    nothing_of(signals.interrupt_starts(tmp_path, 2, seed=0), "tracebacks", "signals lost")
