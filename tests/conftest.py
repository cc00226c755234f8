import sys

import pytest
import torch
from hypothesis import settings

from bnmodes import cli

settings.register_profile("bnmodes", deadline=None, derandomize=True)
settings.load_profile("bnmodes")


def pytest_addoption(parser):
    parser.addoption("--seeds", default="0", help="seeds of the tests that learn: 0,1,2")
    parser.addoption("--threads", default=1, type=int, help="threads of PyTorch")


def pytest_configure(config):
    torch.set_num_threads(config.getoption("--threads"))


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
