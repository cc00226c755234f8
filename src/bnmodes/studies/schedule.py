"""The bookkeeping of a study: which run is next, which ended, which failed, which is elsewhere."""

import time
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path

from bnmodes.errors import UsageError
from bnmodes.studies.display import Display
from bnmodes.studies.launch import Launcher
from bnmodes.studies.results import log_path, run_path
from bnmodes.studies.spec import Study, StudyRun
from bnmodes.training.record import RunFolder, write_json
from bnmodes.training.run import StopRequest
from bnmodes.training.spec import RunSpec

TRIES = 2
_POLL_SECONDS = 0.2


def relative_cost(spec: RunSpec) -> float:
    """Only for the order and the time left: an update costs about as much as three decisions."""
    return spec.total_decisions * (1 + 3 * spec.config.updates_per_decision)


@dataclass
class Book:
    """Every run of the study is in exactly one of these places."""

    waiting: deque[StudyRun]
    running: dict[Path, StudyRun] = field(default_factory=dict)
    elsewhere: list[StudyRun] = field(default_factory=list)
    """Runs that another launcher on the same folder is executing."""
    done: list[StudyRun] = field(default_factory=list)
    failed: list[StudyRun] = field(default_factory=list)
    tries: dict[StudyRun, int] = field(default_factory=dict)


def prepare(study: Study, root: Path) -> None:
    """Make the results folder, or refuse one that holds something else."""
    if root.is_file() or (root.is_dir() and any(root.iterdir()) and not (root / "runs").is_dir()):
        raise UsageError(f"{root} holds other files and no results: choose another --out.")
    (root / "runs").mkdir(parents=True, exist_ok=True)
    (root / "studies").mkdir(exist_ok=True)
    declared = [
        {"arm": run.arm, "game": run.game, "seed": run.seed, "hash": run.spec.content_hash}
        for run in study.runs
    ]
    write_json(root / "studies" / f"{study.name}.json", {"study": study.name, "runs": declared})


def run_study(study: Study, root: Path, launcher: Launcher, stop: StopRequest) -> Book:
    """Execute what is not finished, the longest first; the same call again goes on."""
    for run in study.runs:
        run.spec.validate()
    prepare(study, root)
    book = Book(waiting=deque())
    for run in sorted(study.runs, key=lambda run: -relative_cost(run.spec)):
        finished = RunFolder(run_path(root, run)).finished
        (book.done if finished else book.waiting).append(run)
    with Display(study, root, book) as display:
        try:
            while (book.waiting or book.running or book.elsewhere) and not stop.requested:
                _take_endings(book, root, launcher, display)
                _look_elsewhere(book, root)
                _submit(book, root, launcher)
                display.refresh()
                time.sleep(_POLL_SECONDS)
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
            book.tries[run] = book.tries.get(run, 0) + 1
            launcher.submit(run, folder.path, log_path(root, run))
            book.running[folder.path] = run


def _take_endings(book: Book, root: Path, launcher: Launcher, display: Display) -> None:
    for path, ending in launcher.poll().items():
        run = book.running.pop(path)
        if RunFolder(path).finished:
            book.done.append(run)
            display.say_done(run)
        elif ending == "in use":
            book.tries[run] -= 1
            book.elsewhere.append(run)
        elif ending == "stopped":
            book.waiting.append(run)
        elif book.tries[run] < TRIES:
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
