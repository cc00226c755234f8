"""Damage in a folder of results: found, named and set aside; links in it are not followed."""

import os
import shutil
import time
from pathlib import Path

import pytest

import bnmodes
from bnmodes.errors import UsageError
from bnmodes.runs.folder import RunFolder
from bnmodes.runs.loop import train
from bnmodes.runs.stopping import StopRequest
from bnmodes.studies.launch.outcome import Outcome
from bnmodes.studies.registry import STUDIES
from bnmodes.studies.results import gather, run_path
from bnmodes.studies.schedule import STOPS, run_study
from bnmodes.studies.status import _progress_cells, progress_of, status_table
from helpers.finished import mark_finished
from helpers.small_study import small_study

STUDY = small_study(games=("probe/chain",), seeds=(0,), total_decisions=60)
OTHER, CHANGED = STUDY.runs  # the first is the reference


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("whole")
    for run in STUDY.runs:
        train(run.spec, run_path(root, run))
    return root


@pytest.fixture
def root(whole, tmp_path, monkeypatch) -> Path:
    monkeypatch.setitem(STUDIES, "small", STUDY)
    shutil.copytree(whole, tmp_path / "results")
    return tmp_path / "results"


def change_a_return(root: Path) -> Path:
    path = run_path(root, CHANGED) / "metrics.jsonl"
    path.write_text(path.read_text().replace('"return": ', '"return": 7', 1))
    return path


class FinishingLauncher:
    """Finishes whatever it is given, at once."""

    poll_seconds = 0.0

    def __init__(self, ending="ended"):
        self.submitted, self.pending, self.ending = [], [], ending

    def free_places(self):
        return 1

    def submit(self, run, folder, log):
        self.submitted.append(run)
        self.pending.append(folder)
        if self.ending == "ended":
            mark_finished(folder)

    def poll(self):
        ended, self.pending = self.pending, []
        return {folder: Outcome(self.ending) for folder in ended}

    def cancel(self):
        pass


def test_a_changed_result_is_named_and_left_out(root, run):
    path = change_a_return(root)
    results = gather(STUDY, root)
    assert results.missing == (CHANGED,)
    assert str(path) in results.damaged[CHANGED]
    code, out, _ = run("study", "report", "small", "--out", root)
    assert code == 2
    assert f"{path} is not what it was when the run finished" in out
    assert run("study", "report", "small", "--out", root, "--allow-missing")[0] == 0
    assert str(path) in (root / "small.html").read_text()
    code, out, _ = run("study", "export", "small", "--out", root, "--to", root / "t.csv")
    assert code == 0
    assert str(path) in out


def test_another_runs_metrics_are_not_this_runs(root):
    shutil.copy(run_path(root, OTHER) / "metrics.jsonl", run_path(root, CHANGED) / "metrics.jsonl")
    assert gather(STUDY, root).missing == (CHANGED,)


def test_results_in_python_say_what_is_left_out(root, capsys):
    path = change_a_return(root)
    found = bnmodes.results("small", out=root)
    assert found["arm"].unique().to_list() == [OTHER.arm]
    said = capsys.readouterr().out
    assert str(path) in said
    assert "1 of 2 runs missing" in said


def test_clean_keeps_a_finished_run_whose_mark_was_changed(root, run):
    mark = run_path(root, CHANGED) / "done.json"
    mark.write_text(mark.read_text().replace('"resumes": 0', '"resumes": 1'))
    _, out, _ = run("study", "clean", "small", "--out", root, "--yes")
    assert f"{mark} is damaged" in out
    assert (mark.parent / "metrics.jsonl").exists()
    assert "nothing is half-done" in out


def test_status_counts_a_changed_result_as_damaged(root, run):
    path = change_a_return(root)
    _, out, _ = run("study", "status", "small", "--out", root)
    header, _, row, *notes = out.splitlines()
    assert header.split()[-1] == "damaged"
    assert row.split()[-5:] == ["0", "0", "0", "0", "1"]
    assert str(path) in " ".join(notes)


def test_a_study_sets_a_changed_result_aside_and_makes_it_again(root, capsys):
    path = change_a_return(root)
    content, launcher = path.read_bytes(), FinishingLauncher()
    schedule = run_study(STUDY, root, launcher, StopRequest())
    assert launcher.submitted == [CHANGED]
    assert len(schedule.done) == 2
    kept = root / "damaged" / f"{CHANGED.spec.content_hash}-1"
    assert (kept / "metrics.jsonl").read_bytes() == content
    assert str(kept) in capsys.readouterr().out
    assert not (root / "runs" / kept.name).exists()


