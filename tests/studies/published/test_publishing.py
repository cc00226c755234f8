"""What is published is what was run, and nothing that was published is lost."""

import json
import re
import shutil
from pathlib import Path

import polars as pl
import pytest

from bnmodes.analysis import publish
from bnmodes.runs.completion import checksum_of
from bnmodes.runs.folder import RunFolder
from bnmodes.runs.loop import train
from bnmodes.studies.published import read_published
from bnmodes.studies.results import gather, run_path
from helpers.published_study import (
    STUDY,
    another_study,
    everything_in,
    lose_table,
    reseal,
    rewrite_spec,
)


def test_a_page_says_what_was_found_and_how(published):
    page = (published / "README.md").read_text()
    about = json.loads((published / "study.json").read_text())
    assert "| C51 |" in page
    assert "bnmodes study run small" in page
    assert about["commit"] in page
    assert about["versions"]["torch"] in page
    for picture in re.findall(r"\]\((figures/.*?)\)", page):
        assert (published / picture).exists()
    size = sum(path.stat().st_size for path in published.rglob("*") if path.is_file())
    assert size < 1e6


def test_a_page_names_what_every_run_was_made_with(root, published, run, monkeypatch, tmp_path):
    monkeypatch.setattr(publish, "draw_all", lambda numbers: ())  # seconds
    mine = shutil.copytree(root, tmp_path / "mine")
    first, second, _ = (RunFolder(run_path(mine, one)) for one in STUDY.runs[:-1])
    ours = second.origin()
    rewrite_spec(
        second,
        versions=ours.versions | {"torch": "1.0"},
        python="2.7",
        commit="abc",
        machine="Slide Rule, 1 cores",
    )
    words = ("study", "publish", "small", "--out", mine, "--to", published)
    assert run(*words)[0] == 0
    page = " ".join((published / "README.md").read_text().split())
    assert f"commit {ours.commit} and abc; Python {ours.python} and 2.7, bnmodes" in page
    assert f"torch {ours.versions['torch']} and 1.0, " in page
    assert f"machine: {ours.machine} and Slide Rule, 1 cores. " in page

    rewrite_spec(first, commit=None, machine=None)  # as older versions wrote it
    code, _, err = run(*words)
    assert code == 2
    assert f"{STUDY.runs[0]}, does not record its commit: say with --commit" in err
    assert run(*words, "--commit", "older")[0] == 0
    about = json.loads((published / "study.json").read_text())
    assert about["commit"] == f"older and abc and {ours.commit}"
    assert about["machine"].startswith("not recorded and Slide Rule")

    assert run("study", "import", published, "--out", tmp_path / "imported")[0] == 0
    imported = [RunFolder(run_path(tmp_path / "imported", one)) for one in STUDY.runs[:-1]]
    found = [(folder.origin().commit, folder.origin().machine) for folder in imported]
    assert found == [
        ("older", None),
        ("abc", "Slide Rule, 1 cores"),
        (ours.commit, ours.machine),
    ], "each run has its own"


def test_published_results_grow_by_the_runs_that_were_missing(root, published, run, tmp_path):
    """Imported, the study goes on, and is published whole: every number is that of its runs."""
    before, grown = read_published(published), tmp_path / "grown"
    assert run("study", "import", published, "--out", grown)[0] == 0
    train(STUDY.runs[-1].spec, run_path(grown, STUDY.runs[-1]), show_progress=False)
    code, _, err = run("study", "publish", "small", "--out", grown, "--to", published)
    assert code == 0, err

    whole = shutil.copytree(root, tmp_path / "whole")
    shutil.copytree(run_path(grown, STUDY.runs[-1]), run_path(whole, STUDY.runs[-1]))
    wanted = set(before.numbers["metric"])
    rows = [
        results.rows(wanted).sort("arm", "game", "seed", "metric", "decision")
        for results in (gather(STUDY, whole), read_published(published).results(STUDY))
    ]
    assert rows[0].equals(rows[1])
    assert len(rows[0]) > len(before.numbers)
    assert read_published(published).runs[:3] == before.runs, "their files as they were"
    assert run("study", "import", published, "--out", tmp_path / "again")[0] == 0
    assert gather(STUDY, tmp_path / "again").missing == ()


def add_letter(folder):
    (folder / "letter.txt").write_text("hello")


def add_letter_to_figures(folder):
    (folder / "figures" / "letter.txt").write_text("hello")


def only_a_letter(folder):
    shutil.rmtree(folder)
    folder.mkdir()
    add_letter(folder)


def another_description(folder):
    """A file that is called study.json, beside nothing of ours."""
    shutil.rmtree(folder)
    folder.mkdir()
    (folder / "study.json").write_text("{}")


def a_file(folder):
    shutil.rmtree(folder)
    folder.write_text("hello")


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (add_letter, "holds something else (letter.txt)"),
        (add_letter_to_figures, "holds something else (figures/letter.txt)"),
        (only_a_letter, "holds something else (letter.txt)"),
        (another_description, "would be replaced, but"),
        (lose_table, "would be replaced, but"),
        (another_study, "holds results of study demo"),
        (a_file, "is no folder"),
    ],
)
def test_a_folder_that_holds_something_else_is_not_replaced(
    root, published, run, monkeypatch, change, sentence
):
    monkeypatch.setattr(publish, "draw_all", lambda numbers: ())  # seconds
    change(published)
    before = everything_in(published.parent)
    code, _, err = run("study", "publish", "small", "--out", root, "--to", published)
    assert code == 2
    assert sentence in " ".join(err.split())
    assert everything_in(published.parent) == before


