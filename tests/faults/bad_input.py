"""Command lines that nobody should give, and damaged files given to every command."""

import random
import shutil
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path

from bnmodes import cli
from bnmodes.cli import (
    existing_runs,
    figure,
    runs,
    study,
    study_catalog,
    study_clean,
    study_publish,
)
from bnmodes.runs import loop
from bnmodes.studies import schedule
from faults.files import damage

JUNK = (
    "", " ", "-", "--", "-1", "0", "1e400", "nan", "-inf", "9" * 40, "0x10", "true", "none",
    "../..", "/", "/dev/null", "a/b\nc", "[red]", "é€😀", "%s", "{}", "'; rm -rf", "atari/",
    "gymnasium/", "gymnasium/Nope-v0", "probe/nope", "x.py", "x.py:", "x.py:Y", ":", "flax:",
    "flax:2", "cuda:99", "bn-batch", "c51", "-h-", "a" * 5000,
)  # fmt: skip
"""Values that some option or other may take for its own."""

TRACEBACK = 70

OPTIONS = {
    "train c51": (
        "--env", "--arm", "--seed", "--total-decisions", "--record-every-decisions", "--batch-size",
        "--evaluation.episodes", "--evaluation.epsilon", "--diagnostics.points", "--atoms",
        "--learning-rate", "--replay-capacity", "--norm.bn-epsilon", "--protocol.predict.update",
        "--protocol.act.statistics", "--out", "--threads", "--checkpoint-minutes", "--device",
        "--sinks", "--gamma", "--torso", "--no-such-option",
    ),
    "train pqn": ("--num-envs", "--test-envs", "--rollout-steps", "--minibatches", "--arm"),
    "train xqc": ("--env", "--arm", "--updates-per-decision", "--batch-size"),
    "train": ("",),
    "explain c51": ("--env", "--arm", "--seed", "--protocol.bootstrap.track", "--json"),
    "explain": ("", "--plugin", "--json"),
    "audit": ("", "--game-seed", "--plugin"),
    "calibrate": ("", "--games", "--seed"),
    "env list": ("", "--all"),
    "watch": ("", "--to", "--max-decisions", "--game-seed"),
    "plot": ("", "--to", "--plugin"),
    "study list": ("", "--x"),
    "study show": ("", "--arms", "--games", "--seeds"),
    "study run quick": (
        "--out", "--jobs", "--arms", "--games", "--seeds", "--launcher", "--time", "--memory-gb",
        "--checkpoint-minutes", "--hang-minutes", "--gpus-per-job", "--address", "--sinks",
    ),
    "study run": ("",),
    "study status": ("", "--out"),
    "study status quick": ("--out", "--seeds"),
    "study export quick": ("--out", "--to"),
    "study report quick": (
        "--out", "--to", "--reference", "--against", "--interval", "--formats", "--published",
    ),
    "study publish quick": ("--out", "--to", "--commit", "--seeds"),
    "study import": ("", "--out", "--study"),
    "study power quick": ("--effect", "--out"),
    "study clean quick": ("--out", "--arms"),
    "figure": ("", "--to", "--out", "--arms"),
    "figure 1": ("--to", "--out", "--arms"),
    "": ("",),
}  # fmt: skip


def call(*args: str | Path) -> tuple[int, str]:
    """Exit code and everything said by a command, in this process; for a traceback, `TRACEBACK`."""
    said = StringIO()
    before = sys.argv
    sys.argv = ["bnmodes", *map(str, args)]
    modules = (existing_runs, figure, runs, study, study_catalog, study_clean, study_publish)
    consoles = [module.console for module in modules]
    try:
        with redirect_stdout(said), redirect_stderr(said):
            for console in consoles:
                console.file = said
            cli.main()
    except SystemExit as exit:
        return exit.code if isinstance(exit.code, int) else 0, said.getvalue()
    except Exception as error:
        return TRACEBACK, f"{said.getvalue()}\n{type(error).__name__}: {error}"
    finally:
        sys.argv = before
        for console in consoles:
            console.file = None
    return 0, said.getvalue()


