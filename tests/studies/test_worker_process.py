"""Workers that hang are killed and told apart; a stop never waits for them for ever."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from bnmodes.studies.launch.local import LocalLauncher
from bnmodes.studies.launch.outcome import EXIT_HANGING, outcome_of
from bnmodes.studies.launch.worker_command import WorkerOptions
from bnmodes.studies.launch.worker_process import WorkerProcess

SLEEPS = "import time; print(flush=True); time.sleep(60)"
DEAF = "import signal; signal.signal(15, signal.SIG_IGN);" + SLEEPS


def started(code: str, progress: Path, hang_seconds: float) -> WorkerProcess:
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, start_new_session=True
    )
    with process.stdout:
        process.stdout.readline()
    return WorkerProcess(process, progress, hang_seconds / 60)


def wait_for(worker: WorkerProcess) -> int:
    for _ in range(200):
        if (code := worker.poll()) is not None:
            return code
        time.sleep(0.05)
    raise AssertionError("it goes on")


@pytest.mark.parametrize("stopped", [False, True])
def test_a_worker_without_a_sign_of_life_is_killed(tmp_path, stopped):
    (tmp_path / "progress").touch()
    worker = started(SLEEPS, tmp_path / "progress", hang_seconds=0.2)
    if stopped:
        os.kill(worker.pid, signal.SIGSTOP)
    assert wait_for(worker) == EXIT_HANGING
    assert outcome_of(EXIT_HANGING).kind == "failed"
    assert "no progress" in outcome_of(EXIT_HANGING).reason


def test_signs_of_life_keep_a_worker_alive(tmp_path):
    worker = started(SLEEPS, tmp_path / "progress", hang_seconds=1.0)
    for second in range(25):
        os.utime(tmp_path / "progress", (second, second)) if second else (
            tmp_path / "progress"
        ).touch()
        time.sleep(0.1)
        assert worker.poll() is None
    worker.kill()
    assert worker.poll() == -signal.SIGKILL


@pytest.mark.parametrize(
    ("code", "kind", "words"),
    [
        (0, "ended", ""), (130, "stopped", ""), (-15, "stopped", ""), (75, "in use", ""),
        (65, "damaged", ""), (2, "failed", "refused"), (74, "failed", "disk full"),
        (-9, "failed", "memory"), (-11, "failed", "signal 11"), (1, "failed", "exit code 1"),
    ],
)  # fmt: skip
def test_an_exit_code_has_a_reason(code, kind, words):
    outcome = outcome_of(code)
    assert outcome.kind == kind
    assert words in outcome.reason


def test_a_stop_ends_though_a_worker_is_deaf(tmp_path):
    launcher = LocalLauncher(1, WorkerOptions())
    launcher._processes = {tmp_path: started(DEAF, tmp_path / "progress", hang_seconds=0.5)}
    launcher.cancel()
    assert [outcome.kind for outcome in launcher.poll().values()] == ["failed"]


def test_a_second_ctrl_c_waits_for_nothing(tmp_path):
    launcher = LocalLauncher(1, WorkerOptions())
    launcher._processes = {tmp_path: started(DEAF, tmp_path / "progress", hang_seconds=600)}
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        launcher.cancel()
    assert [outcome.reason for outcome in launcher.poll().values()] == [outcome_of(-9).reason]
