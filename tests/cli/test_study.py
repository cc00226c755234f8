"""The study commands, on a study of seconds put into the registry."""

import importlib.util
import json
import os
import re

import polars as pl
import pytest

from bnmodes.analysis.figures.curves import draw_curves
from bnmodes.analysis.paper_figures import PAPER_FIGURES, PaperFigure
from bnmodes.cli import study_catalog
from bnmodes.cli.study import Report, Run
from bnmodes.errors import UsageError
from bnmodes.runs.loop import train
from bnmodes.runs.spec import EvaluationSettings
from bnmodes.studies import estimate, registry
from bnmodes.studies.launch.worker_command import WorkerCommand, WorkerOptions
from bnmodes.studies.results import run_path
from helpers.finished import mark_finished
from helpers.small_study import small_study

# Random evaluation games, because untrained greedy ones may all return 0, which divides nothing.
STUDY = small_study(
    games=("minatar/breakout",),
    total_decisions=400,
    evaluation=EvaluationSettings(every_decisions=200, episodes=20, epsilon=1.0),
)


@pytest.fixture(autouse=True)
def _in_the_registry(monkeypatch):
    monkeypatch.setitem(registry.STUDIES, "small", STUDY)


def test_the_way_from_a_study_to_its_page(run, tmp_path, monkeypatch):
    root = tmp_path / "results"
    code, out, _ = run("study", "run", "small", "--seeds", 0, "--out", root)
    assert code == 0
    assert "note: With 1 game and 2 seeds no test can show a difference" in out, "of all seeds"
    assert "all 2 runs of small are done" in out

    code, out, _ = run("study", "run", "small", "--seeds", 0, "--arms", "bn batch", "--out", root)
    assert code == 0, "an arm without the reference"
    assert f"--arms 'bn batch' --seeds 0 --out {root}`" in out

    code, out, _ = run("study", "status", "small", "--out", root)
    assert code == 0
    assert [line.split()[-4:] for line in out.splitlines()[1:]] == [["1", "0", "0", "1"]] * 2

    code, out, err = run("study", "report", "small", "--out", root)
    assert code == 2
    assert "--allow-missing" in err
    code, out, _ = run("study", "report", "small", "--out", root, "--allow-missing")
    assert code == 0
    assert "<html" in (root / "small.html").read_text()
    assert run("study", "report", "small", "--out", root, "--seeds", 0)[0] == 0
    assert (root / "small-part.html").exists()
    suffixes = {path.suffix for path in (root / "small-figures").iterdir()}
    assert suffixes == {".png"}
    options = ("--formats", "pdf", "svg", "--reference", "BN batch")
    code, out, _ = run("study", "report", "small", "--out", root, "--seeds", 0, *options)
    assert code == 0
    assert "in percent of BN batch" in out or "raw return" in out
    assert "one seed has no intervals" in (root / "small-part.html").read_text()
    suffixes = {path.suffix for path in (root / "small-part-figures").iterdir()}
    assert suffixes == {".png", ".pdf", ".svg"}

    one_seed = (STUDY.restricted(seeds=[0]),)
    monkeypatch.setitem(PAPER_FIGURES, 10, PaperFigure("Curves", one_seed, draw_curves))
    code, out, _ = run("figure", 10, "--out", root)
    assert code == 0
    assert "figure 10. Curves." in out
    assert (root / "figure-10.png").read_bytes().startswith(b"\x89PNG")
    assert run("figure", 10, "--out", root, "--to", tmp_path / "f.svg")[0] == 0
    assert (tmp_path / "f.svg").read_text().startswith("<?xml")

    words = ("bn batch", "minatar/breakout")
    film = ("--out", root, "--to", tmp_path / "film.gif", "--max-decisions", 3)
    code, out, _ = run("watch", "small", *words, 0, *film)
    assert (code, "3 decisions, return" in out) == (0, True)
    code, _, err = run("watch", "small", *words, 1, *film)
    assert (code, "BN batch on minatar/breakout, seed 1, is not in" in err) == (2, True)
    code, _, err = run("watch", "small", *words, *film)
    assert (code, "STUDY ARM GAME SEED" in err) == (2, True)

    code, out, _ = run("study", "export", "small", "--out", root, "--to", tmp_path / "r.parquet")
    assert code == 0
    assert "2 of 4 declared runs are missing" in out
    assert "missing: BN batch on minatar/breakout, seed 1" in out
    assert pl.read_parquet(tmp_path / "r.parquet").columns == [
        "study", "run", "agent", "arm", "game", "seed", "metric", "decision", "frame", "value",
    ]  # fmt: skip
    assert "cannot tell" in run("study", "power", "small", "--out", root)[1]  # of one seed
    runs = pl.read_parquet(tmp_path / "r-runs.parquet")
    assert runs["run"].to_list() == [run.spec.content_hash for run in STUDY.runs if run.seed == 0]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ((13,), "the paper has no figure 13"),
        ((1, "--to", "x.gif"), "must end in .png"),
        ((1, "--arms", "LL"), "no study of this figure has an arm 'LL'"),
        ((1, "--allow-missing"), "`bnmodes study run paper-a` and `bnmodes study run paper-b`"),
    ],
)
def test_a_figure_that_cannot_be_drawn_is_a_clear_error(run, tmp_path, options, said):
    code, _, err = run("figure", *options, "--out", tmp_path)
    assert code == 2
    assert said in err


