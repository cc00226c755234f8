"""--help as a person sees it: what is set most comes first, and lines break between words only."""

import ast
import re
from itertools import pairwise
from pathlib import Path

import pytest

import bnmodes
from bnmodes.cli import COMMANDS

SOURCE = Path(bnmodes.__file__).parent


def test_what_people_set_most_comes_first(run):
    out = re.sub(r"\x1b\[[0-9;]*m", "", run("train", "c51", "--help")[1])
    options = re.findall(r"^[│| ]*(--[a-z][\w.-]+)", out, re.MULTILINE)
    assert options[:5] == ["--env", "--arm", "--seed", "--total-decisions", "--out"]


@pytest.mark.parametrize("command", [*COMMANDS, "train c51", "train pqn", "explain xqc"])
def test_help_fits_a_terminal(run, command):
    out = re.sub(r"\x1b\[[0-9;]*m", "", run(*command.split(), "--help")[1])
    assert out
    assert [line for line in out.splitlines() if len(line) > 100 and "usage:" not in line] == []


def test_help_of_a_long_command_says_how_long_it_takes(run):
    assert "about 25 minutes" in run("bench", "--help")[1]


def _texts_of_options():
    """Where it stands, and the text, of each documented field that may be an option."""
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            is_settings = isinstance(node, ast.ClassDef) and (
                path.parent.name == "cli"
                or node.name.endswith("Settings")
                or node.name in ("Execution", "Mode", "Forward", "Protocol")
            )
            for field, text in pairwise(node.body) if is_settings else ():
                if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr):
                    yield f"{path.name}:{text.lineno}", ast.literal_eval(text.value)


def test_an_options_text_is_one_line_because_help_would_keep_its_line_breaks():
    texts = dict(_texts_of_options())
    assert len(texts) > 100
    assert [place for place, text in texts.items() if "\n" in text] == []


def test_an_option_means_one_thing_in_all_commands(run):
    """`--seed` is a run's seed; the games of `watch` and `audit` have another option."""
    for command in ("watch", "audit"):
        out = run(command, "--help")[1]
        assert "--game-seed" in out
        assert "--seed " not in out


def test_help_says_which_statistics_each_arm_uses(run):
    lines = run("train", "c51", "--help")[1].splitlines()
    arms = dict(line.split(maxsplit=1) for line in lines if re.match(r"  [a-z]+(-[a-z]+)?  ", line))
    assert arms["bn-running"].strip() == "bootstrap: running; act: running"
    assert arms["bn-tracked"].strip() == "bootstrap: tracked; act: running"
    assert arms["bn-pool"].strip() == "bootstrap: batch (pool); act: running"
    assert arms["bn-anchored"].strip() == "bootstrap: batch; act: batch (acting+replay)"
    assert arms["ln"].strip() == "no BatchNorm"
