"""What of the found runs is not as it would be run now, in sentences."""

from bnmodes.studies.results import StudyResults, damaged_notes, imported_note, outdated_notes
from bnmodes.studies.schedule import changed_plugins


def change_notes(results: StudyResults) -> list[str]:
    finished = set(results.study.runs) - set(results.missing)
    imported = imported_note(results.imported, len(finished))
    return [
        *changed_plugins(finished, results.root),
        *outdated_notes(results.outdated, results.root),
        *damaged_notes(results.damaged),
        *filter(None, [imported]),
    ]
