"""From Python and notebooks: train a run, run a study, get its results, draw a figure.

import bnmodes

run = bnmodes.train("c51", "minatar/breakout", "bn-batch", total_decisions=20_000)
bnmodes.run_study(STUDY, out="results")
frame = bnmodes.results(STUDY, out="results")
figure = bnmodes.draw("curves", STUDY, out="results")
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from bnmodes import plugins
from bnmodes.analysis.fewest_seeds import too_few_seeds
from bnmodes.errors import UsageError
from bnmodes.execution import PLAIN, Execution
from bnmodes.runs import loop
from bnmodes.runs.folder import RunFolder
from bnmodes.runs.spec import EvaluationSettings, make_spec
from bnmodes.runs.stopping import Stopped, StopRequest
from bnmodes.studies import schedule
from bnmodes.studies.estimate import jobs_here
from bnmodes.studies.launch.local import LocalLauncher
from bnmodes.studies.launch.worker_command import WorkerOptions
from bnmodes.studies.registry import find_study
from bnmodes.studies.result_notes import change_notes
from bnmodes.studies.results import StudyResults, gather
from bnmodes.studies.study import Study

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def train(
    agent: str,
    env: str,
    arm: str | None = None,
    *,
    out: Path | str | None = None,
    seed: int = 0,
    total_decisions: int | None = None,
    changes: Mapping[str, Any] | None = None,
    evaluation: EvaluationSettings | None = None,
    execution: Execution = PLAIN,
    show_progress: bool = True,
) -> RunFolder:
    """Train an agent's arm on a game in the folder `out` (or one under runs/ named by its hash), or
    go on with it; returns the folder, whose `metrics()` are the recorded rows.

    Agent and game may be in files of your own: "my_agent.py:DQN". `changes` are settings by dotted
    names, e.g. {"norm.bn_epsilon": 1e-3}; what is not said is the agent's default for that game.
    """
    agent, env = (plugins.name_here(n) if plugins.is_reference(n) else n for n in (agent, env))
    spec = make_spec(
        agent,
        env,
        arm,
        seed=seed,
        changes=changes,
        total_decisions=total_decisions,
        evaluation=evaluation,
    )
    folder = Path(out) if out else Path("runs") / spec.content_hash
    for note in spec.settings.warnings(spec.total_decisions):
        print(f"note: {note}")
    try:
        return loop.train(spec, folder, execution=execution, show_progress=show_progress)
    except Stopped as stopped:
        raise KeyboardInterrupt(f"stopped at decision {stopped.decision:,}") from None


def run_study(study: Study | str, out: Path | str = "results", jobs: int = 0) -> None:
    """Run what is not finished of a study, in `jobs` processes (0: one per core, as far as memory
    allows). The same call again goes on. A string is a name, or a file of your own: FILE.py."""
    study = _found(study)
    launcher = LocalLauncher(jobs or jobs_here(study), WorkerOptions())
    stop = StopRequest()
    for warning in filter(None, (*study.warnings(), too_few_seeds(study))):
        print(f"note: {warning}")
    with stop.listening():
        done = schedule.run_study(study, Path(out), launcher, stop)
    if stop.requested:
        raise KeyboardInterrupt
    if done.failed:
        raise RuntimeError(
            f"{len(done.failed)} runs failed: see their logs in {Path(out) / 'logs'}"
        )


def results(study: Study | str, out: Path | str = "results") -> pl.DataFrame:
    """All recorded numbers of a study's finished runs, one in each row: study, arm, game, seed,
    metric, decision, frame, value. Notes say what is missing or left out."""
    return _gathered(study, out).frame


def draw(figure: str, study: Study | str, out: Path | str = "results") -> "Figure":
    """One of the report's figures by its name there, e.g. "curves"."""
    from bnmodes.analysis.figures.figure import draw_all  # here: matplotlib takes a second
    from bnmodes.analysis.study_numbers import StudyNumbers

    numbers = StudyNumbers(_gathered(study, out), allow_missing=True)
    names = []
    for drawing in draw_all(numbers):
        if drawing.name == figure:
            return drawing.figure
        names.append(drawing.name)
    raise UsageError(
        f"there is no figure '{figure}' of this study: choose from {', '.join(names)}."
    )


def _gathered(study: Study | str, out: Path | str) -> StudyResults:
    found = gather(_found(study), Path(out))
    missing, declared = len(found.missing), len(found.study.runs)
    for note in change_notes(found):
        print(f"note: {note}")
    if missing:
        print(f"note: {missing:,} of {declared:,} runs missing")
    return found


def _found(study: Study | str) -> Study:
    found = find_study(study) if isinstance(study, str) else study.from_file(Path.cwd() / "_", "")
    found.validate()
    return found
