"""The examples are executed, and say what their docstrings promise."""

import runpy
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.numeric

EXAMPLES = Path(__file__).parent.parent / "examples"


@pytest.fixture
def shown(monkeypatch, capsys):
    """What an example prints, by the first line of each of its paragraphs."""

    def show(name):
        monkeypatch.setattr(sys, "path", [str(EXAMPLES), *sys.path])
        monkeypatch.setattr(sys, "argv", [name])
        runpy.run_path(str(EXAMPLES / name), run_name="__main__")
        paragraphs = capsys.readouterr().out.strip().split("\n\n")
        return {p.splitlines()[0]: p for p in paragraphs}

    return show


def test_stable_baselines3s_target_reads_stored_moments(shown):
    audits = {title.split(":")[0]: audit for title, audit in shown("sb3_audit.py").items()}
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


def test_flax_networks_are_audited_as_purejaxql_calls_them(shown):
    pytest.importorskip("jax")
    pytest.importorskip("flax")
    audits = shown("flax_audit.py")
    expected = {
        "batch_norm: act and bootstrap, train=False": ("running:", "stands alone", "nothing"),
        "batch_norm: loss, train=True": ("batch:", "depends on them", "running statistics"),
        "batch_norm: train=True without its new statistics": (
            *("batch:", "depends on them", "nothing"),
        ),
        "layer_norm: act and bootstrap, train=False": ("none:", "stands alone", "nothing"),
        # The dummy BatchNorm writes, and nothing reads what it writes.
        "layer_norm: loss, train=True": ("none:", "stands alone", "running statistics"),
        "layer_norm: train=True without its new statistics": ("none:", "stands alone", "nothing"),
    }
    assert audits.keys() == expected.keys()
    for title, (statistics, mates, writes) in expected.items():
        _, *lines = audits[title].splitlines()
        assert lines[0].startswith(f"statistics   {statistics}"), title
        assert lines[1] == f"batch-mates  each row {mates}", title
        assert lines[2] == f"writes       {writes}", title


def test_statistics_of_few_other_rows_widen_the_values_as_students_t_does(shown):
    (table,) = shown("max_q_of_a_new_network.py").values()
    rows = {line[:22].strip(): [float(x) for x in line[22:].split()] for line in table.splitlines()}
    own, pool, other = rows["own rows"], rows["1,024 other rows"], rows["n other rows"]
    assert rows["n"] == [4, 8, 32]
    assert pool == pytest.approx(own, rel=0.05), "statistics of many rows widen nothing"
    assert [a / b for a, b in zip(other, own, strict=True)] == pytest.approx(
        rows["√((n + 1) / (n − 3))"], rel=0.2
    )
    assert all(a > 1.05 * b for a, b in zip(other, own, strict=True))
    before = rows["n observations before"]
    assert all(a > 1.05 * b for a, b in zip(before, own, strict=True))
    assert max(rows["mean 0, variance 1"]) < 0.5 * min(own)
