"""A run's files: its specification, its metrics as they come, and its completion mark."""

import fcntl
import importlib.metadata
import json
import os
import platform
import shutil
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bnmodes import plugins
from bnmodes.errors import UsageError
from bnmodes.execution import PLAIN, Execution
from bnmodes.protocol import as_table
from bnmodes.runs.spec import AnotherVersion, RunSpec, spec_from_json

_PACKAGES = ("bnmodes", "torch", "numpy", "ale-py", "minatar")


class FolderInUse(UsageError):
    """Another process is training there."""


class RunFolder:
    """One run on disk. `metrics.jsonl` is append-only; a torn last line is cut off on resume."""

    def __init__(self, path: Path):
        self.path = path
        self.metrics_path = path / "metrics.jsonl"
        self.done_path = path / "done.json"
        self.spec_path = path / "spec.json"
        self.progress_path = path / "progress.json"

    @contextmanager
    def claimed(self, spec: RunSpec, execution: Execution = PLAIN) -> Iterator[None]:
        """Make the folder this spec's, or refuse; no other process can train in it meanwhile."""
        if self.path.exists() and not self.path.is_dir():
            raise UsageError(f"{self.path} is a file: choose another --out.")
        if self._holds_something_else():
            raise UsageError(f"{self.path} holds other files and no run: choose another --out.")
        self.path.mkdir(parents=True, exist_ok=True)
        with self.locked():
            if self._has_begun():
                if not self.finished and (changed := self.changed_plugins()):
                    raise UsageError(
                        f"{changed[0]}: put the old file back, or choose another --out."
                    )
                self._refuse_another(spec)
            else:
                write_json(self.spec_path, _described(spec, execution))
            yield

    @contextmanager
    def locked(self) -> Iterator[None]:
        with open(self.path / "lock", "w") as lock:
            for wait_seconds in (0.1, 0.2, 0.3, None):  # a look at the lock holds it for a moment
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except OSError:
                    if wait_seconds is None:
                        raise FolderInUse(
                            f"another process is training in {self.path}: wait for it."
                        ) from None
                    time.sleep(wait_seconds)
            yield

    def _holds_something_else(self) -> bool:
        """Not counting what a process killed while it claimed the folder may have left."""
        if self.spec_path.exists() or not self.path.exists():
            return False
        return any(p.name != "lock" and p.suffix != ".tmp" for p in self.path.iterdir())

    def _has_begun(self) -> bool:
        """A folder without metrics and checkpoints has nothing to lose, so any spec may take it."""
        traces = (self.metrics_path, self.done_path, self.path / "checkpoints")
        return any(path.exists() for path in traces)

    def in_use(self) -> bool:
        """Whether a process is training here now."""
        try:
            with open(self.path / "lock") as lock:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except FileNotFoundError:
            return False
        except OSError:
            return True
        return False

    def _refuse_another(self, spec: RunSpec) -> None:
        if difference := self.difference(spec):
            raise UsageError(f"{self.path} holds another run ({difference}): choose another --out.")

    def difference(self, spec: RunSpec) -> str:
        """The first setting in which the stored run is not this one, in words; empty: it is."""
        written = self._described(lambda described: described["spec"])
        if written == json.loads(json.dumps(spec.to_json())):  # most are, and it is soon seen
            return ""
        try:
            stored = self.spec()
        except AnotherVersion as error:
            return str(error).rstrip(".")
        if stored == spec:
            return ""
        ours, theirs = _flat(spec.to_json()), _flat(stored.to_json())
        name = next(name for name in ours | theirs if ours.get(name) != theirs.get(name))
        return f"{name} is {theirs.get(name)} there, {ours.get(name)} here"

    def spec(self) -> RunSpec:
        return self._described(lambda described: spec_from_json(described["spec"]))

    def versions(self) -> dict[str, str]:
        """Of the packages that it ran with."""
        return self._described(lambda described: dict(described["versions"]))

    def changed_plugins(self) -> list[str]:
        """A sentence for each user's file that is not the one that this run was begun with."""
        stored = self._described(lambda described: dict(described.get("plugins", {})))
        now = plugins.hashes(*stored)
        return [
            f"{file} has changed since the run in {self.path} was begun (its SHA-256 was "
            f"{sha256[:12]}…, it is {now[file][:12]}… now)"
            for file, sha256 in stored.items()
            if file in now and now[file] != sha256
        ]

    def _described(self, part: Callable[[dict[str, Any]], Any]) -> Any:
        try:
            return part(json.loads(self.spec_path.read_text()))
        except FileNotFoundError:
            raise UsageError(
                f"{self.path} holds no run (no spec.json): give the folder that --out named."
            ) from None
        except UsageError:
            raise
        except (ValueError, KeyError, TypeError, AttributeError):
            raise UsageError(f"{self.spec_path} is damaged: choose another --out.") from None

    @property
    def finished(self) -> bool:
        return self.done_path.exists()

    def finish(self, networks: dict[str, Any] | None, summary: dict[str, Any]) -> None:
        """Keep the networks, if given; the replay, which is nearly all of a checkpoint, is not
        needed now."""
        self.flush_metrics()
        if networks is not None:
            from bnmodes.runs import checkpoint  # here: PyTorch takes seconds

            checkpoint.save(self.path / "final", {"networks": networks})
        write_json(self.done_path, summary | {"networks_kept": networks is not None})
        self.discard_checkpoints()

    def discard_checkpoints(self) -> None:
        shutil.rmtree(self.path / "checkpoints", ignore_errors=True)

    def networks(self) -> tuple[dict[str, Any], list[str]]:
        """At the end, or at the newest checkpoint of an unfinished run; and notes for the user."""
        from bnmodes.runs import checkpoint

        loaded = checkpoint.load(self.path / "final" if self.finished else self.path)
        if loaded is None and self.finished:
            kept = json.loads(self.done_path.read_text()).get("networks_kept", True)
            reason = "are gone" if kept else "were not kept (`study run --keep-networks`)"
            raise UsageError(
                f"the final networks of {self.path} {reason}: to have them, delete that folder and "
                "run it again, keeping them."
            )
        if loaded is None:
            raise UsageError(f"{self.path} cannot play: it has no checkpoint yet; train it first.")
        tree = loaded.tree if self.finished else loaded.tree["agent"]
        return tree["networks"], loaded.notes

    def append(self, row: dict[str, Any]) -> None:
        with open(self.metrics_path, "a") as file:
            file.write(json.dumps(row) + "\n")

    def metrics_bytes(self) -> int:
        return self.metrics_path.stat().st_size if self.metrics_path.exists() else 0

    def flush_metrics(self) -> None:
        """To the disk, before a checkpoint that counts on them."""
        if self.metrics_path.exists():
            with open(self.metrics_path) as file:
                os.fsync(file.fileno())

    def rewind_metrics(self, length_bytes: int) -> None:
        """Back to a checkpoint: what came after it is going to be done again."""
        if self.metrics_bytes() < length_bytes:
            raise UsageError(
                f"{self.metrics_path} is shorter than its checkpoint knew it: put the whole file "
                "back, or delete the run's folder to begin anew."
            )
        if self.metrics_path.exists():
            os.truncate(self.metrics_path, length_bytes)

    def metrics(self) -> list[dict[str, Any]]:
        """All whole lines; a killed run may have torn the last one."""
        if not self.metrics_path.exists():
            return []
        try:
            *lines, rest = self.metrics_path.read_text().split("\n")
            rows = [json.loads(line) for line in lines]
        except ValueError as error:
            raise UsageError(
                f"{self.metrics_path} has a damaged line ({error}): put a good copy back, or "
                "delete the run's folder to run it again."
            ) from None
        if rest and self.finished:
            raise UsageError(
                f"{self.metrics_path} is torn at its end although the run is finished: put a good "
                "copy back, or delete the run's folder to run it again."
            )
        return rows


