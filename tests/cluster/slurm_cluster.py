"""A real Slurm of one node on loopback: munged, slurmctld and slurmd, for the length of a test."""

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

_BOUND = ["setpriv", "--pdeathsig=TERM", "--"]
# cred_expire is also how long a requeued job waits before it starts again.
_SLURM_CONF = """
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller_port}
SlurmdPort={node_port}
SlurmUser=root
AuthInfo=socket={folder}/munge/socket,cred_expire=5
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SlurmdParameters=config_overrides
SchedulerParameters=sched_interval=1,batch_sched_delay=0,sched_min_interval=0
ReturnToService=2
NodeName={host} NodeAddr=127.0.0.1 CPUs=4 RealMemory=8000 State=UNKNOWN
PartitionName=short Nodes={host} Default=YES MaxTime=60 State=UP
"""


@contextmanager
def slurm_cluster() -> Iterator[None]:
    """Its tools find it through SLURM_CONF; all its daemons end with it, also if we are killed."""
    folder = Path(tempfile.mkdtemp(prefix="bnmodes-slurm-"))
    before = os.environ.get("SLURM_CONF")
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        _write_files(folder)
        os.environ["SLURM_CONF"] = str(folder / "slurm.conf")
        stack.callback(_restore, before)
        # As its own user, and after that, for the change clears it, bound to our life.
        munge = ["setpriv", "--reuid=munge", "--regid=munge", "--clear-groups", "--", *_BOUND]
        files = [f"--{name}-file={folder}/munge/{name}" for name in ("key", "log", "pid", "seed")]
        at = f"--socket={folder}/munge/socket"
        stack.enter_context(
            _daemon(folder, "munged", [*munge, "munged", "--foreground", at, *files])
        )
        _wait_until("munge", ["munge", "--no-input", at], "MUNGE", folder)
        stack.enter_context(_daemon(folder, "slurmctld", [*_BOUND, "slurmctld", "-D", "-i"]))
        stack.enter_context(_daemon(folder, "slurmd", [*_BOUND, "slurmd", "-D"]))
        _wait_until("Slurm", ["sinfo", "--noheader", "--format=%T"], "idle", folder)
        stack.callback(_end_jobs)
        yield


def _end_jobs() -> None:
    subprocess.run(["scancel", f"--user={os.getuid()}"], check=False)
    for _ in range(150):
        if not subprocess.run(["squeue", "--noheader"], capture_output=True).stdout:
            return
        time.sleep(0.2)


def _write_files(folder: Path) -> None:
    folder.chmod(0o755)  # munged is another user
    munge = folder / "munge"
    munge.mkdir(mode=0o755)
    (munge / "key").write_bytes(os.urandom(1024))
    (munge / "key").chmod(0o600)
    for path in (munge, munge / "key"):
        shutil.chown(path, "munge", "munge")
    (folder / "state").mkdir()
    (folder / "spool").mkdir()
    (folder / "slurm.conf").write_text(
        _SLURM_CONF.format(
            host=socket.gethostname().split(".")[0],
            folder=folder,
            controller_port=_free_port(),
            node_port=_free_port(),
        )
    )


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def _restore(slurm_conf: str | None) -> None:
    if slurm_conf is None:
        del os.environ["SLURM_CONF"]
    else:
        os.environ["SLURM_CONF"] = slurm_conf


@contextmanager
def _daemon(folder: Path, name: str, command: list[str]) -> Iterator[None]:
    with open(folder / f"{name}.out", "w") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output)
    try:
        yield
    finally:
        process.terminate()
        process.wait()


def _wait_until(name: str, command: list[str], word: str, logs: Path) -> None:
    for _ in range(150):
        said = subprocess.run(command, capture_output=True, text=True)
        if word in said.stdout:
            return
        time.sleep(0.2)
    tails = [path.read_text()[-2000:] for path in sorted(logs.glob("*.out"))]
    raise RuntimeError("\n".join([f"{name} did not start: {said.stdout}{said.stderr}", *tails]))
