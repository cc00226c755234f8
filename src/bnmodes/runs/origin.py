"""What a run was made with: versions of packages, the program's commit, the machine."""

import importlib.metadata
import os
import platform
import subprocess
from dataclasses import dataclass
from pathlib import Path

import bnmodes
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
        commit=commit_of(Path(bnmodes.__file__)),
        machine=f"{processor_name()}, {os.cpu_count()} cores",
    )


def commit_of(program: Path) -> str | None:
    """Of the repository that has this file, marked "-dirty" where a file in its folder or below
    differs from it. A repository that the program is only installed inside of, such as its
    user's own, is another's."""
    package = program.parent
    try:
        _git("ls-files", "--error-unmatch", program.name, folder=package)
        commit = _git("rev-parse", "--short=12", "HEAD", folder=package)
        changed = _git("status", "--porcelain", "--untracked-files=all", ".", folder=package)
    except (OSError, subprocess.CalledProcessError):
        return None
    return f"{commit}-dirty" if changed else commit


def _git(*words: str, folder: Path) -> str:
    """What git prints in this folder. It takes no lock, which somebody's commit may need, and no
    repository from the environment, which a hook may have set."""
    here = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    command = ["git", "--no-optional-locks", *words]
    done = subprocess.run(command, cwd=folder, env=here, capture_output=True, text=True, check=True)
    return done.stdout.strip()
