"""The mark of a finished run, `done.json`: what it came to, and checksums of its files."""

import hashlib
import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

from bnmodes.files import flush_to_disk, write_json


@dataclass(frozen=True)
class Completion:
    decision: int
    """Decisions that were made; fewer than declared where the run diverged."""
    resumes: int = 0
    """How often it went on from a checkpoint."""
    decisions_per_second: float | None = None
    """Speed of its last part."""
    last_finite_decision: int | None = None
    """Of a run that diverged: the last look at which all its parameters were finite numbers."""
    networks_kept: bool = True
    """Whether its final networks stayed."""
    sha256: dict[str, str] = field(default_factory=dict)
    """Checksums of metrics.jsonl and spec.json; none in runs from before there were any."""
    imported: bool = False
    """Whether it was not run here, but put back from published results."""

    @property
    def diverged(self) -> bool:
        return self.last_finite_decision is not None

    def write(self, path: Path) -> None:
        """After this the checkpoints are deleted: it must have reached the disk."""
        data = asdict(self)
        write_json(path, data | {"checksum": checksum_of(data)})
        flush_to_disk(path)
        flush_to_disk(path.parent)


def read_completion(path: Path) -> Completion | None:
    """None where there is no mark, or one that is not as it was written."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        if "checksum" not in data:
            return Completion(data["decision"], data["resumes"]) if _is_older(data) else None
        checksum = data.pop("checksum")
        return Completion(**data) if checksum == checksum_of(data) else None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def checksum_of(data: dict) -> str:
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()


def _is_older(data: dict) -> bool:
    """Earlier marks had no checksums."""
    counts = (data["decision"], data["resumes"])
    names = data.keys() - {"networks_kept"}
    return names == {"decision", "resumes", "decisions_per_second"} and all(
        type(count) is int and count >= 0 for count in counts
    )
