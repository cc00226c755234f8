"""Every study by its name."""

import difflib

from bnmodes.errors import UsageError
from bnmodes.studies import paper, quick
from bnmodes.studies.study import Study

STUDIES = {study.name: study for study in (*quick.STUDIES, *paper.STUDIES)}


def find_study(name: str) -> Study:
    if name not in STUDIES:
        near = difflib.get_close_matches(name, STUDIES, n=1, cutoff=0.4)
        hint = f" (did you mean '{near[0]}'?)" if near else ""
        raise UsageError(f"there is no study '{name}'{hint}: `bnmodes study list` shows all.")
    return STUDIES[name]
