"""A study on a real Slurm ends with the results of an undisturbed local one, whatever happens."""

import signal
import subprocess
from pathlib import Path

import pytest

from bnmodes.runs.folder import RunFolder
from bnmodes.studies.launch.slurm_queue import job_states, queued_runs, run_states
from bnmodes.studies.results import run_path
from helpers.small_study import half_done, same_results, small_study, times_resumed
from slurm_cluster import slurm_cluster
from waiting import wait_for, wait_until_half_done

STUDY = ("study", "run", "small", "--seeds", 0, "--launcher", "slurm", "--time", "0:30:00")
ACTIVE = {"pending", "running", "requeued", "completing", "configuring"}


@pytest.fixture(scope="module", autouse=True)
def _slurm():
    with slurm_cluster():
        yield


@pytest.fixture
def start(bnmodes, tmp_path):
    """Start the study on Slurm, its results in `tmp_path / "results"`."""

    def start(*args):
        return bnmodes(*STUDY, "--out", tmp_path / "results", *args, log=tmp_path / "log")

    return start


def job_of(root: Path, folder: Path) -> str:
    jobs = queued_runs(root, job_states())
    return next(job for job, folders in jobs.items() if folder in folders)


def jobs_in_queue() -> list[str]:
    return [job for job, state in job_states().items() if state in ACTIVE]


def jobs_sent(root: Path) -> int:
    return len(list((root / "slurm").glob("*_submitted.pkl")))


@pytest.mark.parametrize(
    "disturb",
    [
        pytest.param(("scontrol", "requeue"), id="requeued by the site"),
        pytest.param(("scancel",), id="cancelled by hand"),
        # Once: scancel would repeat a signal to task 0 while other tasks of the array wait.
        pytest.param(("timeout", "2", "scancel", "--signal=USR2"), id="its time is nearly over"),
    ],
)
def test_a_job_disturbed_in_the_middle_changes_no_result(disturb, start, tmp_path, undisturbed):
    root = tmp_path / "results"
    study = start("--runs-per-job", 2, "--jobs", 2, "--partition", "short")
    folder = wait_until_half_done(root, study)[0]
    job = job_of(root, folder)
    assert run_states(root)[folder] == "running"
    subprocess.run([*disturb, job], check=False)
    if disturb != ("scancel",):
        wait_for(lambda: run_states(root).get(folder) == "requeued", study)
    assert study.wait() == 0, (tmp_path / "log").read_text()
    assert times_resumed(root) > 0
    assert same_results(root, undisturbed)
    assert not jobs_in_queue()


def test_ctrl_c_empties_the_queue_and_the_same_command_goes_on(
    start, bnmodes, tmp_path, undisturbed
):
    root = tmp_path / "results"
    study = start("--jobs", 1)
    wait_until_half_done(root, study)
    study.send_signal(signal.SIGINT)
    assert study.wait() == 130, (tmp_path / "log").read_text()
    assert not jobs_in_queue()
    assert [folder for folder in half_done(root) if (folder.path / "checkpoints").exists()]
    assert not any(RunFolder(run_path(root, run)).in_use() for run in small_study().runs)
    assert start().wait() == 0
    assert times_resumed(root) > 0
    assert same_results(root, undisturbed)


def test_jobs_of_a_launcher_that_died_are_taken_over(start, bnmodes, tmp_path, undisturbed):
    root = tmp_path / "results"
    study = start("--jobs", 1)
    wait_until_half_done(root, study)
    study.kill()
    study.wait()
    assert len(jobs_in_queue()) > 1
    log = tmp_path / "status"
    assert bnmodes("study", "status", "small", "--seeds", 0, "--out", root, log=log).wait() == 0
    assert "1 running" in log.read_text()
    assert "pending" in log.read_text()
    assert start().wait() == 0
    assert jobs_sent(root) == 4, "each run was sent once"
    assert times_resumed(root) == 0
    assert same_results(root, undisturbed)


def test_what_slurm_refuses_is_a_sentence(start, tmp_path):
    assert start("--partition", "nowhere").wait() == 2
    lines = (tmp_path / "log").read_text().splitlines()
    (said,) = [line for line in lines if not line.startswith("note: ")]
    assert said.startswith("bnmodes: Slurm refuses the jobs: ")
