"""`study publish` and `study import`: results as a small folder, and back."""

import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro
from rich.console import Console

from bnmodes import plugins
from bnmodes.cli.options import WITHOUT_DEFAULT, parse
from bnmodes.cli.prose import wrapped
from bnmodes.cli.study import tell_changes
from bnmodes.cli.study_catalog import Choice
from bnmodes.errors import UsageError
from bnmodes.studies.registry import find_study

if TYPE_CHECKING:
    from bnmodes.studies.results import StudyResults

A_COMMIT = tyro.conf.arg(metavar="COMMIT", help_behavior_hint="")
A_STUDY = tyro.conf.arg(metavar="FILE.py", help_behavior_hint="")

console = Console(soft_wrap=True, highlight=False, markup=False)


@dataclass(frozen=True)
class Publish(Choice):
    """Write a study's results as a small folder: numbers, figures, a page, how they were made."""

    out: Path = Path("results")
    """Folder of results."""
    to: Annotated[Path | None, WITHOUT_DEFAULT] = None
    """Folder to write; without it, docs/results/STUDY. An earlier one of it is replaced."""
    commit: Annotated[str | None, A_COMMIT] = None
    """Commit of runs that record none, as older ones and those of an installed wheel."""


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
    declared = len(study.whole.runs)
    console.print(f"{folder}: {done} of {declared} runs, {size / 1e6:.2f} MB")


def _about(options: Publish, folder: Path, results: "StudyResults") -> dict[str, Any]:
    """How the runs were made: what they record themselves."""
    from bnmodes.runs.folder import RunFolder
    from bnmodes.studies.results import run_path

    finished = [run for run in results.study.runs if run not in set(results.missing)]
    origins = [RunFolder(run_path(results.root, run)).origin() for run in finished]
    commits = [origin.commit or options.commit for origin in origins]
    if None in commits:
        run = finished[commits.index(None)]
        raise UsageError(f"{run}, does not record its commit: say with --commit which it was.")
    names = dict.fromkeys(name for origin in origins for name in origin.versions)
    return {
        "command": options.command("run"),
        "report": options.command("report", *["--allow-missing"] * bool(results.missing)),
        "folder": folder.as_posix(),
        "commit": _each(commits),
        "machine": _each(origin.machine or "not recorded" for origin in origins),
        "python": _each(origin.python for origin in origins),
        "versions": {
            name: _each(origin.versions.get(name, "none") for origin in origins) for name in names
        },
    }


def _each(words: Iterable[str | None]) -> str:
    """All that differ, in the order of the runs."""
    return " and ".join(dict.fromkeys(filter(None, words)))


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
    if options.study is None and plugins.is_reference(published.study):
        raise UsageError(
            f"{options.folder} is of a study in a file of its user's own, {published.study}, which "
            "is not imported because results name it: give that file with --study."
        )
    study = find_study(options.study or published.study)
    done = import_runs(published, study, options.out)
    there = f"; {len(done.there)} were there already and stay" if done.there else ""
    console.print(wrapped(f"{options.out}: {len(done.new)} runs of {study.name} imported{there}"))
    report = [*shlex.split(published.about["report"]), "--out", str(options.out)]
    console.print(f"`{shlex.join(report)}` draws them")
