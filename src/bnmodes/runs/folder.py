"""A run's files: its specification, its metrics as they come, and its completion mark."""

import fcntl
import json
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from bnmodes import plugins
from bnmodes.errors import DamagedError, UsageError
from bnmodes.execution import PLAIN, Execution
from bnmodes.files import ASIDE, open_in_place, refuse_link, remove_leftovers, sha256_of, write_json
from bnmodes.protocol import as_table
from bnmodes.runs.completion import Completion, read_completion
from bnmodes.runs.metrics_file import MEND, MetricsFile
from bnmodes.runs.origin import Origin, origin_here
from bnmodes.runs.spec import AnotherVersion, RunSpec, first_difference, spec_from_json


class FolderInUse(UsageError):
    """Another process is training there."""


class RunFolder:
    """One run on disk. `metrics.jsonl` is append-only; a torn last line is cut off on resume."""

    def __init__(self, path: Path):
        self.path = path
        self.metrics_path = path / "metrics.jsonl"
        self.metrics_file = MetricsFile(self.metrics_path)
        self.done_path = path / "done.json"
        self.final_path = path / "final"
        self.checkpoints_path = path / "checkpoints"
        self.spec_path = path / "spec.json"
        self.progress_path = path / "progress.json"
        self.published_path = path / "published.json"  # of an imported run

    @contextmanager
    def claimed(self, spec: RunSpec, execution: Execution = PLAIN) -> Iterator[None]:
        """Make the folder this spec's, or refuse; no other process can train in it meanwhile."""
        if self.path.exists() and not self.path.is_dir():
            raise UsageError(f"{self.path} is a file: choose another --out.")
        self.refuse_links()
        if self._holds_something_else():
            if self._has_begun():
                raise DamagedError(f"{self.spec_path} is gone: {MEND}")
            raise UsageError(f"{self.path} holds other files and no run: choose another --out.")
        is_new = not self.path.exists()
        self.path.mkdir(parents=True, exist_ok=True)
        with self.locked():
            remove_leftovers(self.path)
            if self._has_begun():
                if damage := self.damage():
                    raise DamagedError(f"{damage}: {MEND}")
                if not self.finished and (changed := self.changed_plugins()):
                    raise UsageError(
                        f"{changed[0]}: put the old file back, or choose another --out."
                    )
                self._refuse_another(spec)
                yield
            else:
                write_json(self.spec_path, _described(spec, execution))
                try:
                    yield
                except UsageError:
                    if is_new and not self._has_begun():  # what cannot be made leaves no folder
                        shutil.rmtree(self.path, ignore_errors=True)
                    raise

    def refuse_links(self) -> None:
        """In places where something of ours would be written, or deleted, through them."""
        for path in (self.path, self.checkpoints_path, self.final_path):
            refuse_link(path)
        refuse_link(self.final_path / "checkpoints")

    @contextmanager
    def locked(self) -> Iterator[None]:
        with open_in_place(self.path / "lock", "a") as lock:
            for wait_seconds in (0.1, 0.2, 0.3, None):  # a look at the lock holds it for a moment
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
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
        return any(p.name != "lock" and ASIDE not in p.name for p in self.path.iterdir())

    def _has_begun(self) -> bool:
        """A folder without metrics and checkpoints has nothing to lose, so any spec may take it."""
        traces = (self.metrics_path, self.done_path, self.checkpoints_path, self.final_path)
        return any(path.exists() for path in traces)

    def in_use(self) -> bool:
        """Whether a process is training here now."""
        try:
            with open_in_place(self.path / "lock", "r") as lock:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except (FileNotFoundError, NotADirectoryError):
            return False
        except BlockingIOError:
            return True
        except OSError as error:
            raise UsageError(
                f"{self.path / 'lock'} cannot be looked at ({error.strerror}): put the folder in "
                "order, or delete it to run it again."
            ) from None
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
        return first_difference(stored, spec)

    def spec(self) -> RunSpec:
        return self._described(lambda described: spec_from_json(described["spec"]))

    def origin(self) -> Origin:
        """What it was begun with."""
        names = [field.name for field in fields(Origin)]
        return self._described(
            lambda described: Origin(**{n: described[n] for n in names if n in described})
        )

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
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise DamagedError(f"{self.spec_path} is damaged: {MEND}") from None

    @property
    def completion(self) -> Completion | None:
        """What a finished run came to."""
        return read_completion(self.done_path)

    @property
    def finished(self) -> bool:
        """Its mark is there and whole; `damage` also compares the files with its checksums."""
        return self.completion is not None

    @property
    def last_finite_decision(self) -> int | None:
        """Of a finished run that diverged; None of all others."""
        completion = self.completion
        return completion.last_finite_decision if completion else None

    def damage(self) -> str | None:
        """What is not as it was written in a run that was once finished; None: nothing.

        A mark that a crash of the machine cut off is no damage while there are checkpoints: the
        run goes on from them."""
        completion = self.completion
        if completion is None:
            if not self.done_path.exists() or self.checkpoints_path.exists():
                return None
            return f"{self.done_path} is damaged"
        for name, sha256 in completion.sha256.items():
            if not (self.path / name).is_file():
                return f"{self.path / name} is gone"
            if sha256_of(self.path / name) != sha256:
                return f"{self.path / name} is not what it was when the run finished"
        if not completion.sha256:
            try:
                self._described(lambda described: described["spec"])
            except UsageError:
                return f"{self.spec_path} is damaged or gone"
        return None

    def finish(
        self,
        networks: dict[str, Any] | None,
        *,
        decision: int,
        resumes: int,
        decisions_per_second: float,
        last_finite_decision: int | None,
    ) -> None:
        """Keep the networks, if given; the replay, which is nearly all of a checkpoint, is not
        needed now."""
        self.metrics_file.flush()
        shutil.rmtree(self.final_path, ignore_errors=True)  # of a kill before the mark
        if networks is not None:
            from bnmodes.runs import checkpoint  # here: PyTorch takes seconds

            self.final_path.mkdir()
            checkpoint.save(self.final_path, {"networks": networks})
        files = (self.metrics_path, self.spec_path)
        Completion(
            decision,
            resumes,
            decisions_per_second,
            last_finite_decision,
            networks is not None,
            {path.name: sha256_of(path) for path in files if path.exists()},
        ).write(self.done_path)
        self.discard_checkpoints()

    def discard_checkpoints(self) -> None:
        shutil.rmtree(self.checkpoints_path, ignore_errors=True)

    def networks(self) -> tuple[dict[str, Any], list[str]]:
        """At the end, or at the newest checkpoint of an unfinished run; and notes for the user."""
        from bnmodes.runs import checkpoint

        loaded = checkpoint.load(self.final_path if self.finished else self.path)
        if loaded is None and (completion := self.completion):
            reason = "were not kept (`study run --keep-networks`)"
            if completion.networks_kept or completion.imported:
                reason = "are not imported" if completion.imported else "are gone"
            raise UsageError(
                f"the final networks of {self.path} {reason}: to have them, delete that folder and "
                "run it again, keeping them."
            )
        if loaded is None:
            raise UsageError(f"{self.path} cannot play: it has no checkpoint yet; train it first.")
        tree = loaded.tree if self.finished else loaded.tree["agent"]
        return tree["networks"], loaded.notes

    def metrics(self) -> list[dict[str, Any]]:
        """All rows that it has recorded."""
        return self.metrics_file.rows(torn_end_allowed=not self.finished)


def _described(spec: RunSpec, execution: Execution) -> dict[str, Any]:
    return {
        "spec": spec.to_json(),
        "hash": spec.content_hash,
        "plugins": plugins.hashes(spec.agent, spec.env),
        "protocol": as_table(
            spec.settings.protocol, spec.settings.capabilities(spec.evaluation.episodes)
        ),
        **asdict(origin_here()),
        **asdict(execution),  # as it was begun
    }
