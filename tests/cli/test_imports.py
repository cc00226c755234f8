"""Commands that only read names are quick, because nothing heavy is imported for them."""

import subprocess
import sys

PROGRAM = """
import contextlib, sys
from bnmodes import cli

for words in (
    "--help", "study --help", "study list", "study list --help", "study run --help",
    "study report --help", "watch --help", "study show nope", "study run quick --arms nope",
    "study run quick --games nope", "study status paper-a --seeds 77", "train nope",
    "train c51 --env minatar/nope", "watch quick nope minatar/breakout 0", "nope",
):
    sys.argv = ["bnmodes", *words.split()]
    with contextlib.suppress(SystemExit):
        cli.main()
    heavy = {"torch", "matplotlib"} & sys.modules.keys()
    if heavy:
        sys.exit(f"{words} imports {heavy}")
"""


def test_names_and_help_need_neither_pytorch_nor_matplotlib():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-500:]
    assert "paper-a" in done.stdout
    for refused in ("no study 'nope'", "no arm 'nope'", "no game 'nope'", "no agent 'nope'"):
        assert refused in done.stderr
