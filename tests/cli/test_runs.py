import importlib.metadata
import json
import re
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image

from bnmodes import plugins
from bnmodes.envs.minatar import minatar_vector as minatar
from bnmodes.runs.folder import RunFolder

SHORT = [
    "train", "c51", "--total-decisions", "60", "--learning-starts-decisions", "20",
    "--evaluation.episodes", "2", "--evaluation.epsilon", "0.5", "--record-every-decisions", "20",
]  # fmt: skip


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--env", "minatar/brekout"], "minatar/breakout"),
        (["--env", "atari/Pongg"], "atari/Pong"),
        (["--env", "breakout"], "bnmodes env list"),
        (["--arm", "bn"], "choose one of none, ln"),
        (["--learning-rat", "0.1"], "--learning-rate"),
        (["--learning-rate", "fast"], "--learning-rate"),
        (["--total-decisions", "-5"], "at least 1"),
        (["--seed", "-1"], "at least 0"),
        (["--evaluation.episodes", "0"], "at least 1"),
        (["--protocol.act.statistics", "batch"], "one row"),
        (["--protocol.bootstrap.track", "0.1"], "use running statistics"),
        (["--protocol.predict.update", "2"], "Error parsing --protocol.predict.update: update"),
        (["--protocol.bootstrap.track", "quick", "--arm", "bn-tracked"], "no update weight"),
        (["--batch-size", "0"], "at least 1"),
        (["--updates-per-decision", "inf"], "finite"),
        (["--norm.bn-epsilon", "-1"], "above 0"),
        (["--arm", "bn-batch", "--protocol.bootstrap.track", "0.1"], "use running statistics"),
        (["--arm"], "--arm"),
        (["--threads", "-1"], "must be 0 to"),
        (["--threads", "100000"], "the cores here"),
        (["--total-decisions", "9" * 40], "between 1 and 1,000,000,000,000"),
        (["--replay-capacity", "9" * 20], "between"),
        (["--atoms", "1" + "0" * 11], "memory of cpu is full"),
        (["--device", "cuda:" + "9" * 20], "choose cpu, cuda or cuda:N"),
        (["--checkpoint-minutes", "-1"], "above 0"),
        (["--checkpoint-minutes", "nan"], "above 0"),
    ],
)
def test_bad_options_get_a_short_message_and_exit_code_2(run, tmp_path, args, words):
    code, out, err = run(*SHORT, *args, "--out", tmp_path / "x")
    assert code == 2
    assert words in " ".join((out + err).replace("│", " ").split())
    assert "Traceback" not in out + err
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["trian", "c51"], "did you mean 'bnmodes train'?"),
        (["explain", "nowhere"], "holds no run"),
        (["watch", "nowhere"], "holds no run"),
        (["plot", "nowhere"], "holds no run"),
        (["frobnicate"], "is no command"),
        (["explain"], "say what to explain"),
    ],
)
def test_bad_commands_get_one_sentence_and_exit_code_2(run, args, words):
    code, _, err = run(*args)
    assert code == 2
    assert words in err
    assert err.count("\n") == 1


@pytest.mark.parametrize("out", ["/proc/x", "file/x"])
def test_a_folder_that_cannot_be_made_is_one_sentence(run, tmp_path, monkeypatch, out):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("")
    code, _, err = run(*SHORT, "--out", out)
    assert code == 2
    assert "Traceback" not in err


def test_a_replay_larger_than_memory_is_one_sentence_and_the_folder_stays_free(run, tmp_path):
    code, _, err = run(*SHORT, "--replay-capacity", 10**12, "--out", tmp_path / "x")
    assert code == 2
    assert "the memory of cpu is full" in err
    assert not (tmp_path / "x").exists()
    assert run(*SHORT, "--out", tmp_path / "x")[0] == 0


def test_brackets_in_a_path_are_only_brackets(run, tmp_path):
    code, out, _ = run(*SHORT, "--out", tmp_path / "[red]x[/y]")
    assert code == 0
    assert "[red]x[/y]" in out


def test_an_arm_that_options_change_says_so(run, tmp_path):
    run(*SHORT, "--arm", "bn-batch", "--protocol.bootstrap.statistics", "running",
        "--out", tmp_path / "x")  # fmt: skip
    assert RunFolder(tmp_path / "x").spec().arm == "bn-batch-changed"
    assert run("plot", tmp_path / "x", "--to", tmp_path / "c.png")[0] == 0


def test_a_run_too_short_to_learn_says_so(run, tmp_path):
    _, _, err = run("train", "c51", "--total-decisions", "50", "--evaluation.episodes", "1",
                    "--out", tmp_path / "x")  # fmt: skip
    assert "learning starts at decision 5,000" in err


