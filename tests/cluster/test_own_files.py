"""A user's own study, game and agent on Ray, named by the study file's path."""

import os
import secrets
import subprocess
import sys

from extending.own_files import write_files


def test_a_users_own_study_runs_on_ray(tmp_path):
    folder, elsewhere = tmp_path / "files", tmp_path / "elsewhere"
    folder.mkdir()
    elsewhere.mkdir()
    write_files(folder)
    command = [sys.executable, "-m", "bnmodes", "study", "run", str(folder / "my_study.py")]
    token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    options = {"cwd": elsewhere, "capture_output": True, "text": True, "timeout": 600}
    runs = {}
    for launcher in ("ray", "local"):
        done = subprocess.run(
            [*command, "--launcher", launcher, "--out", launcher],
            env=os.environ | token,
            **options,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        paths = (elsewhere / launcher).glob("runs/*/metrics.jsonl")
        runs[launcher] = {path.parent.name: path.read_text() for path in paths}
    assert len(runs["ray"]) == 4
    assert runs["ray"] == runs["local"]