def tree(folder: Path) -> dict[str, bytes | None]:
    """Every file with its content, and every folder."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in folder.rglob("*")
    }


def try_command_lines(here: Path, times: int, seed: int) -> Counter:
    """In the folder `here`, which is the working directory. Training and studies are not begun:
    `accepted` counts the lines that were good enough for it."""
    dice, count = random.Random(seed), Counter()
    with without_work():
        for _ in range(times):
            name = dice.choice(list(OPTIONS))
            line = name.split()
            for _ in range(dice.choice((1, 1, 2))):
                option = dice.choice(OPTIONS[name])
                line += ([option] if option else []) + [dice.choice(JUNK)]
            before = tree(here)
            code, said = call(*line)
            count["command lines"] += 1
            count["refused" if code == 2 else "accepted"] += 1
            is_told = code in (0, 1) or (code == 2 and bool(said.strip()))
            if not is_told or "Traceback" in said:
                print(f"{line}: exit code {code}: {said[-300:]}")
                count["tracebacks"] += 1
            if code == 2 and tree(here) != before:
                print(f"{line}: left {tree(here).keys() - before.keys()}")
                count["changed files"] += 1
            for path in here.iterdir():  # of lines that were accepted
                shutil.rmtree(path) if path.is_dir() else path.unlink()
    return count


class without_work:
    """Training, studies and time measurements return at once."""

    def __enter__(self) -> None:
        def accept(*_args, **_options):
            raise SystemExit(0)

        self._before = (loop.train, schedule.run_study, study_catalog.estimate_seconds)
        loop.train, schedule.run_study = accept, accept
        study_catalog.estimate_seconds = lambda _: 1.0

    def __exit__(self, *_) -> None:
        loop.train, schedule.run_study, study_catalog.estimate_seconds = self._before


def commands_on(root: Path, run: Path, out: Path) -> dict[str, Callable[[], tuple[int, str]]]:
    """Every command that reads a run's or a study's files; the study is called small."""
    where = ("--out", root)
    return {
        "explain": lambda: call("explain", run),
        "audit": lambda: call("audit", run),
        "watch": lambda: call("watch", run, "--to", out / "x.gif", "--max-decisions", 3),
        "plot": lambda: call("plot", run, "--to", out / "x.png"),
        "status": lambda: call("study", "status", "small", *where),
        "export": lambda: call("study", "export", "small", *where, "--to", out / "x.csv"),
        "power": lambda: call("study", "power", "small", *where),
        "clean": lambda: call("study", "clean", "small", *where),
    }


def try_damaged_files(whole: Path, place: Path, times: int, seed: int) -> Counter:
    """Damage one file of a folder of results at a time, and give it to a command."""
    dice, count = random.Random(seed), Counter()
    for _ in range(times):
        root, out = place / "results", place / "out"
        shutil.copytree(whole, root)
        out.mkdir()
        path = dice.choice(sorted(p for p in root.rglob("*") if p.is_file() and p.stat().st_size))
        run = path
        while run.parent.name != "runs" and run != root:
            run = run.parent
        run = run if run != root else dice.choice(sorted((root / "runs").iterdir()))
        damage(path, dice)
        commands = commands_on(root, run, out)
        name = dice.choice(list(commands))
        code, said = commands[name]()
        count["damaged files read"] += 1
        count["told" if code == 2 else "read"] += 1
        if code not in (0, 1, 2) or "Traceback" in said:
            print(f"{name} with {path.relative_to(root)}: exit code {code}: {said[-300:]}")
            count["tracebacks"] += 1
        if code == 2 and any(out.iterdir()):
            print(f"{name} with {path.relative_to(root)} left {list(out.iterdir())}")
            count["half outputs"] += 1
        shutil.rmtree(root)
        shutil.rmtree(out)
    return count
