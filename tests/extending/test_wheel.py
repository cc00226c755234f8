"""The wheel works where nothing but its declared dependencies is installed, without any extra.

The environment is a fresh one; the files of exactly the declared dependencies, and of theirs, are
linked into it from the environment of the tests, which takes no download and no minutes."""

import subprocess
import sys
import venv
from importlib.metadata import Distribution, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from extending.own_files import write_files

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
NEED_AN_EXTRA = {
    "bnmodes.studies.launch.ray": "ray",
    "bnmodes.studies.launch.slurm": "submitit",
    "bnmodes.studies.launch.slurm_job": "submitit",
}
IMPORT_EVERYTHING = f"""
import importlib, pkgutil, bnmodes
names = [m.name for m in pkgutil.walk_packages(bnmodes.__path__, "bnmodes.")]
names.remove("bnmodes.__main__")
missing = dict()
for name in names:
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        missing[name] = error.name
assert missing == {NEED_AN_EXTRA}, missing
for name in bnmodes.__all__:
    getattr(bnmodes, name)
print(len(names), bnmodes.__file__)
"""


def call(*command, **options) -> str:
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def declared(requirements: list[str], extras: frozenset[str] = frozenset({""})) -> set[str]:
    """Names of the requirements that hold here for one of the extras, each with its own extras."""
    wanted = map(Requirement, requirements)
    return {
        f"{r.name}[{','.join(sorted(r.extras))}]"
        for r in wanted
        if r.marker is None or any(r.marker.evaluate({"extra": extra}) for extra in extras)
    }


def closure(requirements: list[str]) -> dict[str, Distribution]:
    """Installed distributions that the requirements need, directly or not, by name."""
    found, seen, open_ = {}, set(), declared(requirements)
    while open_:
        asked = Requirement(open_.pop())
        if str(asked) in seen:
            continue
        seen.add(str(asked))
        found[asked.name] = distribution(asked.name)
        open_ |= declared(found[asked.name].requires or [], frozenset({"", *asked.extras}))
    return found


def link(needed: Distribution, site: Path) -> None:
    """The top files and folders of a distribution; folders that several share are merged."""
    for file in needed.files or []:
        if file.parts[0] == ".." or "__pycache__" in file.parts:
            continue
        target = site / file
        target.parent.mkdir(parents=True, exist_ok=True)
        if not target.exists():
            target.symlink_to(needed.locate_file(file))


def test_the_wheel_needs_only_what_it_declares(tmp_path):
    wheels, folder = tmp_path / "wheels", tmp_path / "outside"
    folder.mkdir()
    write_files(folder)
    pip = (sys.executable, "-m", "pip")
    call(*pip, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", wheels, ROOT)

    venv.create(tmp_path / "empty", with_pip=False)
    python = tmp_path / "empty" / "bin" / "python"
    site = Path(call(python, "-c", "import site; print(site.getsitepackages()[0])").strip())
    (wheel,) = wheels.glob("*.whl")
    call(*pip, "--python", python, "install", "--no-deps", "--no-index", wheel)
    (own,) = site.glob("bnmodes-*.dist-info")
    needed = closure(Distribution.at(own).requires)
    unwanted = {"stable-baselines3", "wandb", "playwright", "pytest", "submitit", "mkdocs"}
    assert not unwanted & needed.keys()
    for dependency in needed.values():
        link(dependency, site)

    options = {"cwd": folder, "env": {"PATH": f"{python.parent}:/usr/bin:/bin"}}
    imported, where = call(python, "-c", IMPORT_EVERYTHING, **options).split()
    assert int(imported) > 100
    assert Path(where).is_relative_to(site)
    call("bnmodes", "study", "run", "my_study.py", "--games", "gymnasium/CartPole-v1", **options)
    call("bnmodes", "study", "report", "my_study.py", "--allow-missing", **options)
    assert (folder / "results" / "own.html").exists()
