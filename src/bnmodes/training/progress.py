"""A run's progress in a terminal: decisions, speed, time left, last return. Silent elsewhere."""

import time

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    TextColumn,
    TimeRemainingColumn,
)
from rich.progress import Progress as RichProgress

from bnmodes.training.spec import RunSpec

_REFRESH_SECONDS = 0.2


class Progress:
    def __init__(self, spec: RunSpec, visible: bool = True):
        self.console = Console(stderr=True)
        self.visible = visible and self.console.is_terminal
        self.last_return: float | None = None
        self.last_evaluation: float | None = None
        self._next_refresh = 0.0
        self._phase = "training"
        self._speed_from: tuple[float, int] | None = None
        self._bar = RichProgress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("{task.fields[speed]}"),
            TimeRemainingColumn(compact=True, elapsed_when_finished=True),
            TextColumn("{task.fields[returns]}"),
            console=self.console,
            disable=not self.visible,
            auto_refresh=False,
            speed_estimate_period=60,
        )
        self._task = self._bar.add_task(
            f"{spec.env} {spec.arm} seed {spec.seed}",
            total=spec.total_decisions,
            speed="",
            returns="",
        )

    def __enter__(self) -> "Progress":
        self._bar.start()
        return self

    def __exit__(self, *_) -> None:
        self._bar.stop()

    def say(self, sentence: str) -> None:
        self.console.print(sentence, soft_wrap=True)

    def phase(self, name: str) -> None:
        self._phase = name
        self._next_refresh = 0.0

    def update(self, decision: int) -> None:
        if not self.visible or time.monotonic() < self._next_refresh:
            return
        now = time.monotonic()
        self._next_refresh = now + _REFRESH_SECONDS
        self._speed_from = self._speed_from or (now, decision)
        since, first = self._speed_from
        speed = (decision - first) / (now - since) if now > since else 0.0
        shown = {"return": self.last_return, "evaluation": self.last_evaluation}
        returns = "  ".join(f"{k} {v:.1f}" for k, v in shown.items() if v is not None)
        self._bar.update(
            self._task, completed=decision, speed=f"{speed:,.0f} decisions/s", returns=returns
        )
        self._bar.refresh()