def test_a_folder_of_another_run_is_refused(run, tmp_path):
    assert run(*SHORT, "--out", tmp_path / "x")[0] == 0
    code, _, err = run(*SHORT, "--seed", "7", "--out", tmp_path / "x")
    assert code == 2
    assert "holds another run" in err


@pytest.mark.parametrize("game", ["nope", "broken", "continuous"])
@pytest.mark.parametrize("how", [(), ("--json",)])
def test_explain_looks_at_the_game_before_it_prints(run, tmp_path, monkeypatch, game, how):
    monkeypatch.setattr(plugins, "_loaded", {})
    (tmp_path / "games.py").write_text(
        "import gymnasium\n"
        "def broken(): raise ValueError('no such level')\n"
        "def continuous(): return gymnasium.make('Pendulum-v1')\n"
    )
    code, out, err = run("explain", "c51", "--env", f"{tmp_path / 'games.py'}:{game}", *how)
    assert (code, out) == (2, "")
    assert err.count("\n") == 1


def test_the_end_of_training_tells_test_games_first_and_what_evaluations_are_normalised_with(
    run, tmp_path
):
    quickly = ("--num-envs", 8, "--test-envs", 4, "--rollout-steps", 4, "--minibatches", 2)
    short = ("--total-decisions", 2_000, "--evaluation.episodes", 2)
    _, out, _ = run("train", "pqn", "--arm", "bn-batch", *quickly, *short, "--out", tmp_path / "b")
    rows = RunFolder(tmp_path / "b").metrics()
    (*_, test) = (row["return"] for row in rows if row["kind"] == "test" and "return" in row)
    (*_, evaluation) = (row["return"] for row in rows if row["kind"] == "evaluation")
    assert (
        f"mean return of the test environments' last games: {test:.2f}; of 2 evaluation games "
        f"(with batch statistics of their 2 rows only): {evaluation:.2f}. See"
    ) in out
    _, out, _ = run(*SHORT, "--arm", "bn-batch", "--out", tmp_path / "c51")
    assert re.search(r"; mean return of \d+ evaluation games: [0-9.]+\. See", out)


def test_the_way_from_training_to_a_film(run, tmp_path):
    path = tmp_path / "x"
    code, out, err = run(*SHORT, "--env", "minatar/breakout", "--out", path)
    assert code == 0
    assert "finished 60 decisions" in out
    assert err == f"training in {path}\n", "quiet where there is no terminal"
    assert "is finished: nothing to do" in run(*SHORT, "--out", path)[1]

    code, out, _ = run("explain", path)
    assert "bootstrap  target" in out
    code, out, _ = run("watch", path, "--to", tmp_path / "film.gif", "--max-decisions", 30)
    assert code == 0
    with Image.open(tmp_path / "film.gif") as film:
        assert 2 <= film.n_frames <= 31
    code, _, _ = run("plot", path, "--to", tmp_path / "curve.png")
    assert code == 0
    with Image.open(tmp_path / "curve.png") as curve:
        assert curve.width > 500