def test_clean_deletes_only_what_is_half_done_and_only_when_told(run, tmp_path):
    finished, half = (run_path(tmp_path, r) for r in STUDY.runs[:2])
    for path in (finished, half):
        path.mkdir(parents=True)
        (path / "metrics.jsonl").write_text("")
    mark_finished(finished)
    code, out, _ = run("study", "clean", "small", "--out", tmp_path)
    assert code == 0
    assert "would delete: C51 on minatar/breakout, seed 1" in out
    assert half.exists()
    run("study", "clean", "small", "--out", tmp_path, "--yes")
    assert not half.exists()
    assert finished.exists()
    assert "nothing is half-done" in run("study", "clean", "small", "--out", tmp_path)[1]


@pytest.mark.parametrize(
    ("choice", "kept"), [("all", [True, True]), ("last-seed", [False, True]), ("none", [False] * 2)]
)
def test_networks_are_kept_by_choice_of_seeds(choice, kept, tmp_path):
    seeds = Run(name="small", seeds=(0,), keep_networks=choice).network_seeds()
    options = WorkerOptions(network_seeds=seeds)
    runs = STUDY.restricted(arms=["C51"]).runs
    commands = [WorkerCommand.of(each, tmp_path, tmp_path, options) for each in runs]
    assert [json.loads(each.task_json)["keep_networks"] for each in commands] == kept


def test_an_arm_to_test_against_adds_no_pair_that_is_declared_already():
    demo = registry.STUDIES["demo"]
    pairs = Report(name="demo", against="BN batch").contrasts(demo)
    assert len(pairs) == len({frozenset(pair) for pair in pairs})
    assert {frozenset(pair) for pair in pairs} >= {
        frozenset((arm.name, "BN batch")) for arm in demo.arms if arm.name != "BN batch"
    }


def test_show_tells_size_sharing_and_time(run, monkeypatch):
    monkeypatch.setattr(estimate, "_WARM_UP_SECONDS", 0.1)
    monkeypatch.setattr(estimate, "_MEASURE_SECONDS", 0.1)
    for name in set(registry.STUDIES) - {"small", "paper-a", "paper-b"}:  # thousands of runs
        monkeypatch.delitem(registry.STUDIES, name)
    _, out, _ = run("study", "show", "small")
    assert "4 runs of 400 decisions, 1,600 in all" in out
    assert re.search(r"^time   about [\d:]+ on one core here[,.]", out, re.MULTILINE)
    assert "note   With 1 game and 2 seeds no test can show a difference" in out
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0})
    (time,) = re.findall("^time .*", run("study", "show", "small")[1], re.MULTILINE)
    assert len(re.findall(r"\d+:\d\d", time)) == 1, "on one core the time is told once"
    assert re.search(r"disk up to \d+ MB for", out), "a small size is not 0.0 GB"
    _, out, _ = run("study", "show", "paper-a", "--no-estimate")
    assert "memory 8.7 GB a process" in out
    assert "546 runs" in out
    assert "234 with paper-b" in out
    _, out, _ = run("study", "list")
    assert "2340" in out


def test_show_tells_all_else_before_it_measures(run, monkeypatch):
    def stop(study):
        raise UsageError("measuring takes long.")

    monkeypatch.setattr(study_catalog, "estimate_seconds", stop)
    code, out, _ = run("study", "show", "small")
    assert (code, "memory" in out) == (2, True)


