"""A run's progress: decisions, speed, time left, last returns.

Shown in a terminal, silent elsewhere, and kept in a small file for whoever watches many runs.
"""

import time
from collections import deque
from contextlib import suppress
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
from rich.progress import Progress as RichProgress

from bnmodes.files import write_json
from bnmodes.runs.spec import RunSpec

_REFRESH_SECONDS = 0.2
_FILE_SECONDS = 1.0
_SPEED_SAMPLES = 150
"""Speed is that of the last half minute: decisions before learning starts are much faster."""


class Progress:
    def __init__(self, spec: RunSpec, file: Path, visible: bool = True):
        self.console = Console(stderr=True, highlight=False, markup=False)
        self.visible = visible and self.console.is_terminal
        self.file = file
        self.total = spec.total_decisions
        self.last_return: float | None = None
        self.last_evaluation: float | None = None
        self.decision = 0
        """The last one; of a run that goes on, at first that of its checkpoint."""
        self._next_refresh = self._next_file = 0.0
        self._recent: deque[tuple[float, int]] = deque(maxlen=_SPEED_SAMPLES)
        self._narrow = self.console.width < 120
        self._bar = RichProgress(
            TextColumn("{task.description}"),
            *(() if self._narrow else (BarColumn(bar_width=20),)),
            MofNCompleteColumn(),
            TextColumn("{task.fields[details]}"),
            console=self.console,
            disable=not self.visible,
            auto_refresh=False,
        )
        self._name = f"{spec.env} {spec.arm} seed {spec.seed}"
        self._task = self._bar.add_task(self._name, total=self.total, details="")

    def __enter__(self) -> "Progress":
        self._bar.start()
        return self

    def __exit__(self, *_) -> None:
        self._bar.stop()
        if self._recent:
            with suppress(OSError):  # of a full disk, whatever ends the run has told already
                write_json(self.file, self._now(self.decision))

    def say(self, sentence: str) -> None:
        self.console.print(sentence, soft_wrap=True)

    def phase(self, name: str) -> None:
        """Tell what else than training takes the time now; an empty name ends it."""
        self._bar.update(self._task, description=f"{self._name} ({name})" if name else self._name)
        if self.visible:
            self._bar.refresh()
        self.beat()

    def beat(self) -> None:
        """Touch the file: whoever watches it sees that the run is alive between decisions too."""
        now = time.monotonic()
        if now >= self._next_file:
            self._next_file = now + _FILE_SECONDS
            write_json(self.file, self._now(self.decision))

    def update(self, decision: int) -> None:
        self.decision = decision
        now = time.monotonic()
        if now < self._next_refresh and decision < self.total:
            return
        self._next_refresh = now + (_REFRESH_SECONDS if self.visible else _FILE_SECONDS)
        self._recent.append((now, decision))
        self.beat()
        if self.visible:
            self._bar.update(self._task, completed=decision, details=self._details(decision))
            self._bar.refresh()

    def _now(self, decision: int) -> dict[str, float | int | None]:
        ends = (self._recent[0], self._recent[-1]) if self._recent else ((0, 0), (0, 0))
        (since, first), (now, _) = ends
        speed = (decision - first) / (now - since) if now > since else None
        return {
            "decision": decision,
            "decisions_per_second": speed,
            "seconds_left": (self.total - decision) / speed if speed else None,
            "last_return": self.last_return,
            "last_evaluation": self.last_evaluation,
        }

    def _details(self, decision: int) -> str:
        now = self._now(decision)
        speed, left = now["decisions_per_second"], now["seconds_left"]
        if not speed or left is None:
            return ""
        unit = "" if self._narrow else " decisions"
        details = [f"{speed:,.0f}{unit}/s", f"{duration(left)} left"]
        if self.last_return is not None:
            details.append(f"return {self.last_return:g}")
        if self.last_evaluation is not None and not self._narrow:
            details.append(f"evaluation {self.last_evaluation:.1f}")
        return ", ".join(details)


def duration(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes}:{seconds:02}"
