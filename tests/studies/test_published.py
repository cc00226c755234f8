"""Results that are published and imported are the same results, and nothing else is taken."""

import json
import re
import shutil
from pathlib import Path

import polars as pl
import pytest

from bnmodes.analysis import publish
from bnmodes.cli.study_publish import study_publish
from bnmodes.files import sha256_of
from bnmodes.runs.completion import checksum_of
from bnmodes.runs.folder import RunFolder
from bnmodes.runs.loop import train
from bnmodes.runs.spec import EvaluationSettings
from bnmodes.studies import registry
from bnmodes.studies.published import read_published
from bnmodes.studies.results import gather, run_path
from helpers.small_study import small_study

STUDY = small_study(
    games=("minatar/breakout",),
    total_decisions=120,
    evaluation=EvaluationSettings(every_decisions=60, episodes=10, epsilon=1.0),
)


@pytest.fixture(autouse=True)
def _in_the_registry(monkeypatch):
    monkeypatch.setitem(registry.STUDIES, "small", STUDY)


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """All runs of the study but the last one, which is not run."""
    folder = tmp_path_factory.mktemp("original") / "results"
    for run in STUDY.runs[:-1]:
        train(run.spec, run_path(folder, run), show_progress=False)
    return folder


@pytest.fixture(scope="module")
def once_published(root):
    folder = root.parent / "published" / "small"
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(registry.STUDIES, "small", STUDY)
        study_publish(["small", "--out", str(root), "--to", str(folder)])
    return folder


@pytest.fixture
def published(once_published, tmp_path):
    """A folder of one's own, to spoil it."""
    return shutil.copytree(once_published, tmp_path / "published" / "small")


def numbers_of(page):
    """Every number that a report shows, in its order."""
    return re.findall(r'data-(?:point|low|high)="([^"]*)"', page.read_text())


def pictures_of(root):
    return {path.name: path.read_bytes() for path in (root / "small-figures").iterdir()}


def everything_in(folder):
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in folder.rglob("*")
    }


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


def rewrite_spec(folder, **described):
    """As if the run had been begun so; None: without it."""
    written = json.loads(folder.spec_path.read_text()) | described
    folder.spec_path.write_text(
        json.dumps({name: value for name, value in written.items() if value is not None})
    )
    done = json.loads(folder.done_path.read_text())
    done["sha256"]["spec.json"] = sha256_of(folder.spec_path)
    del done["checksum"]
    folder.done_path.write_text(json.dumps(done | {"checksum": checksum_of(done)}))


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


def lose_table(folder):
    (folder / "runs.parquet").unlink()


def change_study(folder):
    path = folder / "study.json"
    path.write_text(path.read_text().replace('"commit": "', '"commit": "0'))


def no_description(folder):
    (folder / "study.json").write_text("[]")


def another_format(folder):
    reseal(folder, format=1)


def another_study(folder):
    reseal(folder, study="demo")


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


def change_runs(folder, change):
    path = folder / "runs.parquet"
    pl.read_parquet(path).with_columns(change).write_parquet(path)
    reseal(folder)


def reseal(folder, **changes):
    """As if it had been published so."""
    data = json.loads((folder / "study.json").read_text()) | changes
    del data["checksum"]
    data["sha256"] = {name: sha256_of(folder / name) for name in data["sha256"]}
    (folder / "study.json").write_text(json.dumps(data | {"checksum": checksum_of(data)}))


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
