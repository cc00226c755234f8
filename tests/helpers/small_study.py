"""A study of seconds, for tests; as a program, it runs itself: `python small_study.py ROOT`."""

import json
import sys
from pathlib import Path

import polars as pl

from bnmodes.runs.folder import RunFolder
from bnmodes.runs.spec import EvaluationSettings
from bnmodes.runs.stopping import StopRequest
from bnmodes.studies.launch.local import LocalLauncher
from bnmodes.studies.launch.worker_command import WorkerOptions
from bnmodes.studies.results import gather, run_path
from bnmodes.studies.schedule import run_study
from bnmodes.studies.study import Arm, Study

FAST = {
    "replay_capacity": 200,
    "learning_starts_decisions": 50,
    "target_period_decisions": 70,
    "updates_per_decision": 0.5,
    "batch_size": 8,
}


def small_study(**changes) -> Study:
    options = {
        "name": "small",
        "question": "Does it run?",
        "arms": (
            Arm("C51", "none", changes=FAST),
            Arm("BN batch", "bn-batch", changes=FAST),
        ),
        "games": ("minatar/breakout", "probe/chain"),
        "seeds": (0, 1),
        "total_decisions": 900,
        "record_every_decisions": 100,
        "evaluation": EvaluationSettings(every_decisions=300, episodes=2, epsilon=0.5),
        "reference": "C51",
    }
    return Study(**(options | changes))


def half_done(root: Path) -> list[RunFolder]:
    folders = [RunFolder(run_path(root, run)) for run in small_study().runs]
    return [f for f in folders if f.metrics_path.exists() and not f.finished]


def times_resumed(root: Path) -> int:
    """Of all finished runs together."""
    marks = [run_path(root, run) / "done.json" for run in small_study().runs]
    return sum(json.loads(mark.read_text())["resumes"] for mark in marks if mark.exists())


def same_results(a: Path, b: Path) -> bool:
    frames = [gather(small_study(), root).frame.sort(pl.all()) for root in (a, b)]
    return frames[0].equals(frames[1])


if __name__ == "__main__":
    stop = StopRequest()
    launcher = LocalLauncher(2, WorkerOptions(checkpoint_minutes=0.2 / 60))
    with stop.listening():
        schedule = run_study(small_study(), Path(sys.argv[1]), launcher, stop)
    sys.exit(1 if schedule.failed else 0)
