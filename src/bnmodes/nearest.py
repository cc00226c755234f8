"""The nearest known name to one that is unknown, for error messages."""

import difflib
from collections.abc import Iterable


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name most like `name`; None where none is like it."""
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.4)
    return close[0] if close else None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """ " (did you mean 'x'?)", or nothing."""
    found = nearest(name, known)
    return f" (did you mean '{found}'?)" if found else ""
