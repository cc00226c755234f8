"""Sentences for a person are wrapped at words; for a program or a file they stay one line."""

import shutil
import sys
import textwrap
from typing import TextIO


def wrapped(text: str, stream: TextIO | None = None) -> str:
    """`text` as it is, or, where `stream` (standard output) is a terminal, in lines of its width.

    Words longer than a line, such as paths, stay whole: the terminal itself breaks them.
    """
    if not (stream or sys.stdout).isatty():
        return text
    columns = shutil.get_terminal_size().columns
    wrap = textwrap.TextWrapper(columns, break_long_words=False, break_on_hyphens=False)
    return "\n".join(wrap.fill(line) for line in text.split("\n"))
