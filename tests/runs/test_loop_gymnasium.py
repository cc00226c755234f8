"""Gymnasium environments, and a user's own, through the whole loop: stopped, resumed, watched."""

import pytest
from PIL import Image

from bnmodes import plugins
from bnmodes.errors import UsageError
from bnmodes.runs.loop import train
from bnmodes.runs.watch import watch
from helpers.own_games import SOURCE
from helpers.run_specs import make_pqn_spec, make_spec


@pytest.fixture
def own(tmp_path, monkeypatch):
    monkeypatch.setattr(plugins, "_loaded", {})
    (tmp_path / "games.py").write_text(SOURCE)
    plugins.load(tmp_path / "games.py")


@pytest.mark.parametrize(
    ("env", "torso"),
    [
        ("gymnasium/CartPole-v1", "dense"),
        ("games.py:channels_last", "minatar"),
        ("games.py:cut_short", "minatar"),
    ],
)
@pytest.mark.parametrize("make", [make_spec, make_pqn_spec])
def test_stopped_and_resumed_equals_never_stopped_bit_for_bit(
    own, env, torso, make, tmp_path, train_in_parts
):
    settings = {"num_envs": 3} if make is make_spec else {}
    spec = make(env, arm="bn-batch", torso=torso, **settings)
    whole = train(spec, tmp_path / "whole")
    decisions = (60, 201) if make is make_spec else (60, 204)
    parts = train_in_parts(spec, tmp_path / "parts", decisions)
    metrics = [(folder.path / "metrics.jsonl").read_bytes() for folder in (whole, parts)]
    assert metrics[0] == metrics[1]
    rows = whole.metrics()
    assert sum(row["games"] for row in rows if row["kind"] == "train") > 5
    assert not [row for row in rows if row["kind"] == "resume"]


def test_games_that_the_seed_does_not_decide_begin_anew_and_are_recorded(
    own, tmp_path, train_in_parts
):
    # After ten gusts on each of eight boards it is all but impossible that no ball lies elsewhere.
    spec = make_spec("games.py:windy", torso="minatar", num_envs=8)
    folder = train_in_parts(spec, tmp_path / "run", [80])
    resumed = [row for row in folder.metrics() if row["kind"] == "resume"]
    assert [(row["decision"], row["new_games"]) for row in resumed] == [(80, 8)]


def test_an_environment_that_cannot_be_played_leaves_no_folder(tmp_path):
    spec = make_spec("gymnasium/Pendulum-v1", torso="dense")
    with pytest.raises(UsageError, match="continuous"):
        train(spec, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_pictures_and_rendered_vectors_can_be_watched(own, tmp_path):
    for env, torso, size, frames in (
        ("games.py:channels_last", "minatar", (160, 192), 12),
        ("games.py:rendered", "dense", (5, 4), 7),
    ):
        spec = make_spec(env, torso=torso, total_decisions=60)
        folder = train(spec, tmp_path / torso)
        film = watch(folder, tmp_path / f"{torso}.gif", max_decisions=100, seed=0)
        assert film.game_over
        assert film.decisions == frames - 1
        with Image.open(tmp_path / f"{torso}.gif") as image:
            width, height = size
            assert image.width >= width
            assert image.height > height, "a label stands over the picture"