def test_a_finished_run_with_torn_metrics_is_a_sentence_that_helps(run, tmp_path):
    study = STUDY.restricted(seeds=[0])
    for a_run in study.runs:
        train(a_run.spec, run_path(tmp_path, a_run), show_progress=False)
    metrics = run_path(tmp_path, study.runs[0]) / "metrics.jsonl"
    whole = metrics.read_bytes()
    for torn in (whole[:-20], b"\xff" + whole):
        metrics.write_bytes(torn)
        code, out, _ = run("study", "report", "small", "--seeds", 0, "--out", tmp_path)
        assert code == 2
        assert f"{metrics} is not what it was when the run finished" in out
        code, out, _ = run(
            "study", "export", "small", "--seeds", 0, "--out", tmp_path, "--to", tmp_path / "x.csv"
        )
        assert code == 0, "the other run is whole"
        assert f"{metrics} is not what it was when the run finished" in out
    metrics.write_bytes(whole)
    (metrics.parent / "spec.json").write_text("")
    code, out, _ = run("study", "report", "small", "--seeds", 0, "--out", tmp_path)
    assert code == 2
    assert "spec.json is not what it was" in out


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["run", "quick-c15"], "did you mean 'quick-c51'?"),
        (["run", "small", "--arms", "BN"], "no arm 'BN' (did you mean 'BN batch'?)"),
        (["run", "small", "--games", "atari/Pong"], "no game 'atari/Pong'"),
        (["run", "small", "--seeds", "9"], "no seed '9'"),
        (["run", "small", "--jobs", "-1"], "at least 0"),
        (["status", "small", "--out", "nowhere"], "holds no results"),
        (["report", "small", "--out", "nowhere"], "holds no results"),
        (["export", "small", "--out", "nowhere"], "holds no results"),
        (["clean", "small", "--out", "nowhere"], "holds no results"),
        (["run", "small", "--checkpoint-minutes", "-1"], "must be 0 or more"),
        (["run", "small", "--partition", "gpu"], "--partition belongs to --launcher slurm, not"),
        (["run", "small", "--launcher", "ray", "--time", "60"], "--time belongs to"),
        (["run", "small", "--runs-per-job", "2"], "--launcher slurm or --launcher ray, not to"),
        (["run", "small", "--launcher", "slurm", "--address", "auto"], "--launcher ray, not to"),
        (["run", "small", "--launcher", "slurm", "--runs-per-job", "0"], "must be at least 1"),
        (["run", "small", "--launcher", "slurm", "--memory-gb", "-1"], "must be at least 0"),
        (
            ["run", "small", "--launcher", "slurm", "--time", "a day"],
            "write minutes, or D-",
        ),
        (["run", "small", "--launcher", "ray", "--gpus-per-job", "3"], "must be a multiple"),
        (["run", "small", "--launcher", "ray", "--gpus-per-job", "1"], "others neither"),
        (["run", "small", "--launcher", "slurm", "--device", "cuda"], "others neither"),
        (["run", "small", "--launcher", "slurm", "--device", "gpu"], "'gpu' is unknown"),
        (["run", "small", "--launcher", "slurm", "--device", "cuda:1"], "give --device cuda,"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(run, args, words):
    code, _, err = run("study", *args)
    assert code == 2
    assert words in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(("launcher", "engine"), [("slurm", "submitit"), ("ray", "ray")])
def test_a_launcher_without_its_engine_names_the_extra(run, monkeypatch, launcher, engine):
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == engine else find(name)
    )
    code, _, err = run("study", "run", "small", "--launcher", launcher)
    assert code == 2
    assert f"needs {engine}, which is not installed: pip install 'bnmodes[{launcher}]'" in err
    assert err.count("\n") == 1


def test_a_failed_run_ends_with_code_1_and_the_end_of_its_log(run, tmp_path):
    taken, other = run_path(tmp_path, STUDY.runs[0]), STUDY.runs[1].spec.to_json()
    taken.mkdir(parents=True)
    (taken / "spec.json").write_text(json.dumps({"spec": other}))
    (taken / "metrics.jsonl").write_text("")
    code, out, _ = run("study", "run", "small", "--out", tmp_path, "--seeds", 0)
    assert code == 1
    assert "C51 on minatar/breakout, seed 0 failed and is left: it was refused" in out
    assert "seed is 1 there, 0 here" in out
