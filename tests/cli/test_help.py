"""--help as a person sees it: what is set most comes first, and no line is broken inside a word."""

import re
from itertools import pairwise

import pytest

from bnmodes.cli import COMMANDS

HELP = [*COMMANDS, "train c51", "train pqn", "explain xqc"]


def plain(text: str) -> str:
    """Without colours; boxes are drawn with | where the output is not known to be UTF-8."""
    return re.sub(r"\x1b\[[0-9;]*m", "", text).replace("│", "|")


def test_what_people_set_most_comes_first(run):
    out = plain(run("train", "c51", "--help")[1])
    options = re.findall(r"^\| (--[\w.-]+)", out, re.MULTILINE)
    assert options[:5] == ["--env", "--arm", "--seed", "--total-decisions", "--out"]


@pytest.mark.parametrize("command", HELP)
def test_help_wraps_at_words_and_fits_a_terminal(run, command):
    """Each line fits, and no help text has a line of its source's own ending early in it."""
    lines = plain(run(*command.split(), "--help")[1]).splitlines()
    assert lines
    for line in lines:
        assert len(line) <= 100 or line.startswith("usage:"), line
    for line, below in pairwise(lines):
        if re.match(r"\| {6,}\S", line) and re.match(r"\| {6,}\S", below):
            first_word_below = below.strip("| ").split(" ")[0]
            room = len(line) - len(line.rstrip("| ")) - 2
            assert room <= len(first_word_below), f"broken early: {line}"


def test_an_option_means_one_thing_in_all_commands(run):
    """`--seed` is a run's seed; the games of `watch` and `audit` have another option."""
    for command in ("watch", "audit"):
        out = run(command, "--help")[1]
        assert "--game-seed" in out
        assert "--seed " not in out
