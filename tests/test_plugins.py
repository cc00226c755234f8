import json
import re
import sys

import pytest

from bnmodes import plugins
from bnmodes.agents.registry import find_agent
from bnmodes.errors import UsageError
from bnmodes.runs.folder import RunFolder
from bnmodes.runs.loop import train
from bnmodes.runs.spec import EvaluationSettings, make_spec

AGENT = """
from dataclasses import replace
from bnmodes.agents.c51 import C51
Mine = replace(C51, name="mine")
"""


@pytest.fixture(autouse=True)
def nothing_named_yet(monkeypatch):
    monkeypatch.setattr(plugins, "_loaded", {})
    before = dict(sys.modules)
    yield
    for name in sys.modules.keys() - before.keys():
        if name.startswith("bnmodes_plugin_"):
            del sys.modules[name]


def written(path, text):
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    return path


def refusal(action, *args) -> str:
    with pytest.raises(UsageError) as refused:
        action(*args)
    sentence = str(refused.value)
    assert "\n" not in sentence
    return sentence


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("mine.py", True),
        ("mine.py:Mine", True),
        ("~/a b/mine.py:Mine", True),
        ("c51", False),
        ("atari/Pong", False),
        (".py", False),
        ("mine.pyc", False),
    ],
)
def test_a_file_is_told_from_a_name(name, expected):
    assert plugins.is_reference(name) is expected


def test_a_file_that_is_not_there_is_refused(tmp_path):
    path = tmp_path / "no.py"
    assert refusal(plugins.load, path).startswith(f"{path} cannot be read (No such file")
    assert "Is a directory" in refusal(plugins.load, tmp_path)


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("a = 1\nb = (2\n", 2, "SyntaxError: '(' was never closed"),
        ("a = 1\n\nraise ValueError('bad luck')\n", 3, "ValueError: bad luck"),
        ("def f():\n    return 1 / 0\n\n\nf()\n", 2, "ZeroDivisionError"),
        ("\nimport no_such_package\n", 2, "No module named 'no_such_package'"),
        ("x = 1\nimport json; json.loads('{')\n", 2, "JSONDecodeError"),
    ],
)
def test_an_error_in_a_file_is_one_sentence_with_its_line(tmp_path, text, line, words):
    path = written(tmp_path / "mine.py", text)
    sentence = refusal(plugins.load, path)
    assert sentence.startswith(f"{path}, line {line}: ")
    assert words in sentence
    path.write_text("Mine = 1\n")
    assert plugins.load(path).module.Mine == 1, "it can be mended"


def test_a_file_is_imported_once(tmp_path):
    path = written(tmp_path / "mine.py", "Mine = []\n")
    first = plugins.load(path)
    assert plugins.load(str(path)) is first
    assert plugins.name_here("mine.py:Mine", tmp_path) == "mine.py:Mine"
    assert plugins.find("mine.py:Mine", "agent") is first.module.Mine
    assert plugins.loaded_files() == {path: first.sha256}
    path.write_text("Mine = ()\n")
    assert "has changed since this process imported it" in refusal(plugins.load, path)


def test_the_bytes_that_are_hashed_are_those_that_run(tmp_path):
    """A cached .pyc is trusted by size and second: it could be of another version."""
    path = written(tmp_path / "mine.py", "VALUE = 1\n")
    assert plugins.load(path).module.VALUE == 1
    plugins._loaded.clear()
    path.write_text("VALUE = 2\n")
    assert plugins.load(path).module.VALUE == 2


def test_a_file_that_exits_is_one_sentence(tmp_path):
    path = written(tmp_path / "mine.py", "import sys\nsys.exit(3)\n")
    assert "line 2: SystemExit: 3" in refusal(plugins.load, path)


def test_a_file_can_import_its_neighbours(tmp_path):
    written(tmp_path / "beside_mine.py", "VALUE = 7\n")
    path = written(tmp_path / "mine.py", "from beside_mine import VALUE\n")
    try:
        assert plugins.load(path).module.VALUE == 7
    finally:
        sys.modules.pop("beside_mine", None)
        sys.path.remove(str(tmp_path))