def test_an_empty_folder_is_written_into(root, run, monkeypatch, tmp_path):
    monkeypatch.setattr(publish, "draw_all", lambda numbers: ())  # seconds
    (tmp_path / "empty").mkdir()
    assert run("study", "publish", "small", "--out", root, "--to", tmp_path / "empty")[0] == 0
    assert read_published(tmp_path / "empty").study == "small"


def test_the_former_folder_comes_back_if_the_new_one_cannot_take_its_place(
    root, published, run, monkeypatch
):
    before = everything_in(published.parent)
    rename = Path.rename

    def fail_once(path, target):
        if target == published and path.name == published.name:
            raise OSError(28, "No space left on device")
        return rename(path, target)

    monkeypatch.setattr(publish, "draw_all", lambda numbers: ())  # seconds
    monkeypatch.setattr(Path, "rename", fail_once)
    code, _, err = run("study", "publish", "small", "--out", root, "--to", published)
    assert code != 0
    assert "No space left" in err
    assert everything_in(published.parent) == before


def test_a_part_does_not_take_the_place_of_the_whole(root, published, run, monkeypatch):
    monkeypatch.setattr(publish, "draw_all", lambda numbers: ())  # seconds
    before = everything_in(published.parent)
    words = ("study", "publish", "small", "--arms", "C51", "--out", root, "--to", published)
    code, _, err = run(*words)
    assert (code, "that would be lost" in err) == (2, True)
    assert everything_in(published.parent) == before


def test_runs_that_are_gone_are_not_taken_out_of_what_was_published(
    root, published, run, monkeypatch, tmp_path
):
    """A declared run that is missing or damaged in the folder of results would be lost too."""
    monkeypatch.setattr(publish, "draw_all", lambda numbers: ())  # seconds
    mine = shutil.copytree(root, tmp_path / "mine")
    shutil.rmtree(run_path(mine, STUDY.runs[0]))
    before = everything_in(published.parent)
    code, _, err = run("study", "publish", "small", "--out", mine, "--to", published)
    assert (code, "holds 1 run that would be lost" in " ".join(err.split())) == (2, True)
    assert everything_in(published.parent) == before


def test_runs_imported_by_an_older_version_are_not_published_as_originals(
    published, run, monkeypatch, tmp_path
):
    monkeypatch.setattr(publish, "draw_all", lambda numbers: ())  # seconds
    assert run("study", "import", published, "--out", tmp_path / "mine")[0] == 0
    folder = RunFolder(run_path(tmp_path / "mine", STUDY.runs[0]))
    folder.published_path.unlink()
    done = json.loads(folder.done_path.read_text())
    del done["sha256"]["published.json"], done["checksum"]
    folder.done_path.write_text(json.dumps(done | {"checksum": checksum_of(done)}))
    before = everything_in(published)
    code, _, err = run("study", "publish", "small", "--out", tmp_path / "mine", "--to", published)
    assert (code, "imported by an older version" in err) == (2, True)
    assert everything_in(published) == before


def test_a_page_says_which_runs_are_missing_and_which_lack_a_quantity(
    root, published, run, tmp_path
):
    page = (published / "README.md").read_text()
    assert "1 of 4 runs missing" in page
    assert "mean returns are of all finished runs." in page
    assert "some of the measured quantities" not in page
    numbers = pl.read_parquet(published / "numbers.parquet")
    first = read_published(published).runs[0].run
    fewer = numbers.filter((pl.col("run") != first) | ~pl.col("metric").str.contains("rank"))
    assert len(fewer) < len(numbers)
    fewer.write_parquet(published / "numbers.parquet")
    reseal(published)
    assert run("study", "import", published, "--out", tmp_path / "mine")[0] == 0
    words = ("study", "publish", "small", "--out", tmp_path / "mine", "--to", published)
    assert run(*words)[0] == 0
    page = (published / "README.md").read_text()
    assert "1 run lacks some of the measured quantities below." in page


def test_a_page_says_which_part_of_the_study_it_has(root, run, monkeypatch, tmp_path):
    """Also where nobody named a part: arms, games and seeds without a run are none of it."""
    monkeypatch.setattr(publish, "draw_all", lambda numbers: ())  # seconds
    mine, folder = tmp_path / "mine", tmp_path / "part"
    shutil.copytree(run_path(root, STUDY.runs[0]), run_path(mine, STUDY.runs[0]))
    assert run("study", "publish", "small", "--out", mine, "--to", folder)[0] == 0
    arm, seed = STUDY.runs[0].arm, STUDY.runs[0].seed
    about = json.loads((folder / "study.json").read_text())
    assert about["command"] == f"bnmodes study run small --arms {arm} --seeds {seed}"
    assert "A part of the study: 1 of 2 arms, 1 of 2 seeds." in (folder / "README.md").read_text()


def test_published_again_takes_the_place_of_the_former(root, published, run, monkeypatch):
    monkeypatch.setattr(publish, "draw_all", lambda numbers: ())  # seconds
    (published / "figures" / "old.png").write_bytes(b"")
    assert run("study", "publish", "small", "--out", root, "--to", published)[0] == 0
    assert not (published / "figures" / "old.png").exists()
    assert [path.name for path in published.parent.iterdir()] == ["small"]
