import itertools
import sys

import jaxtyping
import pytest
import torch
from hypothesis import settings

from bnmodes import cli
from bnmodes.runs.loop import Loop

settings.register_profile("bnmodes", deadline=None, derandomize=True)
settings.load_profile("bnmodes")


def pytest_addoption(parser):
    parser.addoption("--seeds", default="0", help="seeds of the tests that learn: 0,1,2")
    parser.addoption("--threads", default=1, type=int, help="threads of PyTorch")


def pytest_configure(config):
    torch.set_num_threads(config.getoption("--threads"))


CHECKED = not jaxtyping.config.jaxtyping_disable


def check_types(wanted: bool) -> None:
    jaxtyping.config.update("jaxtyping_disable", not (wanted and CHECKED))


def pytest_runtest_setup(item):
    """To check types and shapes doubles the time: not in long loops of what other tests check."""
    check_types(not any(item.get_closest_marker(marker) for marker in ("slow", "learns")))


@pytest.fixture(scope="session", autouse=True)
def _types_of_every_seventh_decision():
    """All decisions of a run call the same functions."""
    decide, calls = Loop._decide, itertools.count()

    def decide_checked(loop):
        wanted = not jaxtyping.config.jaxtyping_disable
        check_types(wanted and next(calls) % 7 == 0)
        try:
            decide(loop)
        finally:
            check_types(wanted)

    Loop._decide = decide_checked
    yield
    Loop._decide = decide


def pytest_generate_tests(metafunc):
    """A test that states learning takes a `seed`, and must hold for each one that is asked for."""
    if "seed" in metafunc.fixturenames and metafunc.definition.get_closest_marker("learns"):
        seeds = [int(seed) for seed in metafunc.config.getoption("--seeds").split(",")]
        metafunc.parametrize("seed", seeds, ids=[f"seed{seed}" for seed in seeds])


@pytest.fixture
def run(monkeypatch, capsys):
    """Exit code, standard output and standard error of a command, in this process."""

    def call(*args):

        monkeypatch.setattr(sys, "argv", ["bnmodes", *map(str, args)])
        monkeypatch.setenv("COLUMNS", "100")
        try:
            cli.main()
            code = 0
        except SystemExit as exit:
            code = exit.code or 0
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call
