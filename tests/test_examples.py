"""The examples are executed, and say what their docstrings promise."""

import runpy
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"


@pytest.fixture
def shown(monkeypatch, capsys):
    """What an example prints, by the first line of each of its paragraphs."""

    def show(name):
        monkeypatch.setattr(sys, "path", [str(EXAMPLES), *sys.path])
        runpy.run_path(str(EXAMPLES / name), run_name="__main__")
        paragraphs = capsys.readouterr().out.strip().split("\n\n")
        return {p.splitlines()[0].split(":")[0]: p for p in paragraphs}

    return show


def test_stable_baselines3s_target_reads_stored_moments(shown):
    audits = shown("sb3_audit.py")
    assert audits.keys() == {"predict", "bootstrap", "act"}
    assert "statistics   batch" in audits["predict"]
    assert "writes       running statistics" in audits["predict"]
    for role in ("bootstrap", "act"):
        assert "statistics   running" in audits[role]
        assert "writes       nothing" in audits[role]


def test_forward_mode_makes_its_bootstrap_use_the_batch_and_write_nothing(shown):
    (audit,) = shown("sb3_batch_bootstrap.py").values()
    assert "inside DQN.train" in audit
    assert "statistics   batch" in audit
    assert "writes       nothing" in audit
