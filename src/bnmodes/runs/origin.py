"""What a run was made with: versions of packages, the program's commit, the machine."""

import importlib.metadata
import os
import platform
import subprocess
from dataclasses import dataclass
from pathlib import Path

from bnmodes.execution import processor_name

_PACKAGES = ("bnmodes", "torch", "numpy", "ale-py", "minatar")


@dataclass(frozen=True)
class Origin:
    """As the run's spec.json records it."""

    versions: dict[str, str]
    """Of the packages."""
    python: str
    """Version of Python."""
    commit: str | None = None
    """Of the program; None where its files are in no git repository, and in older runs."""
    machine: str | None = None
    """Processor and number of cores; None in older runs."""


def origin_here() -> Origin:
    """Of a run that this process begins."""
    return Origin(
        versions={name: importlib.metadata.version(name) for name in _PACKAGES},
        python=platform.python_version(),
        commit=commit_of(Path(__file__)),
        machine=f"{processor_name()}, {os.cpu_count()} cores",
    )


def commit_of(program: Path) -> str | None:
    """Of the repository that has this file; marked where files differ from it. One that the program
    is only installed inside of, such as its user's own, is another's."""
    try:
        _git("ls-files", "--error-unmatch", program.name, folder=program.parent)
        return _git("describe", "--always", "--dirty", "--abbrev=12", folder=program.parent)
    except (OSError, subprocess.CalledProcessError):
        return None


def _git(*words: str, folder: Path) -> str:
    done = subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.strip()
