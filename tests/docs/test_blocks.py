"""Everything shown is tried: Python is executed, commands are understood, outputs are compared."""

import contextlib
import importlib
import io
import pkgutil
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from bnmodes import cli, plugins, train
from bnmodes.analysis import publish
from bnmodes.analysis.export import export
from bnmodes.analysis.fewest_seeds import too_few_seeds
from bnmodes.analysis.figures import figure
from bnmodes.analysis.report import report
from bnmodes.cli import figure as paper_figure
from bnmodes.cli import runs, study_publish
from bnmodes.cli.launching import LaunchOptions
from bnmodes.cli.options import parse
from bnmodes.execution import Execution
from bnmodes.runs import loop
from bnmodes.studies import estimate, registry, results, schedule
from bnmodes.studies.quick import QUICK
from docs.pages import PAGES, ROOT, Block, blocks
from helpers.synthetic import synthetic_results

SHORT_DECISIONS = 1_000
"""A run of at most so many decisions is really trained."""
FEW_RUNS = 48
"""A study of more runs is tried with two of its games, and Pong, and one seed."""


def test_every_block_says_what_it_is():
    assert {block.language for block in blocks()} <= {"python", "sh", "console"}
    assert len(blocks()) > 50


def test_the_example_of_a_study_is_the_one_that_is_shown():
    example = (ROOT / "examples/own_study.py").read_text().partition("\n\n")[2]
    for page in ("README.md", "docs/how-to/own-study.md"):
        assert example in [block.text for block in blocks("python", page=page)], page


def test_nothing_that_commands_write_is_in_the_repository():
    """What .gitignore names, such as the tables of an export, was committed by mistake."""
    if not (ROOT / ".git").exists():
        pytest.skip("not a clone")
    listed = ["git", "-C", str(ROOT), "ls-files", "--cached", "--ignored", "--exclude-standard"]
    assert subprocess.run(listed, capture_output=True, text=True, check=True).stdout == ""


def by_page(*languages: str) -> list[str]:
    return [page for page in PAGES if blocks(*languages, page=page)]


