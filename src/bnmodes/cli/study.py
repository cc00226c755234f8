"""Commands on a study: run, status, export, report, power."""

import math
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro
from rich.console import Console

from bnmodes.bounds import Positive, check_bounds
from bnmodes.cli.launching import LaunchOptions
from bnmodes.cli.options import NONE_BY_DEFAULT, WITHOUT_DEFAULT, parse
from bnmodes.cli.prose import wrapped
from bnmodes.cli.scoring import Scoring
from bnmodes.cli.study_catalog import Choice
from bnmodes.errors import UsageError
from bnmodes.execution import PLAIN, Execution
from bnmodes.runs.sinks import SinkName, require_usable
from bnmodes.runs.stopping import StopRequest
from bnmodes.studies.estimate import transition_bytes
from bnmodes.studies.launch.slurm_queue import run_states
from bnmodes.studies.launch.worker_command import WorkerOptions
from bnmodes.studies.registry import find_study
from bnmodes.studies.study import Study

if TYPE_CHECKING:
    from bnmodes.studies.results import StudyResults

# PyTorch, Matplotlib and Polars take seconds to import: the commands that need them import what
# they use.
AN_ARM = tyro.conf.arg(metavar="ARM", help_behavior_hint="")

console = Console(soft_wrap=True, highlight=False, markup=False)


@dataclass(frozen=True)
class Run(Choice):
    """Run a study, here or on a cluster; the same command again goes on with it."""

    out: Path = Path("results")
    """Folder of results; studies can share one, and then share the runs they have in common."""
    launch: tyro.conf.OmitArgPrefixes[LaunchOptions] = LaunchOptions()
    checkpoint_minutes: float = 0.0
    """Minutes between checkpoints of a run; 0: 5, or 60 where one takes more than 1 GB."""
    hang_minutes: float = 30.0
    """Minutes without a sign of life after which a worker is killed and its run tried again."""
    keep_networks: Literal["all", "last-seed", "none"] = "all"
    """Runs whose final networks stay; `watch` and `audit` need them, paper-b's take 35 GB."""
    execution: tyro.conf.OmitArgPrefixes[Execution] = PLAIN
    """How the runs are computed; they are the same runs whatever is chosen here."""
    sinks: Annotated[tuple[SinkName, ...], NONE_BY_DEFAULT] = ()
    """Where metrics go besides the runs' own files."""

    def network_seeds(self) -> tuple[int, ...] | None:
        """Seeds whose final networks are kept; None: all."""
        last_seed = find_study(self.name).seeds[-1]
        return {"all": None, "last-seed": (last_seed,), "none": ()}[self.keep_networks]


def study_run(args: list[str]) -> None:
    options = parse(Run, args, "bnmodes study run")
    study, stop = options.study(), StopRequest()
    options.launch.validate(options.execution)
    if not 0 <= options.checkpoint_minutes < math.inf:
        raise UsageError(f"checkpoint-minutes is {options.checkpoint_minutes}: must be 0 or more.")
    if not 0 < options.hang_minutes < math.inf:
        raise UsageError(f"hang-minutes is {options.hang_minutes}: must be above 0.")
    require_usable(options.sinks)
    from bnmodes.analysis.fewest_seeds import too_few_seeds
    from bnmodes.studies.schedule import run_study

    # A part is run for the sake of the whole study.
    for warning in filter(None, (*study.warnings(), too_few_seeds(find_study(options.name)))):
        console.print(wrapped(f"note: {warning}"))
    # Gigabytes take their time to write, at every checkpoint.
    minutes = options.checkpoint_minutes or (60.0 if transition_bytes(study) > 1e9 else 5.0)
    workers = WorkerOptions(
        minutes, options.sinks, options.execution, options.network_seeds(), options.hang_minutes
    )
    launcher = options.launch.open(study, options.out, workers)
    with stop.listening():
        schedule = run_study(study, options.out, launcher, stop)
    if stop.requested:
        console.print(
            f"stopped with {len(schedule.done)} of {len(study.runs)} runs done; "
            "the same command goes on from there"
        )
        sys.exit(130)
    if schedule.failed:
        console.print(
            f"{len(schedule.failed)} of {len(study.runs)} runs failed; see their logs in "
            f"{options.out / 'logs'}; the same command tries them again"
        )
        sys.exit(1)
    from bnmodes.studies.results import imported_note, is_imported

    imported = [run for run in schedule.done if is_imported(run, options.out)]
    if note := imported_note(imported, len(schedule.done)):
        console.print(wrapped(f"note: {note}; to make them, run the study in another --out"))
    console.print(
        f"all {len(study.runs)} runs of {study.name} are done; "
        f"`{options.report_command(options.out)}` draws them"
    )


@dataclass(frozen=True)
class Status(Choice):
    """Show how far a study is: by its files, and for jobs sent to Slurm, by the queue."""

    out: Path = Path("results")
    """Folder of results."""


def study_status(args: list[str]) -> None:
    options = parse(Status, args, "bnmodes study status")
    study = options.study()
    from bnmodes.runs.folder import RunFolder
    from bnmodes.studies.results import (
        damaged_notes,
        damaged_runs,
        imported_note,
        is_imported,
        outdated_notes,
        outdated_runs,
        require_results,
        run_path,
    )
    from bnmodes.studies.status import status_table

    require_results(options.out)
    outdated, damaged = outdated_runs(study, options.out), damaged_runs(study, options.out)
    console.print(status_table(study, options.out, run_states(options.out), outdated, damaged))
    finished = [run for run in study.runs if RunFolder(run_path(options.out, run)).finished]
    imported = imported_note([r for r in finished if is_imported(r, options.out)], len(finished))
    left_out = outdated_notes(outdated, options.out) + damaged_notes(damaged)
    for sentence in (*left_out, *filter(None, [imported])):
        console.print(wrapped(f"note: {sentence}"))