def test_a_run_without_out_is_named_by_what_it_is(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run(*SHORT, "--arm", "ln", "--seed", "3")
    (folder,) = (tmp_path / "runs").iterdir()
    assert folder.name.startswith("minatar-breakout_c51_ln_seed3_")
    assert RunFolder(folder).spec().content_hash in folder.name


def test_the_game_decides_the_defaults_and_options_override_them(run, tmp_path):
    code, out, _ = run("train", "c51", "--env", "atari/pong", "--help")
    assert code == 0
    text = " ".join(out.replace("│", " ").split())
    assert "--target-period-decisions INT" in text
    assert "(default: 10000)" in text
    assert "(default: 1250000)" in text
    _, out, _ = run("train", "c51", "--help")
    assert "(default: 1000)" in " ".join(out.replace("│", " ").split())
    run(*SHORT, "--arm", "bn-wn", "--projection.granularity", "layer", "--out", tmp_path / "x")
    config = RunFolder(tmp_path / "x").spec().settings
    assert config.projection.granularity == "layer"
    assert RunFolder(tmp_path / "x").spec().arm == "bn-wn-changed"
    assert config.learning_rate_schedule == "linear"


def test_help_says_meaning_and_default_of_every_option(run):
    _, out, _ = run("train", "c51", "--help")
    text = " ".join(out.replace("│", " ").split())
    options = set(re.findall(r"--[a-z][a-z.-]+", text)) - {"--help"}
    switched_off = {option for option in options if ".no-" in option or option.startswith("--no-")}
    assert len(options) > 40
    assert text.count("(default:") == len(options - switched_off)


def test_flax_momentum_is_accepted(run):
    weights = ("--protocol.bootstrap.track", "flax:0.9", "--protocol.predict.update", "flax:0.999")
    code, out, _ = run("explain", "c51", "--arm", "bn-tracked", *weights, "--json")
    assert code == 0
    table = json.loads(out)
    assert table["bootstrap"]["track"] == 0.1
    assert table["predict"]["update"] == 0.001


@pytest.mark.parametrize(
    ("agent", "role", "row"),
    [
        ("td3", "bootstrap", "target      64 × replay-next-obs  none: each row alone"),
        ("mrq", "improve", "online      64 × replay-obs        none: each row alone"),
        ("mrq", "model", "online      64 × replay-obs        none: each row alone"),
        ("mrq", "model_target", "target      320 × replay-next-obs  none: each row alone"),
        ("xqc", "predict", "online      128 × joined          batch: statistics of these rows"),
        ("xqc", "bootstrap", "target      128 × joined          batch: statistics of these rows"),
        ("xqc", "improve_critic", "online      64 × replay-obs       running statistics"),
        ("xqc", "bootstrap_actor", "online      64 × replay-next-obs  running statistics"),
    ],
)
def test_explain_shows_the_actor_critics_forwards(run, agent, role, row):
    code, out, _ = run("explain", agent)
    assert code == 0
    (line,) = [line for line in out.splitlines() if line.startswith(f"{role} ")]
    assert row in line


def test_actor_critics_train_by_the_same_command(run, tmp_path):
    for agent in ("td3", "xqc", "mrq"):
        code, out, _ = run(
            "train", agent, "--total-decisions", "40", "--learning-starts-decisions", "30",
            "--evaluation.episodes", "2", "--evaluation.epsilon", "0.5", "--batch-size", "8",
            "--diagnostics.points", "1", "--out", tmp_path / agent,
            *(["--target-period-updates", "5"] if agent == "mrq" else []),
        )  # fmt: skip
        assert code == 0
        assert "finished 40 decisions" in out
    runs = [tmp_path / agent for agent in ("td3", "xqc", "mrq")]
    assert run("plot", *runs, "--to", tmp_path / "curve.png")[0] == 0
    run("train", "xqc", "--total-decisions", "20",
        "--evaluation.episodes", "2", "--evaluation.epsilon", "0.5",
        "--protocol.improve-critic.statistics", "batch", "--out", tmp_path / "y")  # fmt: skip
    assert RunFolder(tmp_path / "y").spec().arm == "bn-joined-changed"


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["td3", "--alpha", "0.1"], "alpha"),
        (["xqc", "--arm", "joined"], "choose one of bn-joined"),
        (["xqc", "--protocol.bootstrap.population", "rollout"], "this agent offers"),
        (["mrq", "--unroll-steps", "0"], "at least 1"),
    ],
)
def test_bad_options_of_actor_critics_are_refused(run, tmp_path, args, words):
    code, out, err = run("train", *args, "--out", tmp_path / "x")
    assert code == 2
    assert words in " ".join((out + err).replace("│", " ").split())
    assert "Traceback" not in out + err


def test_env_list_shows_the_games(run):
    code, out, _ = run("env", "list")
    assert code == 0
    for game in ("minatar/breakout", "atari/Pong", "atari/MsPacman", "probe/chain"):
        assert game in out


def test_the_film_ends_with_the_end_of_its_game(run, tmp_path):
    """MinAtar Breakout ends with the ball in the bottom row; a new game has it in row three."""
    run(*SHORT, "--out", tmp_path / "x")
    run("watch", tmp_path / "x", "--to", tmp_path / "film.gif")
    with Image.open(tmp_path / "film.gif") as film:
        film.seek(film.n_frames - 1)
        last = np.asarray(film.convert("RGB"))[10::20, 10::20].astype(int)
    ball = np.abs(last - minatar.PLANE_COLOURS[1]).sum(-1) < 30
    assert ball[9].any()


def test_help_of_a_group_and_the_version(run):
    code, out, _ = run("train", "--help")
    assert code == 0
    assert "c51" in out
    assert "FILE.py:NAME" in out
    assert "watch" not in out
    assert "watch" not in run("study", "--help")[1]
    assert run("--version")[1].strip() == importlib.metadata.version("bnmodes")


def test_help_without_a_command(run):
    assert "  train  " in run()[1]
    assert "  train  " in run("--help")[1]


def test_a_stopped_command_says_how_to_go_on(tmp_path):
    command = [sys.executable, "-m", "bnmodes", "train", "c51", "--out", str(tmp_path / "x")]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    while not (tmp_path / "x" / "metrics.jsonl").exists():
        assert process.poll() is None
    process.terminate()
    _, err = process.communicate()
    assert process.returncode == 130
    assert "the same command goes on from there" in err
