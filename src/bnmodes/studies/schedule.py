"""The schedule of a study: which run is next, which ended, which failed, which is elsewhere."""

import itertools
import time
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from bnmodes import plugins
from bnmodes.errors import UsageError
from bnmodes.files import open_in_place, refuse_link
from bnmodes.runs.folder import RunFolder
from bnmodes.runs.stopping import StopRequest
from bnmodes.studies.launch.launcher import Launcher
from bnmodes.studies.launch.outcome import Outcome
from bnmodes.studies.results import (
    damaged_runs,
    log_path,
    outdated_notes,
    outdated_runs,
    run_path,
)
from bnmodes.studies.status import Display, last_lines, progress_of
from bnmodes.studies.study import Study, StudyRun

TRIES = 2
STOPS = 10
"""How often a run may be stopped from outside without getting on before it counts as failed."""


@dataclass
class Schedule:
    """Every run of the study is in exactly one of these places."""

    waiting: deque[StudyRun]
    running: dict[Path, StudyRun] = field(default_factory=dict)
    elsewhere: list[StudyRun] = field(default_factory=list)
    """Runs that another launcher on the same folder is executing."""
    done: list[StudyRun] = field(default_factory=list)
    failed: list[StudyRun] = field(default_factory=list)
    failures: dict[StudyRun, int] = field(default_factory=dict)
    stops: dict[StudyRun, tuple[int, int]] = field(default_factory=dict)
    """Of runs stopped from outside: at which decision, and how often there."""


def refuse_other_files(root: Path) -> None:
    """A folder of results is new or holds results."""
    if root.is_file() or (root.is_dir() and any(root.iterdir()) and not (root / "runs").is_dir()):
        raise UsageError(f"{root} holds other files and no results: choose another --out.")


def prepare(study: Study, root: Path) -> None:
    """Make the results folder, or refuse one that holds something else."""
    refuse_other_files(root)
    for folder in ("runs", "studies", "logs", "damaged", "slurm"):
        refuse_link(root / folder)
    (root / "runs").mkdir(parents=True, exist_ok=True)
    (root / "studies").mkdir(exist_ok=True)
    open_in_place(root / "studies" / study.name, "a").close()


def run_study(study: Study, root: Path, launcher: Launcher, stop: StopRequest) -> Schedule:
    """Execute what is not finished of a valid study, the longest first; the same call again goes
    on."""
    prepare(study, root)
    for run, damage in damaged_runs(study, root).items():
        print(f"{run}: {damage}; {set_aside(root, run)}")
    if notes := outdated_notes(outdated_runs(study, root), root):
        raise UsageError(f"{notes[0]}, or choose another --out.")
    schedule = Schedule(waiting=deque())
    for run in in_order(study):
        finished = RunFolder(run_path(root, run)).finished
        (schedule.done if finished else schedule.waiting).append(run)
    with Display(study, root, schedule) as display:
        for sentence in changed_plugins(schedule.done, root):
            display.say(f"note: {sentence}")
        try:
            while (
                schedule.waiting or schedule.running or schedule.elsewhere
            ) and not stop.requested:
                if not (root / "runs").is_dir():
                    raise UsageError(f"{root} has disappeared: the study is stopped.")
                _take_outcomes(schedule, root, launcher, display)
                _look_elsewhere(schedule, root)
                _submit(schedule, root, launcher)
                display.refresh()
                time.sleep(launcher.poll_seconds)
        finally:
            if schedule.running and stop.requested:
                display.say("waiting for runs to keep their checkpoints; Ctrl-C again ends them")
            launcher.cancel()
            _take_outcomes(schedule, root, launcher, display)
            display.refresh()
    return schedule


def in_order(study: Study) -> list[StudyRun]:
    """The longest runs first; among equals seed by seed, game by game, arm by arm, each in the
    order in which the study declares them: a study cut short can then compare its arms."""

    def key(run: StudyRun) -> tuple[float, int, int]:
        return -run.relative_cost, study.seeds.index(run.seed), study.games.index(run.game)

    return sorted(study.runs, key=key)  # runs are declared arm by arm, and equals keep their order


def changed_plugins(runs: Iterable[StudyRun], root: Path) -> list[str]:
    """A sentence for each finished run made with a user's file that is another one now."""
    return [
        sentence
        for run in runs
        if plugins.hashes(run.spec.agent, run.spec.env)
        for sentence in RunFolder(run_path(root, run)).changed_plugins()
    ]


def _submit(schedule: Schedule, root: Path, launcher: Launcher) -> None:
    while schedule.waiting and launcher.free_places() > 0:
        run = schedule.waiting.popleft()
        folder = RunFolder(run_path(root, run))
        if folder.finished:
            schedule.done.append(run)
        elif folder.in_use():
            schedule.elsewhere.append(run)
        else:
            launcher.submit(run, folder.path, log_path(root, run))
            schedule.running[folder.path] = run


def _take_outcomes(schedule: Schedule, root: Path, launcher: Launcher, display: Display) -> None:
    for path, outcome in launcher.poll().items():
        run = schedule.running.pop(path)
        if RunFolder(path).finished:
            schedule.done.append(run)
            display.say_done(run)
        elif outcome.kind == "in use":
            schedule.elsewhere.append(run)
        elif outcome.kind == "stopped":
            _take_stopped(schedule, run, root, display)
        else:
            _take_failed(schedule, run, outcome, root, display)


def _take_stopped(schedule: Schedule, run: StudyRun, root: Path, display: Display) -> None:
    """By a batch system, say: it goes on. One that never gets on is not started for ever."""
    decision = progress_of(run_path(root, run))["decision"]
    before, count = schedule.stops.get(run, (decision, 0))
    count = count + 1 if decision == before else 1
    schedule.stops[run] = (decision, count)
    if count < STOPS:
        schedule.waiting.append(run)
    else:
        schedule.failed.append(run)
        reason = f"it was stopped from outside {STOPS} times without getting on"
        display.say_failed(run, reason, log_path(root, run))


def _take_failed(
    schedule: Schedule, run: StudyRun, outcome: Outcome, root: Path, display: Display
) -> None:
    schedule.failures[run] = schedule.failures.get(run, 0) + 1
    if schedule.failures[run] >= TRIES:
        schedule.failed.append(run)
        display.say_failed(run, outcome.reason, log_path(root, run))
        return
    if outcome.kind == "damaged":
        what = last_lines(log_path(root, run), 1) or ["its files are damaged"]
        display.say(f"{run}: {what[0]} {set_aside(root, run)}")
    else:
        display.say(f"{run} failed ({outcome.reason}); it is tried once more")
    schedule.waiting.append(run)


def set_aside(root: Path, run: StudyRun) -> str:
    """Move a damaged run's folder out of the way, keeping it whole; a sentence that says where."""
    folder = RunFolder(run_path(root, run))
    folder.refuse_links()
    (root / "damaged").mkdir(exist_ok=True)
    places = (root / "damaged" / f"{folder.path.name}-{number}" for number in itertools.count(1))
    place = next(place for place in places if not place.exists())
    try:
        with folder.locked():
            folder.path.rename(place)
    except FileNotFoundError:
        return "another launcher has set it aside"
    return f"its folder is now {place}, and the run is made again"


def _look_elsewhere(schedule: Schedule, root: Path) -> None:
    for run in list(schedule.elsewhere):
        folder = RunFolder(run_path(root, run))
        if folder.finished or not folder.in_use():
            schedule.elsewhere.remove(run)
            (schedule.done if folder.finished else schedule.waiting).append(run)
