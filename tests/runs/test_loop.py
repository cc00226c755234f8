import json
import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from bnmodes.errors import UsageError
from bnmodes.runs import checkpoint
from bnmodes.runs import loop as run_module
from bnmodes.runs.folder import RunFolder
from bnmodes.runs.loop import Loop, train
from bnmodes.runs.progress import Progress
from bnmodes.runs.spec import EvaluationSettings, spec_from_json
from bnmodes.runs.stopping import Stopped
from helpers.run_specs import make_spec


def result(folder: Path) -> tuple[str, dict]:
    return (folder / "metrics.jsonl").read_text(), RunFolder(folder).networks()[0]


def same_result(a: Path, b: Path) -> bool:
    (metrics_a, networks_a), (metrics_b, networks_b) = result(a), result(b)
    return metrics_a == metrics_b and all(
        torch.equal(networks_a[name][key], networks_b[name][key])
        for name in ("online", "target")
        for key in networks_a[name]
    )


@pytest.mark.parametrize(
    ("env", "arm"),
    [
        ("minatar/breakout", "bn-tracked"),
        ("minatar/asterix", "bn-wn"),
        ("minatar/space_invaders", "ln"),
        ("probe/chain", "bn-batch"),
    ],
)
def test_stopped_and_resumed_equals_never_stopped_bit_for_bit(env, arm, tmp_path, train_in_parts):
    spec = make_spec(env, arm)
    train(spec, tmp_path / "whole")
    train_in_parts(spec, tmp_path / "parts", (40, 150, 151, 333))
    assert same_result(tmp_path / "whole", tmp_path / "parts")


def test_several_environments_resume_bit_for_bit_too(tmp_path, train_in_parts):
    spec = make_spec(num_envs=4)
    train(spec, tmp_path / "whole")
    train_in_parts(spec, tmp_path / "parts", [200])
    assert same_result(tmp_path / "whole", tmp_path / "parts")


def test_progress_names_what_takes_the_time_and_begins_where_the_run_does(
    tmp_path, stop_at, monkeypatch
):
    told: list[tuple[str, int]] = []

    def phase(progress, name):
        told.append((name, progress.decision))

    monkeypatch.setattr(Progress, "phase", phase)
    spec = make_spec()
    stop_at(200)
    with pytest.raises(Stopped):
        train(spec, tmp_path / "run")
    assert told[:2] == [("starting games", 0), ("", 0)]
    assert ("evaluating", 150) in told
    told.clear()
    train(spec, tmp_path / "run")
    assert told[:2] == [("starting games", 200), ("", 200)]


def test_a_stop_during_an_evaluation_keeps_the_run_and_evaluates_again(tmp_path, monkeypatch):
    spec = make_spec()
    train(spec, tmp_path / "whole")
    original = run_module.play_games

    def interrupted(*args, **kwargs):
        os.kill(os.getpid(), signal.SIGINT)
        return original(*args, **kwargs)

    monkeypatch.setattr(run_module, "play_games", interrupted)
    with pytest.raises(Stopped) as stopped:
        train(spec, tmp_path / "parts")
    assert stopped.value.decision == 150
    monkeypatch.setattr(run_module, "play_games", original)
    train(spec, tmp_path / "parts")
    assert same_result(tmp_path / "whole", tmp_path / "parts")


@pytest.mark.slow
def test_a_run_killed_at_random_moments_ends_with_the_undisturbed_result(tmp_path):
    """SIGKILL: nothing can be saved then; the last checkpoint and the metrics so far remain."""
    spec = make_spec(total_decisions=1200)
    train(spec, tmp_path / "whole")
    code = (
        f"import json, sys, torch; torch.set_num_threads({torch.get_num_threads()});"
        "from pathlib import Path;"
        "from bnmodes.runs.loop import train;"
        "from bnmodes.runs.spec import spec_from_json;"
        "train(spec_from_json(json.loads(sys.argv[1])), Path(sys.argv[2]),"
        "      checkpoint_minutes=0.02 / 60)"
    )
    command = [sys.executable, "-c", code, json.dumps(spec.to_json()), str(tmp_path / "parts")]
    dice, kills = random.Random(0), 0
    while not RunFolder(tmp_path / "parts").finished:
        process = subprocess.Popen(command)
        metrics = tmp_path / "parts" / "metrics.jsonl"
        size = metrics.stat().st_size if metrics.exists() else 0
        while process.poll() is None and (not metrics.exists() or metrics.stat().st_size <= size):
            time.sleep(0.01)
        if kills < 3:
            time.sleep(dice.random() * 0.5)
            process.kill()
            kills += 1
        assert process.wait() in (0, -signal.SIGKILL)
    assert same_result(tmp_path / "whole", tmp_path / "parts")


