"""A study's progress in a terminal as a live table; elsewhere a line for each run that ends."""

import json
import time
from collections import Counter
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from bnmodes.runs.folder import RunFolder
from bnmodes.runs.progress import duration
from bnmodes.studies.results import run_path
from bnmodes.studies.study import Study, StudyRun

if TYPE_CHECKING:
    from bnmodes.studies.schedule import Schedule

_LOG_LINES = 15
_ROWS = 30
_SILENT_SECONDS = 120
"""A run that has given no sign of life for so long is shown as silent; a large checkpoint takes a
minute."""


class Display:
    def __init__(self, study: Study, root: Path, schedule: "Schedule"):
        self.study, self.root, self.schedule = study, root, schedule
        self.console = Console(highlight=False, markup=False)
        self._live = Live(console=self.console, auto_refresh=False)
        # By arm: seconds per relative cost, as its runs last said.
        self._pace: dict[str, float] = {}

    def __enter__(self) -> "Display":
        if self.console.is_terminal:
            self._live.start()
        return self

    def __exit__(self, *_) -> None:
        self._live.stop()

    def say(self, sentence: str) -> None:
        self.console.print(sentence, soft_wrap=True)

    def say_done(self, run: StudyRun) -> None:
        if not self.console.is_terminal:
            count = f"{len(self.schedule.done)} of {len(self.study.runs)}"
            last = RunFolder(run_path(self.root, run)).last_finite_decision
            diverged = "" if last is None else f" (diverged: last finite at decision {last:,})"
            self.say(f"{count} done: {run}{diverged}")

    def say_failed(self, run: StudyRun, reason: str, log: Path) -> None:
        self.say(f"{run} failed and is left: {reason or 'see its log'}; the end of {log}:")
        for line in last_lines(log, _LOG_LINES):
            self.console.print(f"    {line}", soft_wrap=True)

    def refresh(self) -> None:
        if self.console.is_terminal:
            self._live.update(self._render(), refresh=True)

    def _render(self) -> Group:
        schedule = self.schedule
        counts = [f"{len(schedule.done)} of {len(self.study.runs)} runs done"]
        if schedule.running:
            counts += [f"{len(schedule.running)} submitted"]
        if schedule.elsewhere:
            counts += [f"{len(schedule.elsewhere)} running elsewhere"]
        if schedule.failed:
            counts += [f"{len(schedule.failed)} failed"]
        if left := self._time_left():
            counts += [f"about {left} left"]
        table = Table(box=None, pad_edge=False, header_style="dim")
        for column in ("arm", "game", "seed"):
            table.add_column(column)
        table.add_column("progress", width=16)
        for column in ("decisions/s", "left", "last return"):
            table.add_column(column, justify="right")
        begun = [(path, run) for path, run in schedule.running.items() if _has_begun(path)]
        for path, run in begun[:_ROWS]:
            table.add_row(run.arm, run.game, str(run.seed), *_progress_cells(run, path))
        if len(begun) > _ROWS:
            table.add_row(f"… and {len(begun) - _ROWS} more")
        title = Text(f"{self.study.name}: {', '.join(counts)}", style="bold")
        return Group(title, table) if begun else Group(title)

    def _time_left(self) -> str:
        """What the rows say is left, and the waiting runs at the pace of their arm (or of all arms
        seen), shared by as many processes as are running; at least as long as the longest row."""
        rows_left, waiting = [], list(self.schedule.waiting)
        for path, run in self.schedule.running.items():
            now = progress_of(path)
            if not now["decisions_per_second"] or now["seconds_left"] is None:
                waiting.append(run)
                continue
            rows_left.append(now["seconds_left"])
            whole_run = run.spec.total_decisions / now["decisions_per_second"]
            self._pace[run.arm] = whole_run / run.relative_cost
        if not rows_left:
            return ""
        mean_pace = sum(self._pace.values()) / len(self._pace)
        seconds = sum(run.relative_cost * self._pace.get(run.arm, mean_pace) for run in waiting)
        return duration(max([*rows_left, (sum(rows_left) + seconds) / len(rows_left)]))


def _has_begun(path: Path) -> bool:
    return RunFolder(path).progress_path.exists()


def last_lines(log: Path, count: int) -> list[str]:
    try:
        return log.read_text(errors="replace").splitlines()[-count:]
    except OSError:
        return []


def progress_of(path: Path) -> dict[str, Any]:
    """What a run last said of itself: decision, decisions_per_second, seconds_left, last_return;
    None for all but the first where it has said nothing, or no number."""
    try:
        said = json.loads(RunFolder(path).progress_path.read_text())
    except (OSError, ValueError, RecursionError):
        said = {}
    said = said if isinstance(said, dict) else {}
    names = ("decisions_per_second", "seconds_left", "last_return")
    numbers = {name: _number(said.get(name)) for name in names}
    return numbers | {"decision": _number(said.get("decision")) or 0}


def _number(value: Any) -> int | float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return value if is_number and abs(value) < 2**63 else None


def silent_seconds(path: Path) -> float:
    """How long a run has given no sign of life; 0 before its first one."""
    try:
        return max(0.0, time.time() - RunFolder(path).progress_path.stat().st_mtime)
    except OSError:
        return 0.0


def _progress_cells(run: StudyRun, path: Path) -> tuple:
    now = progress_of(path)
    bar = ProgressBar(total=run.spec.total_decisions, completed=now["decision"], width=16)
    if (silent := silent_seconds(path)) > _SILENT_SECONDS:
        return bar, f"silent {duration(silent)}", "", ""
    if not now["decisions_per_second"]:
        return bar, "", "", ""
    left, last = now["seconds_left"], now["last_return"]
    return (
        bar,
        f"{now['decisions_per_second']:,.0f}",
        "" if left is None else duration(left),
        "" if last is None else f"{last:g}",
    )


def status_table(
    study: Study,
    root: Path,
    queue: Mapping[Path, str] | None = None,
    outdated: Collection[StudyRun] = (),
    damaged: Collection[StudyRun] = (),
) -> Table:
    """Per arm: how many runs are finished, running now, stopped half-way, and not begun, which is
    what the files say; and beside it what a cluster's queue says of the arm's runs.

    Columns of their own have, where there are any, the runs that run without a sign of life, that
    diverged, whose folder holds another run, and of which a file was changed since they finished.
    """
    states_of = {run: _state(RunFolder(run_path(root, run))) for run in study.runs}
    states_of |= dict.fromkeys(outdated, "outdated") | dict.fromkeys(damaged, "damaged")
    table = Table("arm", box=None, header_style="dim")
    columns = ["finished", "running", "stopped", "not begun"]
    unusual = ("silent", "diverged", "outdated", "damaged")
    columns += [state for state in unusual if state in states_of.values()]
    for column in columns:
        table.add_column(column, justify="right")
    if queue is not None:
        table.add_column("queue")
    for arm in study.arms:
        runs = [run for run in study.runs if run.arm == arm.name]
        paths = [run_path(root, run) for run in runs]
        states = [states_of[run] for run in runs]
        cells = [str(states.count(column)) for column in columns]
        if queue is not None:
            queued = Counter(queue[p.absolute()] for p in paths if p.absolute() in queue)
            cells.append(", ".join(f"{count} {state}" for state, count in sorted(queued.items())))
        table.add_row(arm.name, *cells)
    return table


def _state(folder: RunFolder) -> str:
    if completion := folder.completion:
        return "diverged" if completion.diverged else "finished"
    if folder.in_use():
        return "silent" if silent_seconds(folder.path) > _SILENT_SECONDS else "running"
    return "stopped" if folder.spec_path.exists() else "not begun"
