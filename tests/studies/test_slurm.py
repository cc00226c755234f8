"""The Slurm launcher against tools that only write down what they are told; the real ones are in
tests/cluster."""

import json
import os
import pickle
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from bnmodes.errors import UsageError
from bnmodes.studies.launch.outcome import EXIT_IN_USE, outcome_of
from bnmodes.studies.launch.slurm import JobRequest, SlurmLauncher
from bnmodes.studies.launch.slurm_job import RunsOfAJob, codes_path, environment_of
from bnmodes.studies.launch.slurm_queue import run_states
from bnmodes.studies.launch.worker_command import WorkerCommand, WorkerOptions
from bnmodes.studies.results import log_path, run_path
from bnmodes.studies.status import status_table
from helpers.finished import mark_finished
from helpers.small_study import small_study

RUNS = small_study().runs


class Tools:
    """Slurm's commands in a folder of their own: sbatch counts jobs, squeue says `states`."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.told = folder / "told"
        self._write("sbatch", f'cat "$1" >> {self.told}; echo . >> {folder}/sent; '
                              f'echo "Submitted batch job $(wc -l < {folder}/sent)"')  # fmt: skip
        self._write("squeue", f"cat {folder}/states")
        for name in ("scancel", "scontrol"):
            self._write(name, f'echo {name} "$@" >> {self.told}')
        self._write("srun", "")
        self.say({})

    def _write(self, name: str, body: str) -> None:
        path = self.folder / name
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(0o755)

    def say(self, states: dict[str, str]) -> None:
        rows = [f"{job} {state} 0\n" for job, state in states.items()]
        (self.folder / "states").write_text("".join(rows))

    def refuse(self) -> None:
        self._write(
            "sbatch",
            "echo sbatch: error: no >&2; echo sbatch: error: invalid partition >&2; exit 1",
        )

    def fall_silent(self) -> None:
        self._write("squeue", "exit 1")


@pytest.fixture
def tools(tmp_path, monkeypatch) -> Tools:
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return Tools(folder)


@pytest.fixture
def root(tmp_path) -> Path:
    return tmp_path / "results"


def launcher(root: Path, jobs: int = 2, **request) -> SlurmLauncher:
    asked = {"time_minutes": 60, "memory_gb": 2.0, "runs": 1} | request
    return SlurmLauncher(root, jobs, JobRequest(**asked), WorkerOptions())


def submit(engine: SlurmLauncher, root: Path, runs) -> None:
    for run in runs:
        engine.submit(run, run_path(root, run), log_path(root, run))


def result(root: Path, job: str, *codes: int) -> None:
    """As the job leaves it on its node."""
    codes_path(root / "slurm", job).write_text(json.dumps(codes))


def kinds(outcomes) -> dict[Path, str]:
    return {folder: outcome.kind for folder, outcome in outcomes.items()}


def test_a_round_of_runs_is_one_array_of_jobs_with_bounded_concurrency(tools, root):
    engine = launcher(root, jobs=3, partition="gpu", gpus=1, runs=2)
    submit(engine, root, RUNS)
    engine.poll()
    script = tools.told.read_text()
    for line in (
        "--array=0-3%3",
        "--partition=gpu",
        "--time=60",
        "--cpus-per-task=2",
        "--gpus-per-node=1",
        "--mem=5000MB",
        "--signal=USR2@600",
        "--requeue",
    ):
        assert f"#SBATCH {line}\n" in script
    assert script.count("#!/bin/bash") == 1
    assert "--cpus-per-task=2" in next(x for x in script.splitlines() if x.startswith("srun"))


def test_all_runs_are_sent_though_few_jobs_may_go_on_at_once(tools, root):
    engine = launcher(root, jobs=1)
    assert engine.free_places() >= len(RUNS)
    submit(engine, root, RUNS[:-1])
    queue = {f"1_{i}": "PENDING" for i in range(len(RUNS) - 1)}
    tools.say(queue)
    assert engine.poll() == {}
    submit(engine, root, RUNS[-1:])
    engine.poll()
    assert tools.told.read_text().count("#!/bin/bash") == 1, "this one waits for a place"
    tools.say({job: "CANCELLED" for job in queue})
    engine.poll()
    engine.poll()
    assert tools.told.read_text().count("#!/bin/bash") == 2


def test_a_later_array_gets_the_places_that_an_earlier_one_leaves(tools, root):
    engine = launcher(root, jobs=3)
    submit(engine, root, RUNS[:2])
    tools.say({"1_0": "RUNNING", "1_1": "RUNNING"})
    engine.poll()
    submit(engine, root, RUNS[2:6])
    queue = {f"2_{i}": "PENDING" for i in range(4)}
    tools.say({"1_0": "RUNNING", "1_1": "RUNNING", **queue})
    engine.poll()
    assert "--array=0-3%1\n" in tools.told.read_text()
    tools.say({"1_0": "CANCELLED", "1_1": "RUNNING", **queue})
    engine.poll()
    assert tools.told.read_text().endswith("scontrol update JobId=2 ArrayTaskThrottle=2\n")


def test_each_run_of_a_job_has_its_own_ending(tools, root):
    engine = launcher(root, runs=4)
    submit(engine, root, RUNS[:4])
    tools.say({"1": "RUNNING"})
    assert engine.poll() == {}
    done = run_path(root, RUNS[0])
    done.mkdir(parents=True)
    result(root, "1", 0, EXIT_IN_USE, 2, -signal.SIGSEGV)
    tools.say({"1": "COMPLETED"})
    assert engine.poll() == {}, "the mark of the finished run is not visible on this machine yet"
    mark_finished(done)
    endings = kinds(engine.poll())
    assert [endings[run_path(root, run)] for run in RUNS[:4]] == [
        "ended", "in use", "failed", "failed",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("state", "ending"),
    [
        ("CANCELLED", "stopped"),
        ("PREEMPTED", "stopped"),
        ("NODE_FAIL", "stopped"),
        ("OUT_OF_MEMORY", "failed"),
        ("TIMEOUT", "failed"),
        ("FAILED", "failed"),
        (None, "failed"),
        ("COMPLETED", None),
        ("RUNNING", None),
        ("COMPLETING", None),
        ("SUSPENDED", None),
    ],
)
def test_a_job_without_result_ends_by_its_state(tools, root, state, ending):
    engine = launcher(root)
    submit(engine, root, RUNS[:1])
    tools.say({"1": "PENDING"})
    engine.poll()
    tools.say({"1": state} if state else {})
    outcomes = engine.poll()
    assert kinds(outcomes) == ({run_path(root, RUNS[0]): ending} if ending else {})
    if ending == "failed":
        assert "Slurm job 1" in outcomes[run_path(root, RUNS[0])].reason


def test_array_tasks_cancelled_before_they_began_were_stopped(tools, root):
    engine = launcher(root)
    submit(engine, root, RUNS[:2])
    tools.say({"1_0": "RUNNING", "1_1": "PENDING"})
    engine.poll()
    tools.say({"1_0": "RUNNING", "1": "CANCELLED"})
    assert kinds(engine.poll()) == {run_path(root, RUNS[1]): "stopped"}


def test_a_silent_controller_ends_nothing(tools, root):
    engine = launcher(root)
    submit(engine, root, RUNS[:1])
    tools.say({"1": "RUNNING"})
    engine.poll()
    tools.fall_silent()
    assert engine.poll() == {}
    with pytest.raises(UsageError, match="Slurm does not answer"):
        launcher(root)


def test_a_refused_request_is_a_sentence_unless_others_are_under_way(tools, root):
    engine = launcher(root)
    submit(engine, root, RUNS[:1])
    tools.say({"1": "RUNNING"})
    engine.poll()
    tools.refuse()
    submit(engine, root, RUNS[1:2])
    assert engine.poll() == {}
    with pytest.raises(UsageError, match=r"^Slurm refuses the jobs: invalid partition$"):
        submit_and_poll(launcher(root / "another"), root)


def submit_and_poll(engine: SlurmLauncher, root: Path) -> None:
    submit(engine, root, RUNS[:1])
    engine.poll()


def test_runs_that_a_dead_launcher_left_in_the_queue_are_not_sent_again(tools, root):
    submit_and_poll(launcher(root), root)
    tools.say({"1": "PENDING", "77": "PENDING"})
    engine = launcher(root)
    submit(engine, root, RUNS[:2])
    tools.say({"1": "RUNNING", "2": "RUNNING"})
    assert engine.poll() == {}
    assert len(list((root / "slurm").glob("*_submitted.pkl"))) == 2
    tools.say({"1": "CANCELLED", "2": "RUNNING"})
    assert kinds(engine.poll()) == {run_path(root, RUNS[0]): "stopped"}


def test_ctrl_c_also_ends_jobs_that_were_taken_over(tools, root, monkeypatch):
    """As many as may go on at once: no run of this launcher was sent."""
    before = launcher(root)
    submit(before, root, RUNS[:2])
    before.poll()
    left = {"1_0": "RUNNING", "1_1": "PENDING"}
    tools.say(left)
    engine = launcher(root, jobs=1)
    assert engine.free_places() > 0, "they are submitted again, to be looked after"
    submit(engine, root, RUNS[:3])
    assert engine.poll() == {}
    monkeypatch.setattr("time.sleep", lambda seconds: tools.say({}))
    engine.cancel()
    told = tools.told.read_text()
    assert "scancel --quiet 1_1\nscancel --quiet --signal=USR2 1_0\n" in told
    assert kinds(engine.poll()) == {run_path(root, run): "stopped" for run in RUNS[:3]}


def test_cancelling_tells_running_jobs_and_removes_waiting_ones(tools, root, monkeypatch):
    engine = launcher(root)
    submit(engine, root, RUNS[:2])
    tools.say({"1_0": "RUNNING", "1_1": "PENDING"})
    engine.poll()
    submit(engine, root, RUNS[2:3])
    monkeypatch.setattr("time.sleep", lambda seconds: tools.say({}))
    engine.cancel()
    told = tools.told.read_text()
    assert "scancel --quiet 1_1\nscancel --quiet --signal=USR2 1_0\n" in told
    assert kinds(engine.poll()) == {run_path(root, run): "stopped" for run in RUNS[:3]}


class Planted:
    """Unpickling it writes a file."""

    def __init__(self, path: Path):
        self.path = path

    def __reduce__(self):
        return (Path.touch, (self.path,))


def test_nothing_pickled_in_a_folder_of_results_is_read(tools, root):
    """Someone else's folder: `study status`, and a launcher, with a planted queue and result."""
    (root / "slurm").mkdir(parents=True)
    for name in ("1_submitted.pkl", "1_0_result.pkl"):
        (root / "slurm" / name).write_bytes(pickle.dumps(Planted(root / "executed")))
    (root / "slurm" / "1-runs.json").write_text('["../../outside", 5]')
    (root / "slurm" / "1-codes.json").write_text('[["deep"]]')
    tools.say({"1": "PENDING"})
    assert run_states(root) == {}
    engine = launcher(root)
    submit(engine, root, RUNS[:1])
    tools.say({"1": "FAILED"})
    engine.poll()
    assert not (root / "executed").exists()


