"""A run's files that are not what was written are found, named, and never counted on."""

import json
import shutil
from pathlib import Path

import pytest

from bnmodes.errors import DamagedError, UsageError
from bnmodes.runs.audit import audit_run
from bnmodes.runs.folder import RunFolder
from bnmodes.runs.loop import train
from bnmodes.runs.metrics_file import MetricsFile
from bnmodes.runs.stopping import Stopped
from helpers.run_specs import make_spec

SPEC = make_spec("probe/chain", "none", total_decisions=120)


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Path:
    return train(SPEC, tmp_path_factory.mktemp("run") / "finished").path


@pytest.fixture
def folder(finished, tmp_path) -> RunFolder:
    shutil.copytree(finished, tmp_path / "run")
    return RunFolder(tmp_path / "run")


def flip_a_digit(path: Path) -> None:
    content = bytearray(path.read_bytes())
    place = next(i for i in range(len(content) // 2, len(content)) if chr(content[i]).isdigit())
    content[place] ^= 1
    path.write_bytes(content)


def test_a_finished_run_is_whole(folder):
    assert folder.finished
    assert folder.damage() is None
    assert folder.completion.sha256.keys() == {"metrics.jsonl", "spec.json"}


@pytest.mark.parametrize("name", ["metrics.jsonl", "spec.json"])
@pytest.mark.parametrize("damage", [flip_a_digit, Path.unlink, lambda path: path.write_text("")])
def test_a_finished_run_whose_file_was_changed_is_found_and_named(folder, name, damage):
    damage(folder.path / name)
    assert str(folder.path / name) in folder.damage()
    with pytest.raises(UsageError, match=name.replace(".", r"\.")):
        train(SPEC, folder.path)


@pytest.mark.parametrize("content", ["", "{}", "[]", "5", "\x00", '{"decision": 120}', "[" * 9999])
def test_a_mark_that_is_no_mark_finishes_nothing(folder, content):
    folder.done_path.write_text(content)
    assert not folder.finished
    assert folder.damage() == f"{folder.done_path} is damaged"
    before = folder.metrics_path.read_bytes()
    with pytest.raises(DamagedError, match=r"done\.json is damaged"):
        train(SPEC, folder.path)
    assert folder.metrics_path.read_bytes() == before, "nothing is begun anew over it"


def test_every_changed_bit_of_a_mark_is_noticed(folder):
    content = folder.done_path.read_bytes()
    for place in range(len(content)):
        changed = bytearray(content)
        changed[place] ^= 2
        folder.done_path.write_bytes(changed)
        same = json.loads(content)
        try:
            unchanged = json.loads(changed.decode()) == same
        except ValueError:
            unchanged = False
        assert unchanged or not folder.finished, chr(content[place])


def test_a_mark_from_before_there_were_checksums_still_counts(folder):
    folder.done_path.write_text('{"decision": 120, "resumes": 0, "decisions_per_second": 9.5}')
    assert folder.finished
    assert folder.damage() is None


@pytest.fixture
def stopped(tmp_path, stop_at) -> RunFolder:
    stop_at(70)
    with pytest.raises(Stopped):
        train(SPEC, tmp_path / "stopped")
    stop_at(None)
    return RunFolder(tmp_path / "stopped")


def test_a_digit_changed_before_a_checkpoint_does_not_survive_a_resume(stopped):
    flip_a_digit(stopped.metrics_path)
    with pytest.raises(DamagedError, match="is not what its checkpoint knew"):
        train(SPEC, stopped.path)


def test_a_run_does_not_go_on_from_another_runs_checkpoint(stopped, tmp_path, stop_at):
    other = make_spec("probe/chain", "none", total_decisions=120, seed=1)
    stop_at(70)
    with pytest.raises(Stopped):
        train(other, tmp_path / "other")
    shutil.rmtree(tmp_path / "other" / "checkpoints")
    shutil.copytree(stopped.path / "checkpoints", tmp_path / "other" / "checkpoints")
    with pytest.raises(DamagedError, match=f"are of another run \\({SPEC.content_hash}\\)"):
        train(other, tmp_path / "other")


def test_a_stray_file_among_the_checkpoints_is_passed_over(stopped, finished):
    (stopped.path / "checkpoints" / "7").write_text("a file")
    train(SPEC, stopped.path)
    assert stopped.metrics_path.read_bytes() == (finished / "metrics.jsonl").read_bytes()


def test_a_mark_cut_off_by_a_crash_is_no_damage_while_there_are_checkpoints(stopped, finished):
    stopped.done_path.write_text("")
    train(SPEC, stopped.path)
    assert stopped.metrics_path.read_bytes() == (finished / "metrics.jsonl").read_bytes()
    assert stopped.finished


GOOD = '{"kind": "train", "decision": 1, "frame": 1}'


@pytest.mark.parametrize(
    "line",
    [
        "5", "[]", "null", "{}", '{"kind": 3, "decision": 1, "frame": 1}', "[" * 100_000,
        GOOD.replace('1, "frame"', '"1", "frame"'), GOOD.replace('"decision": 1, ', ""),
        GOOD.replace("1}", "-1}"), GOOD.replace("1}", "true}"), GOOD.replace("1}", "9" * 400 + "}"),
        GOOD.replace("1}", '1, "loss": true}'), GOOD.replace("1}", '1, "loss": {}}'),
    ],
    ids=lambda line: line[:50],
)  # fmt: skip
def test_a_line_that_is_no_row_is_named(tmp_path, line):
    (tmp_path / "m").write_text(f"{GOOD}\n{line}\n")
    with pytest.raises(DamagedError, match=r"m, line 2 is damaged"):
        MetricsFile(tmp_path / "m").rows(torn_end_allowed=False)


def test_metrics_that_are_not_finite_come_back_and_the_file_is_strict_json(tmp_path):
    row = {"kind": "x", "decision": 1, "frame": 1, "a": float("inf"), "b": [1.0, float("-inf")]}
    file = MetricsFile(tmp_path / "m")
    file.append(row)
    file.append(row | {"a": float("nan")})

    def refuse(token):
        pytest.fail(f"{token} is no JSON")

    for line in (tmp_path / "m").read_text().splitlines():
        json.loads(line, parse_constant=refuse)
    first, second = file.rows(torn_end_allowed=False)
    assert first == row
    assert second["a"] != second["a"]


def test_networks_of_another_arm_are_a_sentence(folder, tmp_path):
    other = train(make_spec("probe/chain", "bn-batch", total_decisions=60), tmp_path / "other")
    shutil.rmtree(folder.final_path)
    shutil.copytree(other.final_path, folder.final_path)
    with pytest.raises(DamagedError, match=r"are not those of its spec\.json"):
        audit_run(folder, seed=0)
