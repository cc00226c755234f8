"""The command line: `bnmodes COMMAND …`. Each command's module is imported when it is used."""

import errno
import importlib
import os
import signal
import sys
from types import FrameType

from bnmodes.cli.prose import wrapped
from bnmodes.errors import UsageError
from bnmodes.nearest import nearest

COMMANDS: dict[str, tuple[str, str]] = {
    "train": ("runs:train_command", "train an agent; the same command again goes on with it"),
    "explain": ("runs:explain_command", "show which statistics each forward uses and updates"),
    "audit": (
        "existing_runs:audit_command",
        "measure what each forward of a run really does",
    ),
    "calibrate": (
        "existing_runs:calibrate_command",
        "re-estimate statistics, to act in one environment",
    ),
    "env list": ("runs:env_list", "list every game"),
    "watch": ("existing_runs:watch_command", "play a trained agent and write a GIF"),
    "plot": ("existing_runs:plot", "draw the learning curves of runs"),
    "bench": ("bench:bench_command", "measure speed, and where the time goes"),
    "study list": ("study_catalog:study_list", "list the studies"),
    "study show": (
        "study_catalog:study_show",
        "a study's arms, games, runs, and the time they take here",
    ),
    "study run": ("study:study_run", "run a study, here or on a cluster; again: go on with it"),
    "study status": ("study:study_status", "how far a study is"),
    "study export": ("study:study_export", "write a study's results as tables"),
    "study report": ("study:study_report", "write a study's report with its figures"),
    "study publish": (
        "study_publish:study_publish",
        "write a study's results as a small folder, with a page",
    ),
    "study import": (
        "study_publish:study_import",
        "put published results back, to draw them without a run",
    ),
    "study power": ("study:study_power", "how many seeds the next study would need"),
    "study clean": ("study_clean:study_clean", "delete what a study has left half-done"),
    "figure": ("figure:figure_command", "draw a figure of the paper by its number"),
}
"""By name: the function, and what it does. A study is a name or a file of your own, FILE.py."""


def _help(group: str = "") -> str:
    """Of all commands, or of those that begin with a word."""
    width = max(map(len, COMMANDS))
    lines = [
        f"  {name.ljust(width)}   {text}"
        for name, (_, text) in COMMANDS.items()
        if name.startswith(group)
    ]
    return "\n".join(
        [
            "usage: bnmodes COMMAND [OPTIONS]",
            "",
            "BatchNorm forward modes of value-learning agents: declared, tested, trained.",
            "",
            *lines,
            "",
            "`bnmodes COMMAND --help` says each option's meaning, unit and default.",
        ]
    )


def _dispatch(args: list[str]) -> None:
    if not args or args[0] in ("-h", "--help"):
        print(_help())
        return
    for name, (function, _) in COMMANDS.items():
        words = name.split()
        if args[: len(words)] == words:
            module, _, function = function.partition(":")
            command = getattr(importlib.import_module(f"bnmodes.cli.{module}"), function)
            command(args[len(words) :])
            return
    if args == ["--version"]:
        print(importlib.import_module("importlib.metadata").version("bnmodes"))
        return
    is_group = any(name.startswith(f"{args[0]} ") for name in COMMANDS)
    if is_group and args[1:] in ([], ["-h"], ["--help"]):
        print(_help(args[0]))
        return
    tried = " ".join(args[:2])
    close = nearest(tried, COMMANDS)
    hint = f"did you mean 'bnmodes {close}'?" if close else "see 'bnmodes --help'."
    raise UsageError(f"'bnmodes {tried}' is no command: {hint}")


def _interrupt(_signal: int, frame: FrameType | None) -> None:
    """Ctrl-C. While something is imported it ends the process at once: what imports make of the
    exception is anything from a traceback to a signal that is lost."""
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            os.write(2, b"bnmodes: interrupted\n")
            os._exit(130)
        frame = frame.f_back
    raise KeyboardInterrupt


def main() -> None:
    signal.signal(signal.SIGINT, _interrupt)
    try:
        _dispatch(sys.argv[1:])
    except UsageError as error:
        print(wrapped(f"bnmodes: {error}", sys.stderr.isatty()), file=sys.stderr)
        sys.exit(2)
    except BrokenPipeError:
        sys.exit(0)
    except KeyboardInterrupt:
        print("bnmodes: interrupted", file=sys.stderr)
        sys.exit(130)
    except MemoryError as error:
        print(f"bnmodes: the memory is full ({error or 'no room'}).", file=sys.stderr)
        sys.exit(2)
    except OSError as error:
        print(f"bnmodes: {_in_words(error)}", file=sys.stderr)
        sys.exit(2)


def _in_words(error: OSError) -> str:
    """Which file, what is wrong with it, and what to do."""
    if error.filename is None or error.strerror is None:
        return f"{error}"
    advice = _ADVICE.get(error.errno or 0, "put that in order and give the same command again.")
    return f"{error.filename}: {error.strerror}: {advice}"


_ADVICE = {
    errno.ENOSPC: "make room and give the same command again.",
    errno.EROFS: "choose a folder that can be written to.",
    errno.EACCES: "choose a folder that you may write to, or ask for permission.",
    errno.EEXIST: "move it away, or choose another place.",
    errno.ENOTDIR: "a folder is needed there: choose another place.",
    errno.ENOENT: "it is not there: check the path.",
}