def numbers(row: dict[str, Any]) -> dict[str, float]:
    """The numbers of a row of metrics, named `kind/name`; lists of single games are left out."""
    return {
        f"{row['kind']}/{name}": float(value)
        for name, value in row.items()
        if name not in ("kind", "decision", "frame") and isinstance(value, int | float)
    }


def write_json(path: Path, data: Any) -> None:
    """Written aside and renamed, so that a reader never meets half a file."""
    aside = path.with_name(f"{path.name}.{uuid.uuid4().hex}.tmp")
    aside.write_text(json.dumps(data, indent=2, ensure_ascii=False) + "\n")
    aside.replace(path)


def _described(spec: RunSpec, execution: Execution) -> dict[str, Any]:
    return {
        "spec": spec.to_json(),
        "hash": spec.content_hash,
        "plugins": plugins.hashes(spec.agent, spec.env),
        "protocol": as_table(
            spec.settings.protocol, spec.settings.capabilities(spec.evaluation.episodes)
        ),
        "versions": {name: importlib.metadata.version(name) for name in _PACKAGES},
        "python": platform.python_version(),
        **asdict(execution),  # as it was begun
    }


def _flat(data: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in data.items():
        nested = isinstance(value, dict)
        flat |= _flat(value, f"{prefix}{name}.") if nested else {prefix + name: value}
    return flat
