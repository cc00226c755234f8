"""Results that are imported are the same results, and nothing else is taken."""

import re
import shutil
from pathlib import Path

import polars as pl
import pytest

from bnmodes.runs.folder import RunFolder
from bnmodes.studies.published import read_published
from bnmodes.studies.results import gather, run_path
from helpers.published_study import (
    STUDY,
    another_study,
    change_runs,
    everything_in,
    lose_table,
    reseal,
)


def numbers_of(page):
    """Every number that a report shows, in its order."""
    return re.findall(r'data-(?:point|low|high)="([^"]*)"', page.read_text())


def pictures_of(root):
    return {path.name: path.read_bytes() for path in (root / "small-figures").iterdir()}


def report(run, root):
    code, out, err = run("study", "report", "small", "--out", root, "--allow-missing")
    assert code == 0, err
    return out


def test_the_report_of_imported_runs_is_the_same_in_every_number_and_picture(
    root, published, run, tmp_path
):
    imported = tmp_path / "imported"
    code, out, err = run("study", "import", published, "--out", imported)
    assert code == 0, err
    assert "3 runs of small imported" in out
    assert f"`bnmodes study report small --allow-missing --out {imported}` draws them" in out

    said, said_of_imported = report(run, root), report(run, imported)
    assert "imported" not in said
    assert "all 3 finished runs were imported from published results, not run here" in (
        " ".join(said_of_imported.split())
    )
    numbers = numbers_of(root / "small.html")
    assert len(numbers) > 50
    assert numbers_of(imported / "small.html") == numbers
    assert pictures_of(imported) == pictures_of(root)
    assert "were imported" in (imported / "small.html").read_text()
    assert {path.name: path.read_bytes() for path in (published / "figures").iterdir()} == (
        pictures_of(root)
    )

    wanted = set(read_published(published).numbers["metric"])
    assert "evaluation/return" in wanted
    assert "train/loss" not in wanted, "no figure shows it"
    rows = [
        gather(STUDY, where).rows(wanted).sort("arm", "game", "seed", "metric", "decision")
        for where in (root, imported)
    ]
    assert rows[0].equals(rows[1])
    direct = read_published(published).results(STUDY)
    assert direct.rows(wanted).sort("arm", "game", "seed", "metric", "decision").equals(rows[0])
    assert direct.missing == STUDY.runs[-1:]


def test_a_folder_cannot_make_a_file_be_imported(published, run, monkeypatch, tmp_path):
    """Its study's file is named on the command line, or nothing of it is executed."""
    (tmp_path / "evil.py").write_text(
        "from pathlib import Path; Path(__file__).with_name('executed').touch()"
    )
    monkeypatch.chdir(tmp_path)
    for name in ("evil.py", "evil.py:STUDY", str(tmp_path / "evil.py")):
        reseal(published, study=name)
        code, _, err = run("study", "import", published, "--out", "imported")
        assert code == 2
        assert "give that file with --study" in " ".join(err.split())
        assert not Path("executed").exists()
        assert not Path("imported").exists()
    run("study", "import", published, "--out", "imported", "--study", "evil.py")
    assert Path("executed").exists(), "what the command line names is"


def test_imported_runs_are_marked_checked_and_never_made_again(published, run, tmp_path):
    imported = tmp_path / "imported"
    assert run("study", "import", published, "--out", imported)[0] == 0
    before = everything_in(imported / "runs")
    folder = RunFolder(run_path(imported, STUDY.runs[0]))
    assert folder.completion.imported
    assert folder.damage() is None
    assert folder.difference(STUDY.runs[0].spec) == ""
    assert set(folder.completion.sha256) == {"metrics.jsonl", "spec.json", "published.json"}

    code, out, _ = run("study", "status", "small", "--out", imported)
    assert (code, "imported" in out) == (0, True)
    one = ("--seeds", 0, "--out", imported)
    code, out, _ = run("study", "run", "small", *one)
    assert code == 0
    assert "imported" in out
    assert everything_in(imported / "runs") == before, "run made nothing and resumed nothing"
    code, _, err = run("audit", folder.path)
    assert code == 2
    assert "are not imported" in err

    with RunFolder(run_path(imported, STUDY.runs[1])).metrics_path.open("a") as file:
        file.write("{}\n")
    code, out, _ = run("study", "report", "small", "--out", imported, "--allow-missing")
    assert code == 0
    assert "is not what it was when the run finished" in " ".join(out.split())


