"""A study with a run that is missing, its results, and the folder that they are published in."""

import shutil

import pytest

from bnmodes.cli.study_publish import study_publish
from bnmodes.runs.loop import train
from bnmodes.studies import registry
from bnmodes.studies.results import run_path
from helpers.published_study import STUDY


@pytest.fixture(autouse=True)
def _in_the_registry(monkeypatch):
    monkeypatch.setitem(registry.STUDIES, "small", STUDY)


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """All runs of the study but the last one, which is not run."""
    folder = tmp_path_factory.mktemp("original") / "results"
    for run in STUDY.runs[:-1]:
        train(run.spec, run_path(folder, run), show_progress=False)
    return folder


@pytest.fixture(scope="module")
def once_published(root):
    folder = root.parent / "published" / "small"
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(registry.STUDIES, "small", STUDY)
        study_publish(["small", "--out", str(root), "--to", str(folder)])
    return folder


@pytest.fixture
def published(once_published, tmp_path):
    """A folder of one's own, to spoil it."""
    return shutil.copytree(once_published, tmp_path / "published" / "small")
