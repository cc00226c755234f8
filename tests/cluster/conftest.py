import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import small_cli


def start(*args: object, log: Path) -> subprocess.Popen:
    """The command line in a process of its own, its output in the file `log`."""
    program = Path(small_cli.__file__)
    paths = [str(program.parent.parent), os.environ.get("PYTHONPATH", "")]
    with open(log, "a") as output:
        return subprocess.Popen(
            [sys.executable, str(program), *map(str, args)],
            stdout=output,
            stderr=output,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))},
        )


@pytest.fixture
def bnmodes() -> Iterator[Callable[..., subprocess.Popen]]:
    """`start`; what it started does not outlive the test."""
    processes = []

    def start_until_the_end(*args: object, log: Path) -> subprocess.Popen:
        processes.append(start(*args, log=log))
        return processes[-1]

    yield start_until_the_end
    for process in processes:
        process.kill()
        process.wait()


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory) -> Path:
    """Results of the study on this machine."""
    root, log = tmp_path_factory.mktemp("undisturbed"), tmp_path_factory.mktemp("log") / "log"
    assert start("study", "run", "small", "--seeds", 0, "--out", root, log=log).wait() == 0
    return root
