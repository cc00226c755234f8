"""Where a study runs: how time limits are read."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bnmodes.cli.launching import minutes_of
from bnmodes.errors import UsageError


@pytest.mark.parametrize(
    ("time", "minutes"),
    [
        ("90", 90),
        ("1:30", 2),
        ("2:00:00", 120),
        ("1-0", 1440),
        ("1-2:30", 1590),
        ("1-2:30:01", 1591),
    ],
)
def test_times_are_read_as_slurm_reads_them(time, minutes):
    assert minutes_of(time) == minutes


@given(st.integers(0, 9), st.integers(0, 23), st.integers(0, 59), st.integers(0, 59))
def test_a_time_is_never_rounded_down(days, hours, minutes, seconds):
    wanted = ((days * 24 + hours) * 60 + minutes) * 60 + seconds
    if wanted:
        given = minutes_of(f"{days}-{hours:02}:{minutes:02}:{seconds:02}") * 60
        assert wanted <= given < wanted + 60


@pytest.mark.parametrize("time", ["", "soon", "1-", "-5", "1:2:3:4", "0", "1-2-3", "5 min"])
def test_other_times_are_refused(time):
    with pytest.raises(UsageError, match="time is"):
        minutes_of(time)
