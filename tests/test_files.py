"""A file written aside is whole or not there, whatever happens to the writer."""

import contextlib
import json
import os
import signal

from bnmodes.files import remove_leftovers, replacing, write_json


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path):
    write_json(tmp_path / "table.json", ["old"])
    with contextlib.suppress(OSError), replacing(tmp_path / "table.json") as aside:
        aside.write_text('["ne')
        raise OSError("no room")
    assert json.loads((tmp_path / "table.json").read_text()) == ["old"]
    assert os.listdir(tmp_path) == ["table.json"]


def test_a_writer_killed_in_the_middle_leaves_the_old_file(tmp_path):
    write_json(tmp_path / "table.json", ["old"])
    if (child := os.fork()) == 0:
        with replacing(tmp_path / "table.json") as aside:
            aside.write_text('["ne')
            os.kill(os.getpid(), signal.SIGKILL)
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL
    assert json.loads((tmp_path / "table.json").read_text()) == ["old"]
    remove_leftovers(tmp_path)
    assert os.listdir(tmp_path) == ["table.json"]


def test_a_reader_meets_the_old_file_until_the_new_one_is_whole(tmp_path):
    write_json(tmp_path / "table.json", ["old"])
    with replacing(tmp_path / "table.json") as aside:
        aside.write_text('["new"]')
        assert json.loads((tmp_path / "table.json").read_text()) == ["old"]
    assert json.loads((tmp_path / "table.json").read_text()) == ["new"]
