"""The wheel, as pip installs it, runs a user's own files from a folder outside the project."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from extending.own_files import write_files

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


def call(*command, **options) -> str:
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_an_installed_wheel_runs_a_users_own_study(tmp_path):
    wheels, site, folder = tmp_path / "wheels", tmp_path / "site", tmp_path / "outside"
    folder.mkdir()
    write_files(folder)
    pip = (sys.executable, "-m", "pip")
    call(*pip, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", wheels, ROOT)
    call(*pip, "install", "--no-deps", "--target", site, *wheels.glob("*.whl"))
    options = {"cwd": folder, "env": os.environ | {"PYTHONPATH": str(site)}}
    where = call(sys.executable, "-c", "import bnmodes; print(bnmodes.__file__)", **options)
    assert Path(where.strip()).is_relative_to(site)
    command = (sys.executable, "-m", "bnmodes", "study")
    call(*command, "run", "my_study.py", "--games", "gymnasium/CartPole-v1", **options)
    call(*command, "report", "my_study.py", "--allow-missing", **options)
    assert (folder / "results" / "own.html").exists()
