"""A worker's process, watched by the process that started it."""

import os
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path

from bnmodes.studies.launch.outcome import EXIT_HANGING


class WorkerProcess:
    """It rewrites its progress file every second or so. One that does not for `hang_minutes` hangs:
    it is killed, and its exit code says so. Clocks of two machines are never compared."""

    def __init__(self, process: subprocess.Popen, progress_path: Path, hang_minutes: float):
        self._process = process
        self._progress_path = progress_path
        self._hang_seconds = 60 * hang_minutes
        self._sign, self._sign_time = self._newest_sign(), time.monotonic()
        self._was_hanging = False

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        code = self._process.returncode
        return EXIT_HANGING if self._was_hanging and code is not None else code

    def poll(self) -> int | None:
        """Its exit code; None while it goes on."""
        if self._process.poll() is None and self._is_hanging():
            self._was_hanging = True
            self.kill()
        return self.returncode

    def terminate(self) -> None:
        """Ask it to keep a checkpoint and stop."""
        self._process.terminate()

    def kill(self) -> None:
        """It, and whatever it has started."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)  # it leads a session of its own
        self._process.wait()

    def _is_hanging(self) -> bool:
        now, sign = time.monotonic(), self._newest_sign()
        if sign != self._sign:
            self._sign, self._sign_time = sign, now
        return now - self._sign_time > self._hang_seconds

    def _newest_sign(self) -> int | None:
        try:
            return self._progress_path.stat().st_mtime_ns
        except OSError:
            return None
