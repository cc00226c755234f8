"""`study publish` and `study import`: results as a small folder, and back."""

import shlex
from collections.abc import Iterable, Mapping
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
    from bnmodes.runs.origin import Origin
    from bnmodes.studies.results import StudyResults
    from bnmodes.studies.study import StudyRun

A_COMMIT = tyro.conf.arg(metavar="COMMIT", help_behavior_hint="")
A_STUDY = tyro.conf.arg(metavar="FILE.py", help_behavior_hint="")

console = Console(soft_wrap=True, highlight=False, markup=False)


@dataclass(frozen=True)
class Publish(Choice):
    """Write a study's results as a small folder: numbers, figures, a page, how they were made."""

    out: Path = Path("results")
    """Folder of results."""
    to: Annotated[Path | None, WITHOUT_DEFAULT] = None
    """Folder to write; without it, published/STUDY. Replaces results of the same runs or fewer."""
    commit: Annotated[str | None, A_COMMIT] = None
    """Commit of runs that record none, as older ones and those of an installed wheel."""


def study_publish(args: list[str]) -> None:
    options = parse(Publish, args, "bnmodes study publish")
    chosen = options.study()
    from bnmodes.analysis.publish import publish
    from bnmodes.studies.results import gather

    results = gather(chosen, options.out)
    tell_changes(results)
    part = chosen.spanned_by(results.finished)
    results = gather(part, options.out)
    folder = options.to or Path("published") / part.name
    commits = _commits(results, options.commit)
    publish(results, _about(Choice.of(part), folder, results, commits), commits, folder)
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    done, declared = len(results.finished), len(part.whole.runs)
    console.print(f"{folder}: {done} of {declared} runs, {size / 1e6:.2f} MB")


def _commits(results: "StudyResults", otherwise: str | None) -> dict["StudyRun", str]:
    """Of each finished run, the commit that it records, or else the one that was given."""
    commits = {}
    for run in results.finished:
        commit = _origin(results, run).commit or otherwise
        if commit is None:
            raise UsageError(f"{run}, does not record its commit: say with --commit which it was.")
        commits[run] = commit
    return commits


def _about(
    choice: Choice, folder: Path, results: "StudyResults", commits: Mapping["StudyRun", str]
) -> dict[str, Any]:
    """How the runs were made: what they record themselves."""
    origins = [_origin(results, run) for run in results.finished]
    names = dict.fromkeys(name for origin in origins for name in origin.versions)
    return {
        "command": choice.command("run"),
        "import": _import_command(folder, results.study.source),
        "report": choice.command("report", *["--allow-missing"] * bool(results.missing)),
        "folder": folder.as_posix(),
        "commit": _each(commits.values()),
        "machine": _each(origin.machine or "not recorded" for origin in origins),
        "python": _each(origin.python for origin in origins),
        "versions": {
            name: _each(origin.versions.get(name, "none") for origin in origins) for name in names
        },
    }


def _origin(results: "StudyResults", run: "StudyRun") -> "Origin":
    from bnmodes.runs.folder import RunFolder
    from bnmodes.studies.results import run_path

    return RunFolder(run_path(results.root, run)).origin()


def _import_command(folder: Path, source: str) -> str:
    """From the folder that holds the published one, wherever that is; a user's own study is named
    by its file."""
    place = folder.name if folder.is_absolute() else folder.as_posix()
    file = ["--study", source] if plugins.is_reference(source) else []
    return shlex.join(["bnmodes", "study", "import", place, *file])


def _each(words: Iterable[str]) -> str:
    """All that differ, in the order of the runs."""
    return " and ".join(dict.fromkeys(words))


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
