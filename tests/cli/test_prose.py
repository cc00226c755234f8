import pytest

from bnmodes.cli.prose import wrapped


@pytest.mark.parametrize("columns", [20, 47, 80])
def test_a_terminal_gets_lines_of_whole_words_and_a_file_one_line(columns, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(columns))
    text = "the runs are in results/a-very-long-folder-name, and two of them are not finished " * 3
    shown = wrapped(text, is_terminal=True)
    assert shown.split() == text.split()
    assert all(len(line) <= columns or " " not in line for line in shown.split("\n"))
    assert wrapped(text, is_terminal=False) == text