def test_the_queue_stands_beside_what_the_files_say(tools, root):
    assert run_states(root) is None, "nothing was sent from here"
    engine = launcher(root)
    submit(engine, root, RUNS[:3])
    engine.poll()
    (tools.folder / "states").write_text("1_0 RUNNING 1\n1_1 PENDING 0\n1_2 PENDING 2\n")
    states = run_states(root)
    expected = ["running", "pending", "requeued"]
    assert [states[run_path(root, run)] for run in RUNS[:3]] == expected
    *_, queue = status_table(small_study(), root, states).columns
    assert list(queue.cells) == ["1 pending, 1 requeued, 1 running", ""]
    tools.fall_silent()
    assert run_states(root) is None


def test_a_jobs_accelerators_are_dealt_out_in_turn():
    job = {"CUDA_VISIBLE_DEVICES": "4,6", "HOME": "/root"}
    seen = [environment_of(number, job)["CUDA_VISIBLE_DEVICES"] for number in range(3)]
    assert seen == ["4", "6", "4"]
    assert environment_of(1, {"HOME": "/root"}) == {"HOME": "/root"}


JOB = """
import sys
from pathlib import Path
from bnmodes.studies.launch import worker_command as module
from bnmodes.studies.launch.slurm_job import RunsOfAJob
class Command(module.WorkerCommand):
    def start(self, environment):
        import subprocess
        return subprocess.Popen([sys.executable, "-c", self.task_json])
commands = [Command(code, Path(), Path()) for code in sys.argv[1:]]
RunsOfAJob(tuple(commands), Path.cwd())()
"""


