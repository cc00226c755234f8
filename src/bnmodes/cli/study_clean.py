"""`study clean`: delete what a study has left half-done."""

import shutil
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from bnmodes.cli.options import parse
from bnmodes.cli.study import Choice
from bnmodes.files import refuse_link
from bnmodes.runs.folder import RunFolder
from bnmodes.studies.results import log_path, require_results, run_path

console = Console(soft_wrap=True, highlight=False, markup=False)


@dataclass(frozen=True)
class Clean(Choice):
    """Delete the study's runs that are not finished; finished ones always stay."""

    out: Path = Path("results")
    """Folder of results."""
    yes: bool = False
    """Really delete; without it, only say what would be deleted."""


def study_clean(args: list[str]) -> None:
    options = parse(Clean, args, "bnmodes study clean")
    require_results(options.out)
    found = False
    study = options.study()
    refuse_link(options.out / "runs")
    refuse_link(options.out / "logs")
    for run in study.runs:
        folder = RunFolder(run_path(options.out, run))
        folder.refuse_links()
        if not folder.path.exists() or folder.in_use():
            continue
        if folder.finished:
            folder.discard_checkpoints()  # a kill may have come between the mark and this
            continue
        if damage := folder.damage():  # it was finished once
            console.print(f"kept: {run}: {damage}; `bnmodes study run` would set it aside")
            continue
        found = True
        console.print(f"{'deleted' if options.yes else 'would delete'}: {run}")
        if options.yes:
            with folder.locked():
                shutil.rmtree(folder.path)
            log_path(options.out, run).unlink(missing_ok=True)
    if not found:
        console.print("nothing is half-done.")
    elif not options.yes:
        console.print("add --yes to delete them; they would begin anew.")