def tell_changes(results: "StudyResults") -> None:
    """What of the found runs is not as it would be run now."""
    from bnmodes.studies.result_notes import change_notes

    for sentence in change_notes(results):
        console.print(wrapped(f"note: {sentence}"))


@dataclass(frozen=True)
class Export(Choice):
    """Write a study's finished runs as tables: every number, and the scores of each run."""

    out: Path = Path("results")
    """Folder of results."""
    to: Path = Path("results.parquet")
    """File to write, .parquet or .csv: a row per number. NAME-runs beside it has a row per run."""


def study_export(args: list[str]) -> None:
    options = parse(Export, args, "bnmodes study export")
    from bnmodes.analysis.export import export
    from bnmodes.studies.results import gather

    results = gather(options.study(), options.out)
    tell_changes(results)
    rows, runs_path = export(results, options.to)
    declared = len(results.study.runs)
    console.print(
        f"{options.to}: {rows:,} rows of {declared - len(results.missing)} finished "
        f"runs; {len(results.missing)} of {declared} declared runs are missing"
    )
    console.print(f"{runs_path}: their settings and scores")
    for run in results.missing:
        console.print(f"  missing: {run}")


@dataclass(frozen=True)
class Power(Choice):
    """Say how many seeds the next study would need, by the spread of this one's."""

    effect: Positive = 0.2
    """Difference in AUC that it is to show (fraction of the reference's AUC)."""
    out: Path = Path("results")
    """Folder of results."""


def study_power(args: list[str]) -> None:
    options = parse(Power, args, "bnmodes study power")
    check_bounds(options)
    from bnmodes.analysis.power import power_sentence
    from bnmodes.analysis.study_numbers import StudyNumbers
    from bnmodes.studies.results import gather

    numbers = StudyNumbers(gather(options.study(), options.out), allow_missing=True)
    unknown = (
        f"cannot tell: {options.name} has no reference arm whose AUC is above 0 and differs "
        "between seeds."
    )
    console.print(wrapped(power_sentence(numbers, options.effect) or unknown))


@dataclass(frozen=True)
class Report(Scoring, Choice):
    """Write one self-contained page: protocols, completeness, statistics, figures."""

    to: Annotated[Path | None, WITHOUT_DEFAULT] = None
    """Page to write; without it, STUDY.html in the folder of results. Figures go beside it."""
    reference: Annotated[str | None, AN_ARM] = None
    """Arm that percentages refer to, and others are tested against if the study says no pairs."""
    against: Annotated[str | None, AN_ARM] = None
    """Arm that all are tested against, besides declared contrasts, or in place of the reference."""
    published: Annotated[tuple[Path, ...], NONE_BY_DEFAULT] = ()
    """Published results of others, drawn as marked arms: tables (.csv, .parquet), MR.Q's .txt."""
    formats: tuple[Literal["png", "pdf", "svg"], ...] = ("png",)
    """File formats of the figures beside the page."""

    def contrasts(self, study: Study) -> list[tuple[str, str]] | None:
        """Pairs of arms to test; None: those that the study says."""
        names = [arm.name for arm in study.arms]
        if self.against is None:
            return None
        declared = [(each.arm, each.other) for each in study.contrasts]
        if self.against not in names:
            raise UsageError(f"--against {self.against} is no arm: choose from {', '.join(names)}.")
        tested = {frozenset(pair) for pair in declared}
        against = [(name, self.against) for name in names if name != self.against]
        return declared + [pair for pair in against if frozenset(pair) not in tested]


def study_report(args: list[str]) -> None:
    options = parse(Report, args, "bnmodes study report")
    study = options.study()
    from bnmodes.analysis.findings import headline, summary
    from bnmodes.analysis.published_arms import read_arms, require_shown
    from bnmodes.analysis.report.report import write_report
    from bnmodes.analysis.report.summary_table import summary_table
    from bnmodes.studies.results import gather

    declared = find_study(options.name)
    part = "" if study == declared else "-part"
    part += "-released" if options.released_metrics else ""
    page = options.to or options.out / f"{study.name}{part}.html"
    if page.suffix != ".html":
        raise UsageError(f"--to is {page}, but the report is a page: let its name end in .html.")
    results = gather(study, options.out)
    tell_changes(results)
    numbers = options.numbers(
        results,
        reference=options.reference,
        contrasts=options.contrasts(study),
        published=read_arms(options.published, study, declared),
    )
    require_shown(numbers)
    write_report(numbers, page, options.formats)
    console.print(wrapped(f"{study.name}: {study.question}\n"))
    for note in filter(None, (study.part_words(), numbers.missing_note(numbers.utds))):
        console.print(wrapped(f"{note}\n"))
    # A narrow terminal wraps the lines; cut numbers would be worse.
    Console(width=max(console.width, 120), highlight=False).print(summary_table(numbers))
    console.print(wrapped(f"\n{headline(numbers)}\n\nWhat the data show:"))
    for sentence in summary(numbers):
        console.print(wrapped(f"- {sentence}"))
    console.print(f"\nreport   {page}")
    console.print(f"figures  {page.with_name(f'{page.stem}-figures')}{os.sep}")