def test_two_files_of_one_name_are_refused(tmp_path):
    one, two = (written(tmp_path / folder / "mine.py", "Mine = 1\n") for folder in "ab")
    plugins.load(one)
    sentence = refusal(plugins.load, two)
    assert f"two files are called mine.py ({one} and {two}): rename one" in sentence


def test_a_name_that_is_not_in_the_file_is_refused_with_the_nearest(tmp_path):
    plugins.load(written(tmp_path / "mine.py", "MyAgent = 1\n"))
    sentence = refusal(plugins.find, "mine.py:MyAgnet", "agent")
    assert sentence == (
        "mine.py has no 'MyAgnet' (did you mean 'MyAgent'?): name the agent as mine.py:NAME."
    )
    assert "did you mean" not in refusal(plugins.find, "mine.py:Qqqqqq", "agent")
    assert refusal(plugins.find, "mine.py", "study") == (
        "say which study of mine.py is meant, as mine.py:NAME."
    )


def test_results_never_import(tmp_path, monkeypatch):
    """What a run remembers is a name, in whatever folder one stands."""
    trap = written(tmp_path / "mine.py", "raise SystemExit('imported')\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    for reference in ("mine.py:Mine", f"{trap}:Mine", "./mine.py:Mine", "../x/mine.py:Mine"):
        assert "--plugin PATH/mine.py" in refusal(find_agent, reference)
    spec = make_spec("c51", "probe/chain").to_json()
    folder = RunFolder(tmp_path / "run")
    folder.path.mkdir()
    for name in ("mine.py:Mine", f"{trap}:Mine"):
        stored = {"spec": spec | {"agent": name}, "plugins": {"mine.py": "0"}}
        folder.spec_path.write_text(json.dumps(stored))
        assert "--plugin PATH/mine.py" in refusal(folder.spec)
        assert folder.changed_plugins() == []
    assert "mine" not in sys.modules


SHORT = {"learning_starts_decisions": 10, "replay_capacity": 50}


def spec_of(agent: str, total_decisions: int = 30):
    evaluation = EvaluationSettings(every_decisions=30, episodes=2, epsilon=0.5)
    return make_spec(
        agent,
        "probe/chain",
        changes=SHORT,
        total_decisions=total_decisions,
        record_every_decisions=10,
        evaluation=evaluation,
    )


def test_a_run_remembers_the_files_name_and_hash_and_never_its_path(tmp_path):
    path = written(tmp_path / "files" / "mine.py", AGENT)
    agent = plugins.name_here(f"{path}:Mine")
    assert agent == "mine.py:Mine"
    folder = train(spec_of(agent), tmp_path / "run", show_progress=False)
    text = folder.spec_path.read_text()
    assert json.loads(text)["plugins"] == {"mine.py": plugins.load(path).sha256}
    assert str(tmp_path) not in text
    assert folder.spec() == spec_of(agent)
    own = train(spec_of("c51"), tmp_path / "own", show_progress=False)
    assert own.metrics_path.read_bytes() == folder.metrics_path.read_bytes()


def test_a_file_that_has_changed_since_is_told_and_does_not_go_on(tmp_path):
    path = written(tmp_path / "mine.py", AGENT)
    agent = plugins.name_here(f"{path}:Mine")
    folder = train(spec_of(agent), tmp_path / "run", show_progress=False)
    assert folder.changed_plugins() == []
    path.write_text(AGENT + "# another\n")
    plugins._loaded.clear()
    plugins.load(path)
    (sentence,) = folder.changed_plugins()
    assert re.search(r"mine\.py has changed since the run in .* was begun", sentence)
    folder.done_path.unlink()
    assert "put the old file back" in refusal(train, spec_of(agent), tmp_path / "run")
