"""What `bnmodes bench` measures: right shares and counts; never how fast."""

import json
import sys
import time
from types import SimpleNamespace

import pytest
import torch

from bnmodes.bench import results
from bnmodes.bench.bare import bare_c51, bare_pqn
from bnmodes.bench.cases import CASES, Case
from bnmodes.bench.measure import Stopwatch, Work, _flops_per_cycle, measure
from bnmodes.cli.bench import bench_command
from bnmodes.errors import UsageError
from bnmodes.execution import has_compiler

SMALL = {
    "pqn": {"num_envs": 8, "test_envs": 2, "rollout_steps": 4, "minibatches": 4},
    "c51": {"updates_per_decision": 1.0},
}


def test_the_watch_gives_each_part_its_own_time():
    watch = Stopwatch()
    work = SimpleNamespace(inner=lambda: time.sleep(0.02))
    work.act = lambda: work.inner()
    work.outer = lambda: (time.sleep(0.02), work.inner())
    with (
        watch.on(work, "inner", "in"),
        watch.on(work, "outer", "out"),
        watch.on(work, "act", "act"),
    ):
        work.outer()
        work.act()
    assert watch.seconds.keys() == {"in", "out", "act"}
    for seconds in watch.seconds.values():
        assert 0.02 <= seconds < 0.04
    work.inner()
    assert watch.seconds["in"] < 0.04  # no longer watched


COMPILED = pytest.param(
    *("c51", "bn-batch", True),
    marks=[
        pytest.mark.slow,
        pytest.mark.skipif(not has_compiler(), reason="no g++ for torch.compile"),
    ],
)


@pytest.mark.parametrize(
    ("agent", "arm", "compiled"),
    [("c51", "bn-batch", False), ("pqn", "ln", False), ("td3", "none", False), COMPILED],
)
def test_a_measurement_is_complete_and_its_shares_are_a_whole(agent, arm, compiled):
    case = Case(agent, arm, "minatar/breakout", SMALL.get(agent, {}), compile=compiled)
    found = measure(case, seconds=0.05)
    assert found["decisions_per_second"] > 0
    assert compiled or found["gflops"] > 0
    assert sum(found["shares"].values()) == pytest.approx(1)
    parts = {"act", "environment"} | (set() if compiled else {"backward", "optimizer"})
    assert parts <= found["shares"].keys()
    assert all(-0.05 < share < 1 for share in found["shares"].values())
    assert 0 <= found["diagnostics_share"] < 1
    assert len(results.line("name", found).splitlines()) == 1
    assert torch.autograd.grad.__module__ == "torch.autograd"


def test_counted_operations_are_those_of_the_layers():
    """A C51 update is three forwards' worth of predict (forward, and backward without the first
    layer's input gradient), one bootstrap forward and, for each decision, one acting forward."""
    work = Work(Case("c51", "none", "minatar/breakout", {"updates_per_decision": 1.0}))
    work.cycle()
    network = work.agent.networks["online"]
    convolution, dense = network.linears
    conv = 2 * 64 * convolution.weight.numel()
    others = 2 * (dense.weight.numel() + network.head.weight.numel())
    batch = work.agent.settings.batch_size
    update = batch * ((conv + others) + (2 * conv + 3 * others))
    assert _flops_per_cycle(work) == pytest.approx(update + conv + others, rel=0.02)


def test_bare_loops_run():
    bare_c51("minatar")()
    assert isinstance(bare_pqn("minatar/breakout"), type(lambda: None))


def test_ratios_of_two_results_have_their_noise():
    old = {"cases": {"a": {"decisions_per_second": 10.0, "relative_spread": 0.1}, "b": {}}}
    new = {"cases": {"a": {"decisions_per_second": 15.0, "relative_spread": 0.3}}}
    (line,) = results.compare(new, old)
    assert line.split() == ["a", "1.50×", "±", "0.30"]
    assert results.compare({"cases": {}}, old) == ["no case is in both results"]


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"cases": 3}', '{"cases": {"a": {}}}'])
def test_a_file_that_is_no_result_is_refused(tmp_path, text):
    path = tmp_path / "old.json"
    path.write_text(text)
    with pytest.raises(UsageError, match="no result"):
        results.read(path)
    path.write_text(json.dumps({"cases": {}}))
    assert results.read(path) == {"cases": {}}


@pytest.mark.parametrize("place", [".", "nowhere/bench.json"])
def test_a_place_that_cannot_be_written_is_refused_before_anything_is_measured(tmp_path, place):
    with pytest.raises(UsageError, match="--out"):
        bench_command(["--quick", "--out", str(tmp_path / place)])


def test_a_case_that_dies_says_how(monkeypatch):
    monkeypatch.setattr(sys, "executable", "false")
    assert results._in_own_process(CASES[0], seconds=1.0) == "ended with code 1"


def test_a_case_that_fails_is_named_and_the_others_are_kept(tmp_path, monkeypatch, capsys):
    good = {
        "decisions_per_second": 1.0,
        "relative_spread": 0.0,
        "seconds_to_first_update": 1.0,
        "peak_memory_gb": 1.0,
        "shares": {"other": 1.0},
        "diagnostics_share": 0.0,
    }
    monkeypatch.setattr(
        results, "run_cases", lambda quick: iter([(CASES[0], "no memory"), (CASES[1], good)])
    )
    monkeypatch.setattr("bnmodes.bench.bare.ratios", lambda rounds: {})
    with pytest.raises(UsageError, match=f"^{CASES[0].name} could not be measured"):
        bench_command(["--out", str(tmp_path / "bench.json")])
    assert "no memory" in capsys.readouterr().err
    assert json.loads((tmp_path / "bench.json").read_text())["cases"] == {CASES[1].name: good}


def test_cases_have_names_of_their_own():
    assert len({case.name for case in CASES}) == len(CASES)
    assert any(case.quick for case in CASES)