def test_real_runs_stay_as_they_are(root, published, run, tmp_path):
    mine = tmp_path / "mine"
    real = run_path(mine, STUDY.runs[0])
    shutil.copytree(run_path(root, STUDY.runs[0]), real)
    before = everything_in(real)
    code, out, _ = run("study", "import", published, "--out", mine)
    assert code == 0
    assert "2 runs of small imported; 1 were there already and stay" in " ".join(out.split())
    assert everything_in(real) == before
    assert len(gather(STUDY, mine).imported) == 2
    code, out, _ = run("study", "import", published, "--out", mine)
    assert "0 runs of small imported" in out, "the same again changes nothing"


def unfinish(mine):
    (mine / "done.json").unlink()


def damage(mine):
    (mine / "metrics.jsonl").write_text("{}\n")


@pytest.mark.parametrize("spoil", [unfinish, damage])
def test_a_run_that_is_half_done_or_damaged_is_not_touched(root, published, run, tmp_path, spoil):
    mine = tmp_path / "mine"
    real = run_path(mine, STUDY.runs[1])
    shutil.copytree(run_path(root, STUDY.runs[1]), real)
    spoil(real)
    before = everything_in(mine)
    code, _, err = run("study", "import", published, "--out", mine)
    assert code == 2
    assert "import into another --out" in " ".join(err.split())
    assert everything_in(mine) == before


def cut_table(folder):
    data = (folder / "numbers.parquet").read_bytes()
    (folder / "numbers.parquet").write_bytes(data[:-20])


def change_study(folder):
    path = folder / "study.json"
    path.write_text(path.read_text().replace('"commit": "', '"commit": "0'))


def no_description(folder):
    (folder / "study.json").write_text("[]")


def another_format(folder):
    reseal(folder, format=1)


def unknown_study(folder):
    reseal(folder, study="nothing")


def another_specification(folder):
    change_runs(folder, pl.col("spec_json").str.replace('"gamma": 0.99', '"gamma": 0.5'))


def another_version(folder):
    change_runs(folder, pl.col("spec_json").str.replace('"gamma"', '"gimma"'))


def another_hash(folder):
    change_runs(folder, pl.lit("../../../elsewhere").alias("run"))


def no_specification(folder):
    change_runs(folder, pl.lit("{}").alias("spec_json"))


def other_columns(folder):
    change_runs(folder, pl.lit(1).alias("more"))


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        (cut_table, "numbers.parquet is not what was published"),
        (lose_table, "runs.parquet is gone"),
        (change_study, "study.json is not what was published"),
        (no_description, "study.json is not what was published"),
        (another_format, "has format 1"),
        (another_study, "which is no run of study demo"),
        (unknown_study, "there is no study 'nothing'"),
        (another_specification, "another specification"),
        (another_version, "another version of bnmodes"),
        (another_hash, "the hash of its specification"),
        (no_specification, "holds no specification"),
        (other_columns, "has other columns"),
        (shutil.rmtree, "holds no published results"),
    ],
)
def test_damaged_and_foreign_folders_are_refused_and_nothing_is_written(
    published, run, tmp_path, spoil, sentence
):
    spoil(published)
    before = everything_in(tmp_path)
    code, _, err = run("study", "import", published, "--out", tmp_path / "imported")
    assert code == 2
    assert sentence in " ".join(err.split())
    assert err.startswith("bnmodes: ")
    assert "Traceback" not in err
    assert everything_in(tmp_path) == before


def test_other_files_are_not_taken_for_results(published, run, tmp_path):
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "letter.txt").write_text("hello")
    before = everything_in(tmp_path)
    assert run("study", "import", published, "--out", tmp_path / "other")[0] == 2
    assert everything_in(tmp_path) == before
