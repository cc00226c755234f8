"""What an audit found."""

from dataclasses import dataclass, field

from bnmodes.protocol import Mode

_CANNOT_TELL = "cannot tell"


@dataclass(frozen=True)
class Audit:
    """What was observed of one forward; None is what cannot be told (see `reasons`)."""

    reads_stored_moments: bool | None
    """Its output depends on the running statistics that are stored."""
    depends_on_batch_mates: bool | None
    """A row's output depends on which other rows are in the batch."""
    writes_stored_moments: bool | None
    """It leaves other running statistics behind."""
    reasons: tuple[str, ...] = field(default=(), compare=False)
    """A sentence for each thing that cannot be told."""
    constants: tuple[str, ...] = field(default=(), compare=False)
    """Names of buffers and other plain tensors that the output depends on and that nothing here
    writes. They are not counted as running statistics: C51's atoms are an example."""

    @classmethod
    def promised_by(cls, mode: Mode) -> "Audit":
        """What an audit must find if a forward does what `mode` says."""
        return cls(
            reads_stored_moments=mode.statistics == "running",
            depends_on_batch_mates=mode.statistics == "batch" or mode.track is not None,
            writes_stored_moments=mode.writes,
        )

    @property
    def statistics(self) -> str:
        """none, batch, running, running+batch, or cannot tell."""
        if self.reads_stored_moments is None or self.depends_on_batch_mates is None:
            return _CANNOT_TELL
        return {
            (False, False): "none",
            (False, True): "batch",
            (True, False): "running",
            (True, True): "running+batch",
        }[self.reads_stored_moments, self.depends_on_batch_mates]

    def __str__(self) -> str:
        statistics = {
            "none": "none: each row alone",
            "batch": "batch: statistics of these rows",
            "running": "running: running statistics",
            "running+batch": "running+batch: running statistics, and these rows too",
            _CANNOT_TELL: _CANNOT_TELL,
        }[self.statistics]
        unknown = {None: _CANNOT_TELL}
        mates = {True: "each row depends on them", False: "each row stands alone"} | unknown
        writes = {True: "running statistics", False: "nothing"} | unknown
        lines = [
            f"statistics   {statistics}",
            f"batch-mates  {mates[self.depends_on_batch_mates]}",
            f"writes       {writes[self.writes_stored_moments]}",
            *(f"because      {reason}" for reason in self.reasons),
        ]
        if self.constants:
            lines.append(f"constants    {', '.join(self.constants)}: read, and written by nothing")
        return "\n".join(lines)
