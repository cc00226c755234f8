"""Which studies there are: list and show, and how a study or a part of it is named."""

import math
import os
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console
from rich.table import Table

from bnmodes.cli.options import ALL_BY_DEFAULT, parse
from bnmodes.cli.prose import wrapped
from bnmodes.execution import keep_freed_memory
from bnmodes.runs.progress import duration
from bnmodes.studies.estimate import estimate_seconds, memory_bytes, transition_bytes
from bnmodes.studies.registry import STUDIES, find_study
from bnmodes.studies.study import Study

console = Console(soft_wrap=True, highlight=False, markup=False)


@dataclass(frozen=True)
class Choice:
    """A study, or a part of it."""

    name: tyro.conf.Positional[str]
    """Study, as `bnmodes study list` names it, or your own: FILE.py, or FILE.py:NAME of several."""
    arms: Annotated[tuple[str, ...], ALL_BY_DEFAULT] = ()
    """Only these arms."""
    games: Annotated[tuple[str, ...], ALL_BY_DEFAULT] = ()
    """Only these games."""
    seeds: Annotated[tuple[int, ...], ALL_BY_DEFAULT] = ()
    """Only these seeds."""

    @classmethod
    def of(cls, part: Study) -> "Choice":
        """How the command line names this study or part of one."""
        arms, whole = tuple(arm.name for arm in part.arms), part.whole
        return Choice(
            part.source,
            arms if len(arms) < len(whole.arms) else (),
            part.games if len(part.games) < len(whole.games) else (),
            part.seeds if len(part.seeds) < len(whole.seeds) else (),
        )

    def command(self, name: str, *options: str) -> str:
        """Another command on just what was chosen here, such as "report"."""
        words = ["bnmodes", "study", name, self.name]
        for part in ("arms", "games", "seeds"):
            if chosen := getattr(self, part):
                words += [f"--{part}", *map(str, chosen)]
        return shlex.join([*words, *options])

    def report_command(self, out: Path) -> str:
        return self.command("report", "--out", str(out))

    def study(self) -> Study:
        return find_study(self.name).restricted(self.arms, self.games, self.seeds)


@dataclass(frozen=True)
class List:
    """List the studies."""


def study_list(args: list[str]) -> None:
    parse(List, args, "bnmodes study list")
    table = Table("study", "arms", "games", "seeds", "runs", "decisions a run", box=None)
    for study in STUDIES.values():
        sizes = (len(study.arms), len(study.games), len(study.seeds))
        counts = (*sizes, math.prod(sizes))
        table.add_row(study.name, *map(str, counts), f"{study.total_decisions:,}")
    console.print(table)


@dataclass(frozen=True)
class Show(Choice):
    """Show a study: what it asks, its arms, its size, and how long it would take here."""

    estimate: bool = True
    """Estimate the time, by measuring each arm for about two seconds on each suite of games."""


def study_show(args: list[str]) -> None:
    options = parse(Show, args, "bnmodes study show")
    study = options.study()
    console.print(wrapped(f"{study.name}: {study.question}\n"))
    console.print(wrapped(f"arms   {', '.join(arm.name for arm in study.arms)}"))
    console.print(wrapped(f"games  {', '.join(study.games)}"))
    console.print(f"seeds  {', '.join(map(str, study.seeds))}")
    console.print(f"scored {_scored(study)}; in percent of {study.reference}")
    console.print(f"rows   of training metrics every {study.record_every_decisions:,} decisions")
    from bnmodes.analysis.fewest_seeds import too_few_seeds

    for note in filter(None, (study.note, *study.warnings(), too_few_seeds(study))):
        console.print(wrapped(f"note   {note}"))
    decisions = len(study.runs) * study.total_decisions
    console.print(
        f"size   {len(study.runs):,} runs of {study.total_decisions:,} decisions, "
        f"{decisions:,} in all"
    )
    shared = [
        f"{len(common)} with {other.name}"
        for other in STUDIES.values()
        if other.name != study.name and (common := _hashes(study) & _hashes(other))
    ]
    if shared:
        console.print(f"shared {', '.join(shared)}: run once for both in one --out")
    console.print(
        f"memory {_size(memory_bytes(study))} a process at most; disk up to "
        f"{_size(3 * transition_bytes(study))} for the checkpoints of a run under way"
    )
    if options.estimate:
        keep_freed_memory()  # as the runs do
        seconds, cores = estimate_seconds(study), len(os.sched_getaffinity(0))
        on_all = f", {duration(seconds / cores)} on {cores}" if cores > 1 else ""
        console.print(
            f"time   about {duration(seconds)} on one core here{on_all}, without evaluations and "
            "starts of runs"
        )


def _size(number_of_bytes: int) -> str:
    """In GB, or where that would be less than 0.1, in MB."""
    if number_of_bytes >= 1e8:
        return f"{number_of_bytes / 1e9:.1f} GB"
    return f"{max(1, round(number_of_bytes / 1e6))} MB"


def _scored(study: Study) -> str:
    evaluation = study.evaluated
    if study.scores_test_envs:
        return (
            f"finished games of greedy test environments, in {evaluation.test_bins} parts of a run"
        )
    return (
        f"evaluations of {evaluation.episodes} games every {evaluation.every_decisions:,} decisions"
    )


def _hashes(study: Study) -> set[str]:
    return {run.spec.content_hash for run in study.runs}
