"""A Ray that we start for a study cannot be reached from another machine, nor its files read."""

import os
import subprocess
import sys
from pathlib import Path

# A process of its own: Ray reads its environment while it is imported.
PROGRAM = """
import os, stat
from pathlib import Path
from bnmodes.cli.launching import LaunchOptions
from bnmodes.studies.launch.worker_command import WorkerOptions
from helpers.small_study import small_study
import test_ray_loopback

study = small_study(games=("probe/chain",), seeds=(0,))
launcher = LaunchOptions(launcher="ray", memory_gb=0.5).open(study, Path("r"), WorkerOptions())
import ray
print("listens", *test_ray_loopback.listening_addresses(os.getpid()))
folder = Path(ray._private.worker._global_node.get_temp_dir_path())
print("folder", oct(stat.S_IMODE(folder.parent.stat().st_mode)))
print("token", bool(os.environ["RAY_AUTH_TOKEN"]), os.environ["RAY_AUTH_MODE"])
"""
LOOPBACK = {"0100007F", "0000000000000000FFFF00000100007F"}


def listening_addresses(root: int) -> set[str]:
    """Where a process and all that it started listen, as the kernel writes addresses."""
    sockets = set()
    for pid in _descendants(root):
        for handle in Path(f"/proc/{pid}/fd").glob("*"):
            try:
                sockets.add(os.readlink(handle))
            except OSError:
                continue  # closed meanwhile
    rows = [
        line.split()
        for name in ("tcp", "tcp6")
        for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]
    ]
    is_listening = "0A"
    return {
        row[1].partition(":")[0]
        for row in rows
        if row[3] == is_listening and f"socket:[{row[9]}]" in sockets
    }


def _descendants(root: int) -> set[int]:
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
    found = {root}
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return found


def test_it_listens_on_loopback_only_with_a_token_and_a_private_folder(tmp_path):
    tests = Path(__file__).parent
    paths = [str(tests), str(tests.parent), os.environ.get("PYTHONPATH", "")]
    ray = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=tmp_path, capture_output=True, text=True, timeout=200,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), "HOME": str(tmp_path)},
    )  # fmt: skip
    assert ray.returncode == 0, ray.stderr
    said = dict(line.split(" ", 1) for line in ray.stdout.splitlines())
    listens = set(said["listens"].split())
    assert listens
    assert listens <= LOOPBACK
    assert said["folder"] == "0o700"
    assert said["token"] == "True token"
    assert not (tmp_path / ".ray").exists(), "no token is left in the user's home"
