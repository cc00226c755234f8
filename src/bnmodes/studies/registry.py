"""Studies by name: those of the package, and those of a user's own file, as FILE.py[:NAME]."""

from bnmodes import plugins
from bnmodes.errors import UsageError
from bnmodes.nearest import did_you_mean
from bnmodes.studies import evidence, paper, quick
from bnmodes.studies.study import Study

STUDIES = {study.name: study for study in (*quick.STUDIES, *evidence.STUDIES, *paper.STUDIES)}


def find_study(name: str) -> Study:
    """A study of the package, or of the file that `name` is a path of."""
    if plugins.is_reference(name):
        return _from_file(name)
    if name not in STUDIES:
        hint = did_you_mean(name, STUDIES)
        raise UsageError(
            f"there is no study '{name}'{hint}: `bnmodes study list` shows all, and a file of your "
            "own is named as FILE.py."
        )
    return STUDIES[name]


def _from_file(reference: str) -> Study:
    path, name = plugins.split_reference(reference)
    plugin = plugins.load(path)
    held = {k: value for k, value in vars(plugin.module).items() if isinstance(value, Study)}
    if name:
        if name not in held:
            found = f"it holds {', '.join(held)}" if held else "it holds none"
            raise UsageError(f"{path} has no study '{name}': {found}.")
    elif len(held) != 1:
        raise UsageError(
            f"{path} holds no Study: write STUDY = Study(...) in it."
            if not held
            else f"{path} holds several studies: name one, as {path}:{next(iter(held))}."
        )
    study = held[name] if name else next(iter(held.values()))
    study = study.from_file(plugin.path, reference)
    if study.name in STUDIES:
        raise UsageError(
            f"{path}: '{study.name}' is a study of the package: give yours a new name."
        )
    study.validate()
    return study
