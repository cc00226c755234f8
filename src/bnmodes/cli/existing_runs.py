"""Commands on runs that exist: audit, calibrate, watch, plot; and how such a run is named."""

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console
from rich.table import Table

from bnmodes import plugins
from bnmodes.cli.options import NONE_BY_DEFAULT, WITHOUT_DEFAULT, parse
from bnmodes.errors import UsageError
from bnmodes.protocol import explain
from bnmodes.runs.folder import RunFolder
from bnmodes.studies.registry import find_study

A_RUN = tyro.conf.arg(metavar="RUN | STUDY ARM GAME SEED", help_behavior_hint="(required)")
SEVERAL_RUNS = tyro.conf.arg(metavar="RUN...", help_behavior_hint="(required)")

console = Console(soft_wrap=True, highlight=False, markup=False)


@dataclass(frozen=True)
class OfRun:
    """A run, finished or stopped, and the files that it needs."""

    run: Annotated[tyro.conf.Positional[tuple[str, ...]], A_RUN]
    """Folder of a run; or four words that find one of a study, e.g. quick LN minatar/breakout 0."""
    out: Path = Path("results")
    """Folder of results, where a run of a study is looked for."""
    plugin: Annotated[tuple[Path, ...], NONE_BY_DEFAULT] = ()
    """Files of your own that the run's agent or game is in; results never import them."""

    def folder(self) -> RunFolder:
        """The run's folder, once the files that it needs are imported."""
        if len(self.run) == 1:
            path = Path(self.run[0])
        elif len(self.run) == 4:
            path = self._path_in_study()
        else:
            raise UsageError(
                f"{len(self.run)} words do not name a run: give its folder, or STUDY ARM GAME SEED "
                "(an arm with spaces in quotes)."
            )
        load_plugins(self.plugin, [path])
        return RunFolder(path)

    def _path_in_study(self) -> Path:
        name, arm, game, seed = self.run
        study = find_study(name).restricted([arm], [game], [seed])
        from bnmodes.studies.results import run_path

        (run,) = study.runs
        path = run_path(self.out, run)
        if not path.exists():
            raise UsageError(
                f"{run}, is not in {self.out}: `bnmodes study run` makes it; or name another --out."
            )
        return path

    @property
    def study_arm(self) -> str:
        """The study's own name of its arm, where a study was named."""
        return self.run[1] if len(self.run) == 4 else ""


def load_plugins(paths: tuple[Path, ...], runs: Iterable[Path]) -> None:
    """Import the files that the user names, and tell which runs were made with other versions."""
    for path in paths:
        plugins.load(path)
    for run in runs:
        for sentence in RunFolder(run).changed_plugins():
            console.print(f"note: {sentence}")


@dataclass(frozen=True)
class AuditRun(OfRun):
    """Measure what each forward of a run does, beside what it declares."""

    game_seed: int = 0
    """Which games give the rows."""


def audit_command(args: list[str]) -> None:
    options = parse(AuditRun, args, "bnmodes audit")
    folder = options.folder()
    from bnmodes.runs.audit import audit_run

    audits, notes = audit_run(folder, options.game_seed)
    for note in notes:
        console.print(note)
    table = Table("role", "rows", "declared", "observed", box=None)
    for found in audits:
        table.add_row(found.role, found.rows, found.declared, found.observed)
    Console(width=max(console.width, 100), highlight=False).print(table)
    different = [found.role for found in audits if not found.agrees]
    if different:
        console.print(f"not as declared: {', '.join(different)}")
        sys.exit(1)


@dataclass(frozen=True)
class Calibrate(OfRun):
    """Re-estimate the running statistics from fresh rollouts, so that the agent can act alone."""

    rows: int = 4_096
    """Observations of fresh rollouts that the statistics are estimated from, in one batch."""
    games: int = 30
    """Evaluation games with each source of statistics."""
    game_seed: int = 0
    """Which rollouts and games are played."""


def calibrate_command(args: list[str]) -> None:
    options = parse(Calibrate, args, "bnmodes calibrate")
    folder = options.folder()
    from bnmodes.runs.calibrate import calibrate

    with Console(stderr=True).status("starting games") as status:  # in a terminal only
        found = calibrate(folder, options.rows, options.games, options.game_seed, status.update)
    for note in found.notes:
        console.print(note)
    print(explain(found.protocol, found.offered))
    batch = folder.spec().evaluation.episodes
    sources = {
        "calibrated": f"of {options.rows:,} fresh rows, alone",
        "running": "left by training, alone",
        "batch": f"of {batch} environments together",
    }
    table = Table("statistics of evaluate", "", "mean return", "standard error", box=None)
    for source, meaning in sources.items():
        returns = found.returns[source]
        error = returns.std(ddof=1) / len(returns) ** 0.5
        table.add_row(source, meaning, f"{returns.mean():.2f}", f"{error:.2f}")
    console.print(table)
    kept = folder.path / "calibrated"
    console.print(f"{kept}: kept; `bnmodes watch {folder.path} --calibrated` plays it")


@dataclass(frozen=True)
class Watch(OfRun):
    """Play a trained agent for one game and write it as a GIF."""

    to: Annotated[Path | None, WITHOUT_DEFAULT] = None
    """GIF to write; without it, watch.gif in the run's folder."""
    max_decisions: int = 1_000
    """Longest film (decisions)."""
    game_seed: int = 0
    """Which game is played."""
    calibrated: bool = False
    """Play alone in one environment, with the statistics that `bnmodes calibrate` estimated."""


def watch_command(args: list[str]) -> None:
    options = parse(Watch, args, "bnmodes watch")
    folder = options.folder()
    from bnmodes.runs.watch import watch

    path = options.to or folder.path / "watch.gif"
    film = watch(
        folder,
        path,
        options.max_decisions,
        options.game_seed,
        options.study_arm,
        calibrated=options.calibrated,
    )
    for note in film.notes:
        console.print(note)
    end = "whole game" if film.game_over else "so far"
    console.print(f"{path}: {film.decisions} decisions, return {film.game_return:g} ({end})")


@dataclass(frozen=True)
class Plot:
    """Draw the learning curve of runs as a picture."""

    runs: Annotated[tyro.conf.Positional[tuple[Path, ...]], SEVERAL_RUNS]
    """Folders of runs."""
    to: Path = Path("curve.png")
    """Picture to write; the ending chooses PNG, PDF or SVG."""
    plugin: Annotated[tuple[Path, ...], NONE_BY_DEFAULT] = ()
    """Files of your own that the runs' agents or games are in; results never import them."""


def plot(args: list[str]) -> None:
    options = parse(Plot, args, "bnmodes plot")
    load_plugins(options.plugin, options.runs)
    from bnmodes.analysis.figures.run_curve import learning_curve

    learning_curve([RunFolder(path) for path in options.runs], options.to)
    console.print(f"{options.to}")
