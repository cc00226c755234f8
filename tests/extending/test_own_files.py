"""A user's own study, game and agent, from a folder outside the package: trained in processes of
their own, killed in the middle, resumed, reported."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bnmodes import plugins
from extending.own_files import write_files


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("outside")
    write_files(folder)
    return folder


def command(*args) -> list[str]:
    return [sys.executable, "-m", "bnmodes", *map(str, args)]


def in_a_process(folder: Path, *args) -> str:
    """What is printed by a command that succeeds."""
    done = subprocess.run(command(*args), cwd=folder, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def bnmodes(run, monkeypatch):
    """Exit code and what is printed by a command in a folder, here, with no plugin loaded yet."""

    def call(folder: Path, *args) -> tuple[int, str]:
        monkeypatch.chdir(folder)
        monkeypatch.setattr(plugins, "_loaded", {})
        code, out, err = run(*args)
        return code, out + err

    return call


def metrics(root: Path) -> dict[str, str]:
    """By run: all rows that were recorded."""
    return {path.parent.name: path.read_text() for path in root.glob("runs/*/metrics.jsonl")}


@pytest.fixture(scope="module")
def undisturbed(folder) -> dict[str, str]:
    said = in_a_process(folder, "study", "run", "my_study.py", "--out", "undisturbed")
    assert "`bnmodes study report my_study.py --out undisturbed`" in said
    return metrics(folder / "undisturbed")


@pytest.mark.slow
def test_a_study_killed_in_the_middle_ends_with_the_same_results(folder, undisturbed):
    assert len(undisturbed) == 4
    arguments = ("study", "run", "my_study.py", "--out", "killed", "--checkpoint-minutes", "0.002")
    study = subprocess.Popen(command(*arguments), cwd=folder, stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 300
    while not list((folder / "killed").glob("runs/*/checkpoints/*")):
        assert study.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.05)
    study.send_signal(signal.SIGKILL)
    study.wait()
    in_a_process(folder, *arguments)
    resumed = [
        json.loads(mark.read_text())["resumes"] for mark in folder.glob("killed/runs/*/done.json")
    ]
    assert sum(resumed) > 0
    assert metrics(folder / "killed") == undisturbed


def test_every_run_is_done(undisturbed):
    assert len(undisturbed) == 4


def test_its_report_names_its_arms_and_games(bnmodes, folder, undisturbed):
    code, said = bnmodes(folder, "study", "report", "my_study.py", "--out", "undisturbed")
    assert code == 0, said
    page = (folder / "undisturbed" / "own.html").read_text()
    for words in ("C51", "DQN", "make_it", "CartPole-v1", "Does it run outside?"):
        assert words in page


def test_commands_on_its_runs_ask_for_the_file_and_then_work(bnmodes, folder, undisturbed):
    runs = folder / "undisturbed" / "runs"
    own = [
        path.parent
        for path in runs.glob("*/spec.json")
        if json.loads(path.read_text())["spec"]["agent"] == "my_agent.py:DQN"
        and "CartPole" in path.read_text()
    ]
    code, refusal = bnmodes(folder, "audit", own[0])
    assert code == 2
    assert "--plugin PATH/my_agent.py" in refusal
    code, audited = bnmodes(folder, "audit", own[0], "--plugin", "my_agent.py")
    assert code == 0, audited
    assert "predict" in audited


def test_a_changed_file_is_told(bnmodes, folder, undisturbed, tmp_path):
    write_files(tmp_path)
    with open(tmp_path / "my_agent.py", "a") as file:
        file.write("\n# another version\n")
    os.symlink(folder / "undisturbed", tmp_path / "undisturbed")
    code, said = bnmodes(tmp_path, "study", "run", "my_study.py", "--out", "undisturbed")
    assert code == 0, said
    assert "my_agent.py has changed since" in said


def test_results_alone_import_nothing(bnmodes, folder, undisturbed, tmp_path):
    """A results folder is opened from elsewhere, with a trap in place of the user's file."""
    trap = tmp_path / "trap"
    for run in (folder / "undisturbed" / "runs").iterdir():
        (run / "my_agent.py").write_text(f"open({str(trap)!r}, 'w')")
        bnmodes(folder / "undisturbed" / "runs", "audit", run)
        (run / "my_agent.py").unlink()
    assert not trap.exists()


TWO_STUDIES = """
from bnmodes import Arm, Study
S = Study("s", "?", (Arm("a", "ln"),), ("probe/chain",), (0,), 9)
T = Study("t", "?", (Arm("a", "ln"),), ("probe/chain",), (0,), 9)
"""
NO_METHODS = """
from bnmodes import AgentKind
from bnmodes.agents.c51 import C51Settings
class Empty: pass
K = AgentKind("k", "", C51Settings, {"a": {}}, "a", Empty)
"""


@pytest.mark.parametrize(
    ("source", "arguments", "words"),
    [
        ("", ("study", "run", "nowhere.py"), "cannot be read"),
        ("x = 1", ("study", "run", "bad.py"), "holds no Study"),
        (TWO_STUDIES,
         ("study", "run", "bad.py"), "several studies: name one, as bad.py:S"),
        ("x = 1\ny = = 2", ("study", "run", "bad.py"), "line 2: SyntaxError"),
        ("x = 1\n1 / 0", ("study", "run", "bad.py"), "line 2: ZeroDivisionError"),
        (NO_METHODS, ("train", "bad.py:K"), "lacks begin, act"),
        ("x = 1", ("train", "bad.py:x"), "is no agent"),
        ("x = 1", ("train", "bad.py:y"), "has no 'y'"),
        ("", ("train", "c51", "--env", "my_games.py:continuous"), "Discrete"),
        ("", ("train", "c51", "--env", "gymnasium/Pendulum-v1"), "Discrete"),
        ("", ("train", "c51", "--env", "gymnasium/CartPol-v1"), "CartPole-v1"),
    ],
)  # fmt: skip
def test_bad_files_get_one_clear_sentence(bnmodes, folder, source, arguments, words):
    (folder / "bad.py").write_text(source)
    code, said = bnmodes(folder, *arguments)
    assert code == 2, said
    assert words in said
    assert "Traceback" not in said
    assert said.count("\n") == 1
