"""SIGKILL at random moments of runs and of studies, in the middle of writes too."""

import random
import shutil
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from bnmodes.runs.folder import RunFolder
from bnmodes.runs.spec import RunSpec
from bnmodes.runs.stopping import StopRequest
from bnmodes.studies.results import run_path
from bnmodes.studies.schedule import run_study
from bnmodes.studies.study import Study
from faults.children import Child, ForkingLauncher, fork, training
from helpers.run_specs import make_pqn_spec, make_small_actor_critic_spec, make_spec

SPECS: Mapping[str, RunSpec] = {
    "C51, MinAtar": make_spec("minatar/breakout", "bn-tracked"),
    "C51, CartPole": make_spec("gymnasium/CartPole-v1", "bn-batch"),
    "PQN, MinAtar": make_pqn_spec("minatar/space_invaders"),
    "TD3, MinAtar": make_small_actor_critic_spec("td3"),
    "XQC, MinAtar": make_small_actor_critic_spec("xqc"),
    "MR.Q, MinAtar": make_small_actor_critic_spec("mrq"),
}


def files_of(folder: Path) -> dict[str, bytes]:
    """What a result consists of; the mark is not in it, because it counts resumes."""
    names = ["metrics.jsonl", "final/checkpoints/1/arrays.safetensors"]
    return {name: (folder / name).read_bytes() for name in names}


def is_writing(folder: Path) -> bool:
    """Whether a checkpoint or a file written aside is there, unfinished."""
    return any(folder.glob("checkpoints/*.partial")) or any(folder.glob("*.tmp*"))


def wait_for_a_moment(child: Child, folder: Path, dice: random.Random) -> str:
    """A random one, or one in the middle of a write; which it was."""
    if dice.random() < 0.4:
        end = time.monotonic() + 2
        while child.poll() is None and time.monotonic() < end:
            if is_writing(folder):
                return "while writing"
            time.sleep(0.001)
        return "at random"
    time.sleep(dice.uniform(0.0, 0.6))
    return "at random"


def kill_runs(
    root: Path, kills: int, seed: int, specs: Mapping[str, RunSpec] = SPECS, a_run: int = 12
) -> Counter:
    """Each run is killed again and again, at most `a_run` times, until it is through; then it
    equals an undisturbed one."""
    dice, count = random.Random(seed), Counter()
    undisturbed = {}
    while count["kills"] < kills:
        name = list(specs)[count["runs"] % len(specs)]
        spec, folder = specs[name], root / f"killed {count['runs']}"
        if name not in undisturbed:
            path = root / f"undisturbed {name}"
            assert (child := fork(training(spec, path))).wait() == 0, child.said()
            undisturbed[name] = files_of(path)
        count += kill_until_through(spec, folder, dice, a_run)
        count["runs"] += 1
        count["lost or changed"] += files_of(folder) != undisturbed[name]
        count["damaged"] += RunFolder(folder).damage() is not None
        count["left over"] += is_writing(folder) or (folder / "checkpoints").exists()
        shutil.rmtree(folder)
    return count


def kill_until_through(spec: RunSpec, folder: Path, dice: random.Random, a_run: int) -> Counter:
    count = Counter()
    for attempt in range(100):
        child = fork(training(spec, folder))
        moment = wait_for_a_moment(child, folder, dice) if attempt < a_run else ""
        if not moment:
            child.wait()
        if child.poll() is None:
            child.kill()
            child.output.unlink()
            count["kills"] += 1
            count[f"kills {moment}"] += 1
            continue
        assert child.code == 0, child.said()
        child.output.unlink()
        return count
    raise AssertionError("it never gets through")


def kill_studies(root: Path, study: Study, kills: int, seed: int) -> Counter:
    """Launchers are killed, and workers too, until each study is through; two launchers at a time
    share every third folder."""
    dice, count = random.Random(seed), Counter()
    whole = root / "undisturbed"
    assert launch(study, whole).wait() == 0
    expected = results_of(study, whole)
    while count["kills"] < kills:
        folder = root / f"study {count['studies']}"
        together = 2 if count["studies"] % 3 == 2 else 1
        for _ in range(30):
            launchers = [launch(study, folder) for _ in range(together)]
            time.sleep(dice.uniform(0.1, 1.0))
            killed = [launcher for launcher in launchers if launcher.poll() is None]
            for launcher in killed:
                launcher.kill()
            count["kills"] += len(killed)
            wait_for_workers(study, folder)
            if not killed:
                break
        else:
            assert launch(study, folder).wait() == 0
        count["studies"] += 1
        count["lost or changed"] += results_of(study, folder) != expected
        count["failed"] += any(launcher.code != 0 for launcher in launchers if not killed)
        marks = list(folder.glob("runs/*/done.json"))
        count["doubled"] += len(marks) != len(study.runs)
        shutil.rmtree(folder)
    return count


def launch(study: Study, root: Path) -> Child:
    def work() -> int:
        stop = StopRequest()
        with stop.listening():
            schedule = run_study(study, root, ForkingLauncher(2), stop)
        return 1 if schedule.failed else 0

    return fork(work)


def results_of(study: Study, root: Path) -> dict[str, dict[str, bytes]]:
    return {str(run): files_of(run_path(root, run)) for run in study.runs}


def wait_for_workers(study: Study, root: Path) -> None:
    """They stop, with a checkpoint, once they notice that their launcher is gone."""
    end = time.monotonic() + 20
    while any(RunFolder(run_path(root, run)).in_use() for run in study.runs):
        assert time.monotonic() < end, "workers outlive their launcher"
        time.sleep(0.02)