@pytest.fixture
def desk(tmp_path, monkeypatch):
    """An empty folder as the reader's, with the repository's examples, and some results."""
    for name in ("examples", "tests", "constraints.txt", "docs"):
        (tmp_path / name).symlink_to(ROOT / name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(plugins, "_loaded", {})  # every page has a my_study.py of its own
    return tmp_path


def run_here(of, root, *_):
    """A study in this process, instead of one process a run."""
    for each in of.runs:
        loop.train(each.spec, results.run_path(root, each), show_progress=False)
    return SimpleNamespace(done=of.runs, failed=[])


@pytest.mark.parametrize("page", by_page("python"))
def test_python_blocks_run_and_print_what_they_show(page, desk, monkeypatch):
    monkeypatch.setattr(schedule, "run_study", run_here)
    figure.all_figures()  # imports the package's own, which stay
    monkeypatch.setattr(figure, "_figures", dict(figure._figures))  # a block may add one
    for block in blocks("python", page=page):
        if "results-runs.parquet" in block.text:
            export(synthetic_results(QUICK), Path("results.parquet"))
        printed = io.StringIO()
        names: dict = {"__name__": "block"}
        with contextlib.redirect_stdout(printed):
            exec(compile(block.text, str(block), "exec"), names)
        if "STUDY" in names:
            assert not too_few_seeds(names["STUDY"]), f"{block} teaches what cannot answer"
        shown = re.findall(r"^ *print\(.*\)\n((?: *#.*\n)+)", block.text, re.MULTILINE)
        for lines in shown:
            expected = re.sub(r"^ *# ?", "", lines, flags=re.MULTILINE)
            assert expected in printed.getvalue(), block


RECORD = r"""
set -eu
said() { printf '%s\037' "$@"; printf '\036'; }
for name in bnmodes make pip python source; do eval "$name() { said $name \"\$@\"; }"; done
"""


def commands(block: Block) -> list[list[str]]:
    """What bash would call, variables and loops resolved, without calling it."""
    done = subprocess.run(
        ["bash", "-c", RECORD + block.text], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{block}: {done.stderr}"
    return [call.split("\x1f")[:-1] for call in done.stdout.split("\x1e")[:-1]]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A run of a second, in the place of the runs that take longer."""
    folder = tmp_path_factory.mktemp("trained") / "run"
    quickly = {"learning_starts_decisions": 100, "replay_capacity": 300}
    train("c51", "minatar/breakout", "bn-tracked", out=folder, total_decisions=300, changes=quickly)
    return folder


@pytest.fixture
def understood(desk, trained, run, monkeypatch):
    """Call a command with the real parser; what takes longer than a second is left out."""

    really_train, whole_study = loop.train, registry.find_study

    def train_if_short(spec, path, **options):
        if spec.total_decisions <= SHORT_DECISIONS:
            return really_train(spec, path, show_progress=False)
        raise runs.Stopped(0)

    def made_up(of, root):
        return synthetic_results(of, level=lambda arm: 0.3, root=root)

    def figure_is_named(words):
        options = parse(paper_figure.Figure, words, "bnmodes figure")
        assert options.number in range(1, 13)

    def small(name):
        found = whole_study(name)
        if len(found.arms) * len(found.games) * len(found.seeds) <= FEW_RUNS:
            return found
        games = [game for game in found.games if game in (*found.games[:2], "atari/Pong")]
        return found.restricted(games=games, seeds=found.seeds[:1])

    def everywhere(home, name, value):
        """In the place of a function, wherever it was imported."""
        original = getattr(home, name)
        for module in [m for n, m in sys.modules.items() if n.split(".")[0] == "bnmodes"]:
            if vars(module).get(name) is original:
                monkeypatch.setattr(module, name, value)

    for found in pkgutil.iter_modules(cli.__path__, "bnmodes.cli."):
        module = importlib.import_module(found.name)  # before, so that nothing replaced stays
        if hasattr(module, "_hashes"):  # the runs that studies share: seconds
            monkeypatch.setattr(module, "_hashes", lambda of: set())
    everywhere(loop, "train", train_if_short)
    everywhere(schedule, "run_study", lambda of, *_: SimpleNamespace(done=of.runs, failed=[]))
    everywhere(estimate, "estimate_seconds", lambda of: 60.0)
    everywhere(results, "require_results", lambda root: None)
    everywhere(results, "gather", made_up)
    everywhere(registry, "find_study", small)
    monkeypatch.setattr(study_publish, "find_study", whole_study)  # imported are all of its runs
    everywhere(report, "write_report", lambda numbers, page, formats: None)
    everywhere(study_publish, "_about", lambda *_: {})
    everywhere(study_publish, "_commits", lambda *_: {})
    everywhere(publish, "publish", lambda *_: None)
    monkeypatch.setattr(paper_figure, "figure_command", figure_is_named)
    monkeypatch.setattr(Execution, "validate_here", lambda execution: None)
    monkeypatch.setattr(LaunchOptions, "open", lambda *arguments: None)

    def call(*words):
        for word in words:
            if word.startswith("runs/") and "--out" not in words and not Path(word).exists():
                shutil.copytree(trained, word)
        return run(*words)

    return call


def check_make(*targets):
    makefile = (ROOT / "Makefile").read_text()
    for target in targets:
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


def check_pip(*words):
    extras = re.findall(r"^(\w+) = \[", (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    for word in words:
        assert not word.startswith("bnmodes"), "it is on no index: install a clone"
        for asked in re.findall(r"^\.\[(\w+)\]", word):
            assert asked in extras


def check_python(script, *words):
    text = (ROOT / script).read_text()
    assert all(word.lstrip("-") in text for word in words if word.startswith("--"))


def check_source(path):
    assert path == ".venv/bin/activate"


def check_shell(name, *words):
    checks = {"make": check_make, "pip": check_pip, "python": check_python, "source": check_source}
    checks[name](*words)


@pytest.mark.parametrize("page", by_page("sh"))
def test_commands_are_understood(page, desk, understood):
    for block in blocks("python", "sh", page=page):
        if block.title:
            Path(block.title).write_text(block.text)
        for name, *words in commands(block) if block.language == "sh" else []:
            if name != "bnmodes":
                check_shell(name, *words)
                continue
            code, _, err = understood(*words)
            assert code in (0, 130), f"{block}: {shlex.join(words)}: {err}"


@pytest.mark.parametrize("page", by_page("console"))
def test_shown_outputs_are_what_is_printed(page, understood):
    for block in blocks("sh", "console", page=page):
        if block.language == "sh":
            for name, *words in commands(block):
                if name == "bnmodes" and words[0] == "train":
                    understood(*words)
            continue
        command, *shown = block.text.splitlines()
        name, *words = shlex.split(command.removeprefix("$ "))
        assert name == "bnmodes"
        code, out, err = understood(*words)
        assert code == 0, err
        assert [line.rstrip() for line in out.splitlines()] == shown, block
