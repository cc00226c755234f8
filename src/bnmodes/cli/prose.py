"""Sentences for a person are wrapped at words; for a program or a file they stay one line."""

import shutil
import sys
import textwrap


def wrapped(text: str, is_terminal: bool | None = None) -> str:
    """`text` as it is, or in lines of a terminal's width; by default, if standard output is one.

    Words longer than a line, such as paths, stay whole: the terminal itself breaks them.
    """
    if not (sys.stdout.isatty() if is_terminal is None else is_terminal):
        return text
    columns = shutil.get_terminal_size().columns
    wrap = textwrap.TextWrapper(columns, break_long_words=False, break_on_hyphens=False)
    return "\n".join(wrap.fill(line) for line in text.split("\n"))
