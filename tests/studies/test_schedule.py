import contextlib
import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import polars as pl
import pytest

from bnmodes.errors import UsageError
from bnmodes.runs.folder import RunFolder
from bnmodes.runs.loop import train
from bnmodes.runs.stopping import StopRequest
from bnmodes.studies.launch.local import LocalLauncher
from bnmodes.studies.launch.outcome import Outcome
from bnmodes.studies.launch.worker_command import WorkerOptions
from bnmodes.studies.results import gather, log_path, run_path
from bnmodes.studies.schedule import run_study
from bnmodes.studies.study import Arm
from helpers import small_study as small_study_module
from helpers.finished import mark_finished
from helpers.small_study import half_done, same_results, small_study, times_resumed


def run_here(study, root):
    return run_study(study, root, LocalLauncher(2, WorkerOptions()), StopRequest())


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory) -> Path:
    """Workers train the last two runs only, since each process takes seconds to begin."""
    root = tmp_path_factory.mktemp("undisturbed")
    for run in small_study().runs[:-2]:
        train(run.spec, run_path(root, run), show_progress=False)
    schedule = run_here(small_study(), root)
    assert len(schedule.done) == 8
    assert not schedule.failed
    return root


def test_a_studys_runs_are_those_of_single_trainings(undisturbed, tmp_path):
    run = small_study().runs[-1]
    train(run.spec, tmp_path, show_progress=False)
    studied = run_path(undisturbed, run) / "metrics.jsonl"
    assert studied.read_text() == (tmp_path / "metrics.jsonl").read_text()


def test_a_finished_study_starts_nothing(undisturbed):
    schedule = run_study(small_study(), undisturbed, launcher=NoLauncher(), stop=StopRequest())
    assert len(schedule.done) == 8


class NoLauncher:
    poll_seconds = 0.0

    def free_places(self):
        return 1

    def submit(self, run, folder, log):
        pytest.fail(f"{run} was submitted")

    def poll(self):
        return {}

    def cancel(self):
        pass


class ScriptedLauncher:
    """Ends each run at the next poll, as its script says; finished runs get their mark."""

    poll_seconds = 0.0

    def __init__(self, endings):
        self.endings, self.submitted, self.pending = endings, [], {}

    def free_places(self):
        return 1 - len(self.pending)

    def submit(self, run, folder, log):
        self.submitted.append(run)
        log.parent.mkdir(exist_ok=True)
        log.write_text("line 1\nthe reason\n")
        self.pending[folder] = self.endings(run, self.submitted.count(run))

    def poll(self):
        ended, self.pending = self.pending, {}
        for folder, ending in ended.items():
            if ending == "ended":
                mark_finished(folder)
        return {folder: Outcome(ending, "of the script") for folder, ending in ended.items()}

    def cancel(self):
        pass


def test_the_longest_runs_come_first(tmp_path):
    arms = tuple(
        Arm(f"UTD {utd}", "none", changes={"updates_per_decision": utd}) for utd in (1.0, 8.0, 0.25)
    )
    launcher = ScriptedLauncher(lambda run, nth: "ended")
    study = small_study(arms=arms, games=("minatar/breakout",), seeds=(0,), reference="UTD 1.0")
    run_study(study, tmp_path, launcher, StopRequest())
    assert [run.arm for run in launcher.submitted] == ["UTD 8.0", "UTD 1.0", "UTD 0.25"]


def test_a_failing_run_is_tried_twice_and_reported_while_the_others_go_on(tmp_path, capsys):
    launcher = ScriptedLauncher(
        lambda run, nth: "failed" if run.arm == "C51" and run.seed == 0 else "ended"
    )
    study = small_study(games=("minatar/breakout",))
    schedule = run_study(study, tmp_path, launcher, StopRequest())
    assert [str(run) for run in schedule.failed] == ["C51 on minatar/breakout, seed 0"]
    assert len(schedule.done) == 3
    assert launcher.submitted.count(schedule.failed[0]) == 2
    assert "the reason" in capsys.readouterr().out


def test_a_run_that_was_stopped_and_then_fails_is_still_tried_again(tmp_path):
    endings = ["stopped", "failed", "ended"]
    launcher = ScriptedLauncher(lambda run, nth: endings[nth - 1])
    study = small_study(games=("minatar/breakout",), seeds=(0,))
    schedule = run_study(study, tmp_path, launcher, StopRequest())
    assert len(schedule.done) == 2
    assert not schedule.failed


def test_arms_of_one_seed_and_game_come_together_in_declared_order(tmp_path):
    games, seeds = ("minatar/space_invaders", "minatar/breakout"), (1, 0)
    study = small_study(games=games, seeds=seeds)
    launcher = ScriptedLauncher(lambda run, nth: "ended")
    run_study(study, tmp_path, launcher, StopRequest())
    assert [(run.seed, run.game, run.arm) for run in launcher.submitted] == [
        (seed, game, arm.name) for seed in seeds for game in games for arm in study.arms
    ]


def test_a_kill_while_a_folder_is_claimed_does_not_block_it(tmp_path):
    study = small_study(games=("probe/chain",), seeds=(0,), total_decisions=60)
    path = run_path(tmp_path, study.runs[0])
    path.mkdir(parents=True)
    (path / "lock").touch()
    (path / "spec.0123.tmp.json").write_text("{")
    assert len(run_here(study, tmp_path).done) == 2