def test_a_run_stopped_again_and_again_without_getting_on_is_left(root, capsys):
    shutil.rmtree(run_path(root, CHANGED))
    launcher = FinishingLauncher("stopped")
    schedule = run_study(STUDY, root, launcher, StopRequest())
    assert schedule.failed == [CHANGED]
    assert len(launcher.submitted) == STOPS
    assert "stopped from outside" in capsys.readouterr().out


def test_a_folder_of_results_that_disappears_stops_the_study(root):
    shutil.rmtree(run_path(root, CHANGED))

    class Deleting(FinishingLauncher):
        def submit(self, run, folder, log):
            shutil.rmtree(root)

    with pytest.raises(UsageError, match="has disappeared"):
        run_study(STUDY, root, Deleting(), StopRequest())
    assert not root.exists(), "it is not made anew"


@pytest.fixture
def thesis(tmp_path) -> Path:
    path = tmp_path / "thesis"
    path.mkdir()
    (path / "chapter.txt").write_text("years of work")
    (path / "7").mkdir()
    (path / "7" / "page").write_text("more years")
    return path


def untouched(thesis: Path) -> bool:
    return (
        sorted(path.name for path in thesis.rglob("*")) == ["7", "chapter.txt", "page"]
        and (thesis / "chapter.txt").read_text() == "years of work"
        and (thesis / "7" / "page").read_text() == "more years"
    )


@pytest.mark.parametrize("command", [("clean", "small", "--yes"), ("run", "small", "--jobs", "1")])
@pytest.mark.parametrize(
    ("link", "target"),
    [
        ("runs/HASH/lock", "chapter.txt"), ("runs/HASH/checkpoints", "."), ("runs/HASH", "."),
        ("runs/HASH/metrics.jsonl", "chapter.txt"), ("logs/HASH.log", "chapter.txt"),
        ("logs", "."), ("runs/HASH/final", "."), ("studies/small", "chapter.txt"),
    ],
)  # fmt: skip
def test_no_link_is_followed_out_of_a_folder_of_results(root, run, thesis, command, link, target):
    """The run is half-done, so that `clean` wants to delete it and `run` to go on with it."""
    (run_path(root, CHANGED) / "done.json").unlink()
    place = root / link.replace("HASH", CHANGED.spec.content_hash)
    place.parent.mkdir(exist_ok=True)
    if place.is_dir() and not place.is_symlink():
        shutil.rmtree(place)
    place.unlink(missing_ok=True)
    place.symlink_to(thesis / target)
    code, out, err = run("study", *command, "--out", root)
    assert untouched(thesis)
    assert "Traceback" not in out + err
    if command[0] == "run":
        assert code in (1, 2)
        assert "is a link" in out + err


def test_a_lock_that_is_no_file_is_a_sentence_and_no_wait(root, run):
    folder = run_path(root, CHANGED)
    (folder / "done.json").unlink()
    (folder / "lock").unlink()
    (folder / "lock").mkdir()
    code, _, err = run("study", "run", "small", "--out", root)
    assert code == 2
    assert "lock cannot be looked at" in err


def test_names_of_studies_and_figures_cannot_leave_the_folder():
    with pytest.raises(UsageError, match="is used as a file's name"):
        small_study(name="../outside").validate()


def test_a_run_records_no_environment_variables(tmp_path, monkeypatch):
    monkeypatch.setenv("BNMODES_SECRET", "do-not-record")
    train(CHANGED.spec, tmp_path)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(files) > 5
    assert not any(b"do-not-record" in path.read_bytes() for path in files)


@pytest.mark.parametrize("said", [b"\xff", b"[]", b"5", b"{}", b'{"decision": "x"}', b"[" * 99999])
def test_a_damaged_progress_file_stops_no_table(tmp_path, said):
    path = run_path(tmp_path, CHANGED)
    path.mkdir(parents=True)
    (path / "progress.json").write_bytes(said)
    assert not progress_of(path)["decision"]
    assert _progress_cells(CHANGED, path)[1:] == ("", "", "")


def test_a_run_without_a_sign_of_life_is_shown_as_silent(tmp_path):
    folder = RunFolder(run_path(tmp_path, CHANGED))
    folder.path.mkdir(parents=True)
    folder.progress_path.write_text('{"decision": 5, "decisions_per_second": 3.0}')
    assert _progress_cells(CHANGED, folder.path)[1] == "3"
    os.utime(folder.progress_path, (0, time.time() - 190))
    assert _progress_cells(CHANGED, folder.path)[1] == "silent 3:10"
    with folder.locked():
        header, *_ = (column.header for column in status_table(STUDY, tmp_path).columns[-1:])
    assert header == "silent"
