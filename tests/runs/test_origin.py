"""A run records the commit of the program that made it, and of no other repository."""

import subprocess

from bnmodes.runs.origin import commit_of


def test_the_commit_is_that_of_the_programs_own_repository(tmp_path):
    """Not of a user's repository that it happens to be installed inside of."""
    program = tmp_path / "venv" / "program.py"
    program.parent.mkdir()
    program.write_text("")
    (tmp_path / "paper.tex").write_text("")

    def git(*words):
        who = ("-c", "user.name=test", "-c", "user.email=test@localhost")
        done = subprocess.run(
            ["git", *who, *words], cwd=tmp_path, capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    assert commit_of(program) is None, "no repository"
    git("init")
    git("add", "paper.tex")
    git("commit", "-m", "A paper")
    assert commit_of(program) is None, "another's repository"
    git("add", "venv")
    git("commit", "-m", "The program")
    assert commit_of(program) == git("rev-parse", "--short=12", "HEAD")
    clean = commit_of(program)
    (tmp_path / "paper.tex").write_text("changed")
    assert commit_of(program) == clean, "no file of the program"
    new = program.parent / "part" / "new.py"
    new.parent.mkdir()
    new.write_text("")
    assert commit_of(program) == f"{clean}-dirty", "a file that git does not know"
    new.unlink()
    program.write_text("changed")
    assert commit_of(program) == f"{clean}-dirty"