def test_a_jobs_result_says_how_each_worker_ended(tmp_path):
    workers = [
        "",
        "raise SystemExit(2)",
        "raise SystemExit(130)",
        "import os; os.kill(os.getpid(), 15)",
    ]
    task = os.environ | {"SLURM_ARRAY_JOB_ID": "71", "SLURM_ARRAY_TASK_ID": "3"}
    subprocess.run([sys.executable, "-c", JOB, *workers], cwd=tmp_path, env=task, check=True)
    codes = json.loads((tmp_path / "71_3-codes.json").read_text())
    assert [outcome_of(code).kind for code in codes] == ["ended", "failed", "stopped", "stopped"]


def test_upon_the_signal_a_job_waits_for_its_workers_and_asks_for_the_same_again(tmp_path):
    command = WorkerCommand("", tmp_path, tmp_path / "log")
    job = RunsOfAJob((command,), tmp_path)
    slow = (
        "import signal, sys, time; signal.signal(15, lambda *_: (time.sleep(0.3), sys.exit(130)))"
    )
    worker = subprocess.Popen(
        [sys.executable, "-c", f"{slow}; print(flush=True); time.sleep(60)"], stdout=subprocess.PIPE
    )
    worker.stdout.readline()
    job._processes = [worker]
    again = job.checkpoint().function
    assert not Path(f"/proc/{worker.pid}").exists()
    assert again.commands == (command,)
    worker.stdout.close()
    worker.wait()
