"""A study on a real local Ray ends with the results of an undisturbed local one."""

import os
import secrets
import signal
import subprocess
from pathlib import Path

import pytest

from helpers.small_study import half_done, same_results, times_resumed
from ray_cluster import ray_cluster
from waiting import wait_for, wait_until_half_done

STUDY = ("study", "run", "small", "--seeds", 0, "--launcher", "ray")


def rays_process_of(root: Path) -> int | None:
    """The process of Ray's that carries out a run which is half-done."""
    for folder in half_done(root):
        found = subprocess.run(
            ["pgrep", "-f", f"bnmodes.studies.launch.worker {folder.path}"],
            capture_output=True,
            text=True,
        )
        for worker in found.stdout.split():
            status = Path(f"/proc/{worker}/status")
            if status.exists():
                return int(status.read_text().split("PPid:")[1].split()[0])
    return None


@pytest.fixture(autouse=True)
def _own_token(monkeypatch):
    """Clusters of the tests let in only whoever knows this; nothing of the user's is read."""
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    monkeypatch.setenv("RAY_AUTH_TOKEN", secrets.token_hex(32))


@pytest.fixture
def start(bnmodes, tmp_path):
    def start(*args):
        return bnmodes(*STUDY, "--out", tmp_path / "results", *args, log=tmp_path / "log")

    return start


def test_a_worker_killed_in_the_middle_changes_no_result(start, tmp_path, undisturbed):
    root = tmp_path / "results"
    study = start("--jobs", 2)
    os.kill(wait_for(lambda: rays_process_of(root), study), signal.SIGKILL)
    assert study.wait() == 0, (tmp_path / "log").read_text()
    assert times_resumed(root) > 0
    assert same_results(root, undisturbed)


def test_ctrl_c_keeps_everything_and_the_same_command_goes_on_elsewhere(
    start, tmp_path, undisturbed
):
    root = tmp_path / "results"
    with ray_cluster(tmp_path / "ray") as address:
        study = start("--address", address)
        wait_until_half_done(root, study)
        study.send_signal(signal.SIGINT)
        assert study.wait() == 130, (tmp_path / "log").read_text()
    assert [folder for folder in half_done(root) if (folder.path / "checkpoints").exists()]
    assert not any(folder.in_use() for folder in half_done(root))
    assert start().wait() == 0, (tmp_path / "log").read_text()
    assert times_resumed(root) > 0
    assert same_results(root, undisturbed)


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--address", "127.0.0.1:1"], "no Ray cluster at --address 127.0.0.1:1"),
        (
            ["--gpus-per-job", 1, "--device", "cuda"],
            "a run asks for 1.0 of Ray's resource GPU, but this machine has 0",
        ),
    ],
)
def test_what_ray_cannot_give_is_a_sentence(start, tmp_path, args, words):
    assert start(*args).wait() == 2
    assert words in (tmp_path / "log").read_text()