def test_a_run_that_fails_once_is_done_in_the_end(tmp_path):
    launcher = ScriptedLauncher(lambda run, nth: "failed" if nth == 1 else "ended")
    schedule = run_study(small_study(), tmp_path, launcher, StopRequest())
    assert len(schedule.done) == 8
    assert not schedule.failed


def test_a_damaged_run_is_named_set_aside_and_made_again(tmp_path, capsys):
    study = small_study(games=("minatar/breakout",), seeds=(0,), total_decisions=60)
    broken = run_path(tmp_path, study.runs[0])
    broken.mkdir(parents=True)
    (broken / "spec.json").write_text("not JSON")
    (broken / "metrics.jsonl").write_text("precious\n")
    schedule = run_here(study, tmp_path)
    assert len(schedule.done) == 2
    assert "spec.json is damaged" in log_path(tmp_path, study.runs[0]).read_text()
    kept = tmp_path / "damaged" / f"{broken.name}-1"
    assert (kept / "metrics.jsonl").read_text() == "precious\n"
    said = capsys.readouterr().out
    assert "spec.json is damaged" in said
    assert f"its folder is now {kept}" in said


@pytest.mark.slow
def test_two_launchers_on_one_folder_share_the_work(tmp_path, undisturbed):
    command = [sys.executable, small_study_module.__file__, str(tmp_path)]
    launchers = [subprocess.Popen(command, stdout=subprocess.DEVNULL) for _ in range(2)]
    assert [launcher.wait() for launcher in launchers] == [0, 0]
    assert times_resumed(tmp_path) == 0, "no run was begun by one and gone on with by the other"
    assert same_results(tmp_path, undisturbed)


@pytest.mark.slow
def test_a_stop_keeps_everything_and_the_same_call_goes_on(tmp_path, undisturbed):
    stop = StopRequest()

    def stop_when_half_done():
        while not half_done(tmp_path):
            time.sleep(0.02)
        stop.requested = True

    threading.Thread(target=stop_when_half_done).start()
    schedule = run_study(small_study(), tmp_path, LocalLauncher(2, WorkerOptions()), stop)
    assert half_done(tmp_path)
    assert not schedule.running
    assert len(schedule.done) + len(schedule.waiting) == 8
    assert not any(RunFolder(run_path(tmp_path, run)).in_use() for run in small_study().runs)
    run_here(small_study(), tmp_path)
    assert times_resumed(tmp_path) > 0
    assert same_results(tmp_path, undisturbed)


def workers_of(root: Path) -> list[int]:
    found = subprocess.run(
        ["pgrep", "-f", f"bnmodes.studies.launch.worker {root}"], capture_output=True, text=True
    )
    return [int(pid) for pid in found.stdout.split()]


def kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


@pytest.mark.slow
def test_killing_launcher_and_workers_at_random_moments_changes_no_result(tmp_path, undisturbed):
    dice, interrupted = random.Random(1), 0
    command = [sys.executable, small_study_module.__file__, str(tmp_path)]
    for victim in ("worker", "launcher", "worker", "launcher", "none"):
        launcher = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        if victim == "none":
            assert launcher.wait() == 0
            break
        while launcher.poll() is None and not half_done(tmp_path):
            time.sleep(0.02)
        time.sleep(dice.random())
        if victim == "worker":
            for pid in workers_of(tmp_path):
                kill(pid)
            interrupted += len(half_done(tmp_path))
            time.sleep(2 * dice.random())
        interrupted += len(half_done(tmp_path))
        launcher.kill()
        launcher.wait()
        assert all_gone(tmp_path), "workers stop with their launcher"
    assert interrupted > 0
    assert times_resumed(tmp_path) > 0
    assert same_results(tmp_path, undisturbed)


def all_gone(root: Path) -> bool:
    for _ in range(200):
        if not workers_of(root):
            return True
        time.sleep(0.1)
    return False


def test_results_are_tidy_and_say_what_is_missing(undisturbed):
    results = gather(small_study(), undisturbed)
    assert not results.missing
    evaluation = results.frame.filter(pl.col("metric") == "evaluation/return")
    assert len(evaluation) == 8 * 3
    assert set(results.frame["metric"]) >= {"train/loss", "train/epsilon", "train/return"}
    larger = gather(small_study(seeds=(0, 1, 2)), undisturbed)
    assert [str(run) for run in larger.missing] == [
        f"{arm} on {game}, seed 2"
        for arm in ("C51", "BN batch")
        for game in ("minatar/breakout", "probe/chain")
    ]


def test_a_folder_of_another_study_or_of_something_else_is_refused(undisturbed, tmp_path):
    other = small_study(name="other", total_decisions=901)
    with pytest.raises(UsageError, match=r"no run of study other.*it holds small"):
        gather(other, undisturbed)
    with pytest.raises(UsageError, match=r"small in .* is finished yet: go on with `bnmodes study"):
        gather(small_study(total_decisions=901), undisturbed)
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(UsageError, match="holds other files"):
        run_here(small_study(), tmp_path)
    with pytest.raises(UsageError, match="holds no results"):
        gather(small_study(), tmp_path)
