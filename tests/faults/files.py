"""Disks that are full, folders that cannot be written to or disappear, and damaged files."""

import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, suppress
from io import StringIO
from pathlib import Path

from bnmodes import cli
from bnmodes.errors import UsageError
from bnmodes.runs.folder import RunFolder
from bnmodes.runs.loop import train
from bnmodes.runs.spec import RunSpec
from faults.children import Child, fork, training
from faults.kills import files_of

NOBODY = 65534


def command(*args: str | Path) -> Callable[[], int]:
    """As the command line, in this process."""

    def work() -> int:
        sys.argv = ["bnmodes", *map(str, args)]
        cli.main()
        return 0

    return work


def with_files_up_to(limit_bytes: int, work: Callable[[], int]) -> Callable[[], int]:
    """No file may grow beyond it: every write past that fails, as on a full disk."""

    def limited() -> int:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit_bytes, limit_bytes))
        return work()

    return limited


def as_nobody(work: Callable[[], int]) -> Callable[[], int]:
    """Without root's right to write everywhere."""

    def limited() -> int:
        if os.getuid() == 0:
            os.setgroups([])
            os.setuid(NOBODY)
        return work()

    return limited


def is_one_sentence(child: Child) -> bool:
    """Exit code 2 and a sentence of ours, no traceback."""
    child.wait()
    said = child.said()
    return child.code == 2 and "bnmodes: " in said and "Traceback" not in said


def fill_the_disk(spec: RunSpec, root: Path, limits_bytes: list[int]) -> Counter:
    """A run on a disk that is full at each of these sizes of a file, then with room again: it
    equals an undisturbed one."""
    count = Counter()
    assert fork(training(spec, root / "undisturbed")).wait() == 0
    for limit in limits_bytes:
        folder = root / f"full at {limit}"
        child = fork(with_files_up_to(limit, as_command_line(training(spec, folder))))
        count["disk full"] += 1
        count["not one sentence"] += not is_one_sentence(child)
        again = fork(training(spec, folder))
        count["lost"] += again.wait() != 0 or files_of(folder) != files_of(root / "undisturbed")
        again.output.unlink()
    return count


def as_command_line(work: Callable[[], int]) -> Callable[[], int]:
    """Errors as `bnmodes` tells them."""

    def told() -> int:
        original, cli._dispatch = cli._dispatch, lambda _: work()
        try:
            cli.main()
        finally:
            cli._dispatch = original
        return 0

    return told


@contextmanager
def tiny_disk(place: Path, size_kb: int) -> Iterator[bool]:
    """A file system of this size; False where this user may not make one."""
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size_kb}k", "tmpfs", str(place)]
    made = subprocess.run(mount, capture_output=True).returncode == 0
    try:
        yield made
    finally:
        if made:
            subprocess.run(["umount", "-l", str(place)], check=False)


def fill_a_real_disk(spec: RunSpec, root: Path, sizes_kb: list[int]) -> Counter:
    """The same on file systems that are really full; they are enlarged, and the run goes on."""
    count = Counter()
    assert fork(training(spec, root / "undisturbed")).wait() == 0
    for size in sizes_kb:
        with tiny_disk(root / f"disk {size}", size) as made:
            if not made:
                return Counter({"real disks skipped": 1})
            folder = root / f"disk {size}" / "run"
            child = fork(as_command_line(training(spec, folder)))
            count["real disk full"] += child.wait() != 0
            said = child.said()
            count["not one sentence"] += child.code not in (0, 2) or "Traceback" in said
            remount = ["mount", "-o", "remount,size=64m", str(root / f"disk {size}")]
            subprocess.run(remount, check=True)
            again = fork(training(spec, folder))
            count["lost"] += again.wait() != 0 or files_of(folder) != files_of(root / "undisturbed")
            again.output.unlink()
    return count


def read_only(spec: RunSpec, root: Path) -> Counter:
    folder = root / "read-only"
    folder.mkdir()
    folder.chmod(0o555)
    count = Counter({"read-only": 1})
    child = fork(as_nobody(as_command_line(training(spec, folder / "run"))))
    count["not one sentence"] += not is_one_sentence(child)
    return count


def disappear(spec: RunSpec, root: Path, times: int, seed: int) -> Counter:
    """The run's folder is deleted while it trains: it ends with a sentence and makes none anew."""
    dice, count = random.Random(seed), Counter()
    for number in range(times):
        folder = root / f"gone {number}"
        child = fork(as_command_line(training(spec, folder)))
        while child.poll() is None and not (folder / "metrics.jsonl").exists():
            time.sleep(0.005)
        time.sleep(dice.uniform(0, 0.2))
        while folder.exists():
            with suppress(OSError):  # the run writes into it at the same time
                shutil.rmtree(folder)
        child.wait()
        count["folder gone"] += 1
        said = child.said()
        if child.code:  # else it had just finished
            count["not one sentence"] += child.code != 2 or "Traceback" in said
            count["made anew"] += (folder / "metrics.jsonl").exists()
    return count


def _truncate(content: bytearray, dice: random.Random) -> bytearray:
    return content[: dice.randrange(len(content))]


def _flip(content: bytearray, dice: random.Random) -> bytearray:
    content[dice.randrange(len(content))] ^= 1 << dice.randrange(8)
    return content


def _replace(content: bytearray, dice: random.Random) -> bytearray:
    junk = (b"", b"null", b"[]", b"5", b'{"kind": 1}', b"\xff\xfe", b"{" * 5000, b"[" * 100_000)
    return bytearray(dice.choice(junk))


def damage(path: Path, dice: random.Random) -> None:
    """Cut off, change a bit of, or replace what is in a file."""
    content = bytearray(path.read_bytes())
    changes = [_truncate, _flip, _replace] if content else [_replace]
    path.write_bytes(dice.choice(changes)(content, dice))


def damage_files(spec: RunSpec, root: Path, times: int, seed: int) -> Counter:
    """Of finished and of half-done runs, one file at a time. The run that is made from it is the
    same as an undamaged one, or is refused with the file's name; never a third thing."""
    dice, count = random.Random(seed), Counter()
    finished, half = root / "undisturbed", root / "half"
    assert fork(training(spec, finished)).wait() == 0
    child = fork(training(spec, half))
    while (
        len(list(half.glob("checkpoints/[0-9]*[0-9]"))) + len(list(half.glob("checkpoints/?"))) < 2
    ):
        time.sleep(0.001)
    child.kill()
    for _ in range(times):
        source = dice.choice([finished, half])
        folder = root / "damaged"
        shutil.copytree(source, folder)
        path = dice.choice(sorted(p for p in folder.rglob("*") if p.is_file() and p.stat().st_size))
        before = path.read_bytes()
        damage(path, dice)
        count["files damaged"] += path.read_bytes() != before
        try:
            with redirect_stderr(StringIO()):  # which checkpoint is passed over
                train(spec, folder, show_progress=False)
        except UsageError as error:
            named = folder.name in str(error)
            count["refused and named" if named else "refused without a name"] += 1
        except Exception as error:
            print(f"{path.relative_to(folder)}: {type(error).__name__}: {error}")
            count["tracebacks"] += 1
        else:
            same = (folder / "metrics.jsonl").read_bytes() == (
                finished / "metrics.jsonl"
            ).read_bytes()
            count["the same result" if same else "silently wrong"] += 1
            if source is finished and path.name == "arrays.safetensors":
                count["silently wrong"] += not _refuses_networks(folder)
        shutil.rmtree(folder)
    return count


def _refuses_networks(folder: Path) -> bool:
    try:
        RunFolder(folder).networks()
    except UsageError:
        return True
    return False
