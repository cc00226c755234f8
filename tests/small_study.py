"""A study of seconds, for tests; as a program, it runs itself: `python small_study.py ROOT`."""

import sys
from pathlib import Path

from bnmodes.studies.launch_local import LocalLauncher
from bnmodes.studies.order import WorkerOptions
from bnmodes.studies.schedule import run_study
from bnmodes.studies.spec import Arm, Study
from bnmodes.training.run import StopRequest
from bnmodes.training.spec import EvaluationConfig

FAST = {
    "replay_capacity": 200,
    "learning_starts_decisions": 50,
    "target_period_decisions": 70,
    "updates_per_decision": 0.5,
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
        "evaluation": EvaluationConfig(every_decisions=300, episodes=2),
        "reference": "C51",
    }
    return Study(**(options | changes))


if __name__ == "__main__":
    stop = StopRequest()
    launcher = LocalLauncher(2, WorkerOptions(checkpoint_minutes=0.2 / 60))
    with stop.listening():
        book = run_study(small_study(), Path(sys.argv[1]), launcher, stop)
    sys.exit(1 if book.failed else 0)
