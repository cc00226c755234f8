"""Studies, environments and agents from files of the user's own, named as FILE.py:NAME.

A file is imported only when a command line, or the user's own Python, names its path. A run
remembers the file's name and SHA-256 and never its path, so a results folder cannot make anything
be imported: whoever opens such a run names the file again (`--plugin FILE`).
"""

import hashlib
import re
import sys
import traceback
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from bnmodes.errors import UsageError
from bnmodes.nearest import did_you_mean


@dataclass(frozen=True)
class Plugin:
    """A file of the user's own that was imported in this process."""

    path: Path
    sha256: str
    module: ModuleType


_loaded: dict[str, Plugin] = {}
"""By file name, which is all that a run remembers of it."""


def is_reference(name: str) -> bool:
    """Whether a name is that of a user's file: FILE.py or FILE.py:NAME."""
    return re.fullmatch(r".+\.py(:\w*)?", name) is not None


def split_reference(reference: str) -> tuple[str, str]:
    """The file and the name in it, which may be empty: `a/b.py:NAME` is `a/b.py` and `NAME`."""
    file, _, name = reference.rpartition(".py")
    return f"{file}.py", name.removeprefix(":")


def load(path: Path | str) -> Plugin:
    """Import a file, once for each process; an error in it becomes one sentence with its line."""
    path = Path(path).expanduser().resolve()
    try:
        source = path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path} cannot be read ({error.strerror}): name a Python file.") from None
    sha256 = hashlib.sha256(source).hexdigest()
    if known := _loaded.get(path.name):
        if known.path != path:
            raise UsageError(
                f"two files are called {path.name} ({known.path} and {path}): rename one, because "
                "a run remembers a file by its name."
            )
        if known.sha256 != sha256:
            raise UsageError(f"{path} has changed since this process imported it: start it again.")
        return known
    _loaded[path.name] = Plugin(path, sha256, _import(path, source))
    return _loaded[path.name]


def _import(path: Path, source: bytes) -> ModuleType:
    """A module of exactly these bytes, whose hash is remembered: a cached .pyc may be another's."""
    module = ModuleType(f"bnmodes_plugin_{re.sub(r'[^0-9A-Za-z]', '_', path.stem)}")
    module.__file__ = str(path)
    sys.modules[module.__name__] = module  # dataclasses look their module up there
    if str(path.parent) not in sys.path:
        sys.path.append(str(path.parent))  # so that it can import its neighbours
    try:
        exec(compile(source, str(path), "exec"), module.__dict__)
    except (Exception, SystemExit) as error:
        del sys.modules[module.__name__]
        line = _line_of(error, path)
        where = f"{path}, line {line}" if line else f"{path} cannot be imported"
        raise UsageError(f"{where}: {type(error).__name__}: {error}.") from error
    return module


def _line_of(error: BaseException, path: Path) -> int | None:
    """The last line of the user's own file that an error came through."""
    if isinstance(error, SyntaxError) and error.filename == str(path):
        return error.lineno
    lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == str(path)]
    return lines[-1] if lines else None


def name_here(reference: str, folder: Path | str = ".") -> str:
    """Import the file that a reference names, relative to `folder`, and return the reference by
    file name, as a run remembers it: `a/b.py:NAME` becomes `b.py:NAME`."""
    file, name = split_reference(reference)
    if Path(file).name == file and file in _loaded and not (Path(folder) / file).exists():
        return reference  # named before, from another folder
    plugin = load(Path(folder) / Path(file).expanduser())
    return f"{plugin.path.name}:{name}" if name else plugin.path.name


def find(reference: str, kind: str) -> Any:
    """The object that a remembered reference names; `kind` says what it should be, in words."""
    file, name = split_reference(reference)
    if file not in _loaded:
        raise UsageError(
            f"{kind} '{reference}' is in a file of its user's own, which is not imported from "
            f"results: name it with --plugin PATH/{Path(file).name}."
        )
    module = _loaded[file].module
    if not name:
        raise UsageError(f"say which {kind} of {file} is meant, as {file}:NAME.")
    if not hasattr(module, name):
        public = [each for each in vars(module) if not each.startswith("_")]
        hint = did_you_mean(name, public)
        raise UsageError(f"{file} has no '{name}'{hint}: name the {kind} as {file}:NAME.")
    return getattr(module, name)


def module_of(reference: str) -> str:
    """The name of the module that a remembered reference's file was imported as."""
    return _loaded[split_reference(reference)[0]].module.__name__


def hashes(*references: str) -> dict[str, str]:
    """The SHA-256 of each user's file among the names that a run uses (agent, environment)."""
    files = {split_reference(name)[0] for name in references if is_reference(name)}
    return {file: _loaded[file].sha256 for file in sorted(files) if file in _loaded}


def loaded_files() -> dict[Path, str]:
    """The files imported so far with their SHA-256: a worker process imports the same."""
    return {plugin.path: plugin.sha256 for plugin in _loaded.values()}
