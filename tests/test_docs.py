"""Everything shown is executed: the Python blocks and the commands of README and docs."""

import re
import shlex
import sys
from pathlib import Path

import pytest

from bnmodes import cli
from bnmodes.analysis.figures import figure
from bnmodes.cli.options import parse
from bnmodes.cli.study import Run

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
TEXTS = {page.name: page.read_text() for page in PAGES}


@pytest.mark.parametrize("page", TEXTS)
def test_python_blocks_run(page, monkeypatch):
    figure.all_figures()  # imports the package's own, which stay
    monkeypatch.setattr(figure, "_figures", dict(figure._figures))  # a block may add one
    for block in re.findall(r"```python\n(.*?)```", TEXTS[page], re.DOTALL):
        exec(compile(block, page, "exec"), {})


@pytest.mark.parametrize("page", TEXTS)
def test_links_lead_somewhere(page):
    for link in re.findall(r"\]\(([^)#]+)", TEXTS[page]):
        if link.startswith("https://"):
            continue
        assert (ROOT / link).exists() or (ROOT / "docs" / link).exists(), link


def shown_commands() -> list[str]:
    lines = [line for text in TEXTS.values() for line in text.splitlines()]
    return [
        line.removeprefix("$ ") for line in lines if re.match(r"(\$ )?bnmodes (train|expl)", line)
    ]


@pytest.mark.parametrize("command", shown_commands())
def test_shown_commands_are_understood(command, monkeypatch, capsys):
    """Training is not begun: the same options are only explained."""
    words = shlex.split(command, comments=True)
    words = [word if word != "train" else "explain" for word in words]
    if "--out" in words:
        del words[words.index("--out") : words.index("--out") + 2]
    monkeypatch.setattr(sys, "argv", words)
    cli.main()
    assert "bootstrap" in capsys.readouterr().out


@pytest.mark.parametrize(
    "command",
    [
        line
        for text in TEXTS.values()
        for line in text.splitlines()
        if line.startswith("bnmodes study run")
    ],
)
def test_shown_studies_and_launchers_are_understood(command):
    words = shlex.split(command.removeprefix("bnmodes study run"), comments=True)
    options = parse(Run, words, "bnmodes study run")
    options.launch.validate(options.execution)
    assert options.study().runs


def test_the_readmes_table_is_what_explain_prints(monkeypatch, capsys):
    track = ["--protocol.bootstrap.track", "0.1"]
    monkeypatch.setattr(sys, "argv", ["bnmodes", "explain", "c51", "--arm", "bn-tracked", *track])
    cli.main()
    printed = capsys.readouterr().out.splitlines()
    assert [line for line in printed[:8] if line not in TEXTS["README.md"].splitlines()] == []
