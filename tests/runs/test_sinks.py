import json

import pytest

from bnmodes.errors import UsageError
from bnmodes.runs.loop import train
from bnmodes.runs.sinks import open_sinks
from bnmodes.runs.stopping import Stopped
from helpers.run_specs import make_spec


def test_tensorboard_holds_the_files_numbers_once_also_after_a_resume(tmp_path, stop_at):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    spec = make_spec(total_decisions=200)
    stop_at(100)
    with pytest.raises(Stopped):
        train(spec, tmp_path, sinks=("tensorboard",))
    folder = train(spec, tmp_path, sinks=("tensorboard",))
    events = EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    losses = {event.step: event.value for event in events.Scalars("train/loss")}
    in_file = {
        row["decision"]: row["loss"]
        for row in folder.metrics()
        if row["kind"] == "train" and "loss" in row
    }
    assert losses == pytest.approx(in_file)
    assert len(events.Scalars("train/loss")) == len(in_file)


def test_weights_and_biases_works_offline(tmp_path, monkeypatch):
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    spec = make_spec(total_decisions=100)
    train(spec, tmp_path, sinks=("wandb",))
    (run,) = (tmp_path / "wandb").glob("offline-run-*")
    assert run.name.endswith(spec.content_hash)
    assert list(run.glob("*.wandb"))


def test_sinks_do_not_change_the_run(tmp_path):
    spec = make_spec(total_decisions=100)
    train(spec, tmp_path / "with", sinks=("tensorboard",))
    train(spec, tmp_path / "without")
    texts = [(tmp_path / name / "metrics.jsonl").read_text() for name in ("with", "without")]
    assert texts[0] == texts[1]
    assert json.loads(texts[0].splitlines()[0])["kind"] == "train"


def test_a_missing_package_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"pip install 'bnmodes\[wandb\]'"):
        open_sinks(("wandb",), make_spec(), tmp_path, 0)


@pytest.mark.parametrize("command", [["train", "c51"], ["study", "run", "quick"]])
def test_an_unknown_account_is_refused_before_a_folder_is_made(run, tmp_path, monkeypatch, command):
    monkeypatch.delenv("WANDB_MODE", raising=False)
    monkeypatch.setattr("wandb.login", lambda prompt: False)
    code, _, err = run(*command, "--sinks", "wandb", "--out", tmp_path / "x")
    assert code == 2
    assert (
        err
        == "bnmodes: wandb knows no account here: run `wandb login`, or set WANDB_MODE=offline.\n"
    )
    assert not (tmp_path / "x").exists()
