import sys

import pytest
import torch
from hypothesis import settings

torch.set_num_threads(1)
settings.register_profile("bnmodes", deadline=None, derandomize=True)
settings.load_profile("bnmodes")


@pytest.fixture
def run(monkeypatch, capsys):
    """Exit code, standard output and standard error of a command, in this process."""

    def call(*args):
        from bnmodes import cli

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
