"""The live table: the time left of the whole study against that of its rows."""

import json
from collections import deque

import pytest

from bnmodes.runs.progress import duration
from bnmodes.studies.results import run_path
from bnmodes.studies.schedule import Schedule
from bnmodes.studies.status import Display
from helpers.small_study import small_study


@pytest.fixture
def running(tmp_path):
    """A display with two of the study's eight runs half-way, 450 of 900 decisions."""
    study = small_study()
    schedule = Schedule(waiting=deque())
    for run, speed in zip(study.runs[:2], (10, 5), strict=True):
        path = run_path(tmp_path, run)
        path.mkdir(parents=True)
        now = {"decision": 450, "decisions_per_second": speed, "seconds_left": 450 / speed}
        (path / "progress.json").write_text(json.dumps(now | {"last_return": None}))
        schedule.running[path] = run
    return Display(study, tmp_path, schedule)


def title(display: Display) -> str:
    return display._render().renderables[0].plain


def test_when_nothing_waits_the_longest_row_is_what_is_left(running):
    assert title(running).endswith(f"about {duration(90.0)} left")


def test_waiting_runs_are_shared_by_the_processes_at_their_arms_pace(running):
    running.schedule.waiting.extend(running.study.runs[2:4])  # the same arm as the running ones
    pace_of_the_last = 900 / 5
    left = (45 + 90 + 2 * pace_of_the_last) / 2
    assert title(running).endswith(f"about {duration(left)} left")


def test_before_any_run_has_a_speed_nothing_is_said(running):
    for path in running.schedule.running:
        (path / "progress.json").unlink()
    assert "left" not in title(running)
