"""The bookkeeping of a study: which run is next, which ended, which failed, which is elsewhere."""

import time
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path

from bnmodes.errors import UsageError
from bnmodes.runs.folder import RunFolder
from bnmodes.runs.loop import StopRequest
from bnmodes.studies.display import Display
from bnmodes.studies.launch.launcher import Launcher
from bnmodes.studies.results import log_path, run_path
from bnmodes.studies.study import Study, StudyRun

TRIES = 2


@dataclass
class Book:
    """Every run of the study is in exactly one of these places."""

    waiting: deque[StudyRun]
    running: dict[Path, StudyRun] = field(default_factory=dict)
    elsewhere: list[StudyRun] = field(default_factory=list)
    """Runs that another launcher on the same folder is executing."""
    done: list[StudyRun] = field(default_factory=list)
    failed: list[StudyRun] = field(default_factory=list)
    failures: dict[StudyRun, int] = field(default_factory=dict)


def prepare(study: Study, root: Path) -> None:
    """Make the results folder, or refuse one that holds something else."""
    if root.is_file() or (root.is_dir() and any(root.iterdir()) and not (root / "runs").is_dir()):
        raise UsageError(f"{root} holds other files and no results: choose another --out.")
    (root / "runs").mkdir(parents=True, exist_ok=True)
    (root / "studies").mkdir(exist_ok=True)
    (root / "studies" / study.name).touch()


def run_study(study: Study, root: Path, launcher: Launcher, stop: StopRequest) -> Book:
    """Execute what is not finished, the longest first; the same call again goes on."""
    for run in study.runs:
        run.spec.validate()
    prepare(study, root)
    book = Book(waiting=deque())
    # Seed by seed and game by game among equals: a study cut short can then compare its arms.
    for run in sorted(study.runs, key=lambda run: (-run.relative_cost, run.seed, run.game)):
        finished = RunFolder(run_path(root, run)).finished
        (book.done if finished else book.waiting).append(run)
    with Display(study, root, book) as display:
        try:
            while (book.waiting or book.running or book.elsewhere) and not stop.requested:
                _take_endings(book, root, launcher, display)
                _look_elsewhere(book, root)
                _submit(book, root, launcher)
                display.refresh()
                time.sleep(launcher.poll_seconds)
        finally:
            launcher.cancel()
            _take_endings(book, root, launcher, display)
            display.refresh()
    return book


def _submit(book: Book, root: Path, launcher: Launcher) -> None:
    while book.waiting and launcher.free_places() > 0:
        run = book.waiting.popleft()
        folder = RunFolder(run_path(root, run))
        if folder.finished:
            book.done.append(run)
        elif folder.in_use():
            book.elsewhere.append(run)
        else:
            launcher.submit(run, folder.path, log_path(root, run))
            book.running[folder.path] = run


def _take_endings(book: Book, root: Path, launcher: Launcher, display: Display) -> None:
    for path, ending in launcher.poll().items():
        run = book.running.pop(path)
        if RunFolder(path).finished:
            book.done.append(run)
            display.say_done(run)
        elif ending == "in use":
            book.elsewhere.append(run)
        elif ending == "stopped":
            book.waiting.append(run)
        else:
            book.failures[run] = book.failures.get(run, 0) + 1
            if book.failures[run] < TRIES:
                display.say(f"{run} failed; it is tried once more")
                book.waiting.append(run)
            else:
                book.failed.append(run)
                display.say_failed(run, log_path(root, run))


def _look_elsewhere(book: Book, root: Path) -> None:
    for run in list(book.elsewhere):
        folder = RunFolder(run_path(root, run))
        if folder.finished or not folder.in_use():
            book.elsewhere.remove(run)
            (book.done if folder.finished else book.waiting).append(run)
