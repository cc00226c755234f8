"""`study publish` and `study import`: results as a small folder, and back."""

import os
import platform
import shlex
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.console import Console

from bnmodes.cli.options import WITHOUT_DEFAULT, parse
from bnmodes.cli.prose import wrapped
from bnmodes.cli.study import tell_changes
from bnmodes.cli.study_catalog import Choice
from bnmodes.errors import UsageError
from bnmodes.studies.registry import find_study

A_COMMIT = tyro.conf.arg(metavar="COMMIT", help_behavior_hint="")
A_STUDY = tyro.conf.arg(metavar="FILE.py", help_behavior_hint="")

console = Console(soft_wrap=True, highlight=False, markup=False)


@dataclass(frozen=True)
class Publish(Choice):
    """Write a study's results as a small folder: numbers, figures, a page, how they were made."""

    out: Path = Path("results")
    """Folder of results."""
    to: Annotated[Path | None, WITHOUT_DEFAULT] = None
    """Folder to write; without it, docs/results/STUDY. An earlier one of its kind is replaced."""
    commit: Annotated[str | None, A_COMMIT] = None
    """Commit that the runs were made with; without it, the one that this program is at."""


def study_publish(args: list[str]) -> None:
    options = parse(Publish, args, "bnmodes study publish")
    study = options.study()
    from bnmodes.analysis.publish import publish
    from bnmodes.studies.results import gather

    results = gather(study, options.out)
    tell_changes(results)
    folder = options.to or Path("docs/results") / study.name
    publish(results, _about(options, folder, results), folder)
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    done = len(study.runs) - len(results.missing)
    console.print(f"{folder}: {done} of {len(study.runs)} runs, {size / 1e6:.2f} MB")


def _about(options: Publish, folder: Path, results: Any) -> dict[str, Any]:
    """How the runs were made. Their own files have the versions that they were begun with."""
    from bnmodes.runs.folder import RunFolder
    from bnmodes.studies.results import run_path

    missing = set(results.missing)
    first = next(run for run in results.study.runs if run not in missing)
    described = RunFolder(run_path(results.root, first))
    incomplete = ["--allow-missing"] if missing else []
    return {
        "command": options.command("run"),
        "report": options.command("report", *incomplete),
        "folder": folder.as_posix(),
        "commit": options.commit or _commit(),
        "machine": f"{_processor()}, {os.cpu_count()} cores",
        "python": platform.python_version(),
        "versions": described.versions(),
    }


def _commit() -> str:
    """Of the repository that this program is in; marked where files differ from it."""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=12"]
    try:
        done = subprocess.run(
            command, cwd=Path(__file__).parent, capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        raise UsageError(
            "this program is in no git repository: say with --commit which version made the runs."
        ) from None
    return done.stdout.strip()


def _processor() -> str:
    """Its model, as the system names it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.machine()
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.machine()


@dataclass(frozen=True)
class Import:
    """Put published runs into a folder of results, so that reports are drawn without a run."""

    folder: tyro.conf.Positional[Path]
    """Folder that `bnmodes study publish` wrote."""
    out: Path = Path("results")
    """Folder of results. What is there already stays as it is."""
    study: Annotated[str | None, A_STUDY] = None
    """File of your own study; without it, the study of the package that the folder names."""


def study_import(args: list[str]) -> None:
    options = parse(Import, args, "bnmodes study import")
    from bnmodes.studies.importing import import_runs
    from bnmodes.studies.published import read_published

    published = read_published(options.folder)
    study = find_study(options.study or published.study)
    done = import_runs(published, study, options.out)
    there = f"; {len(done.there)} were there already and stay" if done.there else ""
    console.print(wrapped(f"{options.out}: {len(done.new)} runs of {study.name} imported{there}"))
    report = [*shlex.split(published.about["report"]), "--out", str(options.out)]
    console.print(f"`{shlex.join(report)}` draws them")