def test_a_finished_run_is_left_alone(tmp_path, monkeypatch):
    spec = make_spec(total_decisions=60)
    train(spec, tmp_path)
    files = {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*") if p.name != "lock"}
    monkeypatch.setattr(Loop, "start", lambda self: pytest.fail("it began again"))
    train(spec, tmp_path)
    assert {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*") if p.name != "lock"} == files


def test_a_finished_run_keeps_its_networks_and_not_its_replay(tmp_path):
    train(make_spec(total_decisions=60), tmp_path)
    assert not (tmp_path / "checkpoints").exists()
    assert RunFolder(tmp_path).networks()[0].keys() == {"online", "target"}


def test_networks_that_were_not_kept_are_said_to_be(tmp_path):
    train(make_spec(total_decisions=60), tmp_path, keep_networks=False)
    assert RunFolder(tmp_path).finished
    assert not (tmp_path / "final").exists()
    with pytest.raises(UsageError, match="not kept"):
        RunFolder(tmp_path).networks()


def test_a_damaged_checkpoint_falls_back_to_the_one_before_and_says_so(tmp_path, stop_at, capsys):
    spec = make_spec()
    train(spec, tmp_path / "whole")
    for decision in (100, 200):
        stop_at(decision)
        with pytest.raises(Stopped):
            train(spec, tmp_path / "parts")
    newest = max((tmp_path / "parts" / "checkpoints").iterdir(), key=lambda p: int(p.name))
    largest = max(newest.iterdir(), key=lambda p: p.stat().st_size)
    largest.write_bytes(largest.read_bytes()[:-10])
    stop_at(None)
    train(spec, tmp_path / "parts")
    said = capsys.readouterr().err
    assert "damaged" in said
    assert "going on from decision 100" in said
    assert same_result(tmp_path / "whole", tmp_path / "parts")


def test_after_a_fallback_the_good_checkpoint_outlives_the_next_save(tmp_path, stop_at):
    spec = make_spec()
    for decision in (100, 200):
        stop_at(decision)
        with pytest.raises(Stopped):
            train(spec, tmp_path)
    first, second = sorted((tmp_path / "checkpoints").iterdir())
    (second / "complete.json").write_text("{}")
    stop_at(150)
    with pytest.raises(Stopped):
        train(spec, tmp_path)
    kept = sorted((tmp_path / "checkpoints").iterdir())
    assert kept[0] == first
    assert len(kept) == 2


def test_metrics_shorter_than_their_checkpoint_are_not_padded(tmp_path, stop_at):
    stop_at(200)
    with pytest.raises(Stopped):
        train(make_spec(), tmp_path)
    metrics = tmp_path / "metrics.jsonl"
    metrics.write_text(metrics.read_text()[:50])
    with pytest.raises(UsageError, match="shorter than its checkpoint"):
        train(make_spec(), tmp_path)
    assert len(metrics.read_text()) == 50


def test_a_folder_where_nothing_has_begun_may_be_taken(tmp_path):
    with RunFolder(tmp_path).claimed(make_spec(seed=1)):
        pass
    train(make_spec(total_decisions=30), tmp_path)
    assert RunFolder(tmp_path).spec().seed == 0


@pytest.mark.parametrize("text", ["", "nonsense", '{"spec": "x"}', '{"spec": {}}', "\udcff"])
def test_a_damaged_spec_is_one_sentence(tmp_path, text):
    (tmp_path / "spec.json").write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(UsageError, match=r"damaged|another version"):
        RunFolder(tmp_path).spec()


def test_metrics_hold_what_is_promised_and_a_torn_line_is_mended(tmp_path, stop_at):
    spec = make_spec()
    stop_at(195)
    with pytest.raises(Stopped):
        train(spec, tmp_path)
    with open(tmp_path / "metrics.jsonl", "a") as file:
        file.write('{"kind": "train", "deci')
    assert RunFolder(tmp_path).metrics()[-1]["decision"] == 180
    train(spec, tmp_path)
    rows = RunFolder(tmp_path).metrics()
    training = [row for row in rows if row["kind"] == "train"]
    assert [row["decision"] for row in training] == list(range(30, 400, 30))
    assert training[-1].keys() >= {
        "frame", "games", "return", "loss", "predict_max_q", "bootstrap_max_q",
        "epsilon", "learning_rate", "updates",
    }  # fmt: skip
    assert "loss" not in training[0], "there was no update before decision 50"
    evaluation = [row for row in rows if row["kind"] == "evaluation"]
    assert [row["decision"] for row in evaluation] == [150, 300, 400]
    assert all(len(row["returns"]) == 3 for row in evaluation)


def test_the_papers_evaluation_grid():
    grid = EvaluationSettings().grid(1_250_000)
    assert grid == [*range(100_000, 1_200_001, 100_000), 1_250_000]
    assert EvaluationSettings(every_decisions=50).grid(100) == [50, 100]
    assert EvaluationSettings(every_decisions=500).grid(100) == [100]


def test_evaluation_leaves_training_as_it_is(tmp_path):
    spec = make_spec()
    often = replace(
        spec, evaluation=EvaluationSettings(every_decisions=20, episodes=2, epsilon=0.5)
    )
    train(spec, tmp_path / "seldom")
    train(often, tmp_path / "often")
    rows = [
        [row for row in RunFolder(tmp_path / name).metrics() if row["kind"] == "train"]
        for name in ("seldom", "often")
    ]
    assert rows[0] == rows[1]


def test_the_seed_decides_everything(tmp_path):
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        train(make_spec(total_decisions=150, seed=seed), tmp_path / name)
    assert same_result(tmp_path / "a", tmp_path / "b")
    assert not same_result(tmp_path / "a", tmp_path / "c")


def test_a_folder_of_another_spec_is_refused_and_kept(tmp_path):
    train(make_spec(total_decisions=60), tmp_path / "run")
    before = result(tmp_path / "run")[0]
    with pytest.raises(UsageError, match=r"holds another run.*seed is 0 there, 1 here"):
        train(make_spec(total_decisions=60, seed=1), tmp_path / "run")
    assert result(tmp_path / "run")[0] == before
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "thesis.txt").write_text("mine")
    with pytest.raises(UsageError, match="holds other files"):
        train(make_spec(total_decisions=60), tmp_path / "notes")


def test_two_processes_cannot_train_in_one_folder(tmp_path):
    spec = make_spec(total_decisions=60)
    folder = RunFolder(tmp_path)
    with folder.claimed(spec), pytest.raises(UsageError, match="another process"):
        train(spec, tmp_path)
    assert not folder.metrics_path.exists()
    train(spec, tmp_path)
    assert folder.finished


def test_a_spec_survives_its_file_and_its_hash_is_its_content(tmp_path):
    spec = make_spec()
    again = spec_from_json(json.loads(json.dumps(spec.to_json())))
    assert again == spec
    assert again.content_hash == spec.content_hash
    assert replace(spec, seed=1).content_hash != spec.content_hash
    train(replace(spec, total_decisions=30), tmp_path)
    described = json.loads((tmp_path / "spec.json").read_text())
    assert described["versions"]["torch"] == torch.__version__
    assert described["protocol"]["bootstrap"]["track"] == 0.1


def test_a_checkpoint_of_a_run_has_everything_its_next_step_depends_on(tmp_path, stop_at):
    stop_at(200)
    with pytest.raises(Stopped):
        train(make_spec(), tmp_path)
    state = checkpoint.load(tmp_path).tree
    assert state["agent"].keys() >= {
        "networks", "optimizers", "replay", "action_stream", "replay_stream", "decisions",
        "updates",
    }  # fmt: skip
    for network in state["agent"]["networks"].values():
        assert any(name.endswith("variance") for name in network)
    assert state["env"]["envs"]
