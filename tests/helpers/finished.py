"""A folder that says that its run is finished."""

from pathlib import Path

from bnmodes.runs.completion import Completion


def mark_finished(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    Completion(decision=1).write(folder / "done.json")
