"""Studies, environments and agents from files of the user's own, named as FILE.py:NAME.

A file is imported only when a command line, or the user's own Python, names its path. A run
remembers the file's name and SHA-256 and never its path, so a results folder cannot make anything
be imported: whoever opens such a run names the file again (`--plugin FILE`).
"""

import difflib
import hashlib
import importlib.util
import re
import sys
import traceback
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from bnmodes.errors import UsageError


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
    path = Path(path).expanduser().absolute()
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
        return known
    module = _import(path)
    _loaded[path.name] = Plugin(path, sha256, module)
    return _loaded[path.name]


def _import(path: Path) -> ModuleType:
    name = f"bnmodes_plugin_{re.sub(r'[^0-9A-Za-z]', '_', path.stem)}"
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up there
    sys.path.insert(0, str(path.parent))  # so that it can import its neighbours
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        line = _line_of(error, path)
        raise UsageError(
            f"{path}, line {line}: {type(error).__name__}: {error}."
            if line
            else f"{path} cannot be imported: {type(error).__name__}: {error}."
        ) from error
    finally:
        sys.path.remove(str(path.parent))
    return module


def _line_of(error: Exception, path: Path) -> int | None:
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
        near = difflib.get_close_matches(name, public, n=1, cutoff=0.5)
        hint = f" (did you mean '{near[0]}'?)" if near else ""
        raise UsageError(f"{file} has no '{name}'{hint}: name the {kind} as {file}:NAME.")
    return getattr(module, name)


def hashes(*references: str) -> dict[str, str]:
    """The SHA-256 of each user's file among the names that a run uses (agent, environment)."""
    files = {split_reference(name)[0] for name in references if is_reference(name)}
    return {file: _loaded[file].sha256 for file in sorted(files) if file in _loaded}


def loaded_paths() -> tuple[Path, ...]:
    """The files imported so far: a worker process is given the same."""
    return tuple(plugin.path for plugin in _loaded.values())
