"""The part of a study's report that says what ran: protocols, settings, and the runs' files."""

import json
import os
from collections.abc import Sequence
from dataclasses import asdict
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import quote

from bnmodes.analysis.report.page import folded, paragraph, row_name, section, table, text_cell
from bnmodes.analysis.study_numbers import StudyNumbers
from bnmodes.analysis.wording import counted
from bnmodes.envs.registry import env_spec
from bnmodes.networks.torsos import torso_description
from bnmodes.protocol import as_table
from bnmodes.runs.folder import RunFolder
from bnmodes.studies.results import StudyResults, run_path
from bnmodes.studies.study import Arm, StudyRun


def arm_name(numbers: StudyNumbers, arm: Arm) -> str:
    """The first cell of an arm's row, with the arm's colour and a link to its protocol."""
    return row_name(arm.name, numbers.style(arm).colour, f"#{_anchor(arm.name)}")


def _anchor(arm: str) -> str:
    return "arm-" + "".join(letter if letter.isalnum() else "-" for letter in arm)


def _settings_by_arm(results: StudyResults) -> dict[str, Any]:
    """What ran: runs are gathered only where their stored specification is the declared one."""
    return {run.arm: run.spec.settings for run in reversed(results.study.runs)}


def protocols_section(results: StudyResults) -> str:
    """A table for the arms whose forwards are declared alike."""
    alike: dict[str, list[str]] = {}
    configs = _settings_by_arm(results)
    for arm in results.study.arms:
        config = configs[arm.name]
        declared = as_table(config.protocol, config.capabilities(results.study.evaluated.episodes))
        alike.setdefault(json.dumps(declared), []).append(arm.name)
    content = []
    for described, names in alike.items():
        declared = json.loads(described)
        rows = [
            [
                row_name(role),
                text_cell(forward["params"]),
                text_cell(f"{forward['rows']} × {forward['population']}"),
                text_cell(forward["statistics"]),
                text_cell(_weight(forward["track"])),
                text_cell(_weight(forward["update"])),
            ]
            for role, forward in declared.items()
        ]
        header = ["role", "parameters", "rows", "statistics", "discarded pass first", "writes"]
        anchored = [f'<span id="{_anchor(name)}">{escape(name)}</span>' for name in names]
        content.append(f"<h3>{', '.join(anchored)}</h3>")
        content.append(table(header, rows))
    notes = {note: None for config in configs.values() for note in config.notes()}
    content += [paragraph(note, "note") for note in notes]
    return section("protocols", "Protocol of each arm", *content)


def _weight(alpha: float | None) -> str:
    return "nothing" if alpha is None else f"α {alpha:g} (Flax {1 - alpha:g})"


def settings_section(numbers: StudyNumbers) -> str:
    results = numbers.results
    game = results.study.games[0]
    flat = {name: _flat_settings(each, game) for name, each in _settings_by_arm(results).items()}
    arms = [flat[arm.name] for arm in results.study.arms]
    keys = list(dict.fromkeys(key for of_arm in arms for key in of_arm))
    shared = {k: arms[0][k] for k in keys if len({of_arm.get(k) for of_arm in arms}) == 1}
    differing = [key for key in keys if key not in shared]
    study = results.study
    shared |= {
        "decisions of a run": f"{study.total_decisions:,}",
        "seeds per game": f"{len(study.seeds)} (over {counted(len(study.games), 'game')})",
    }
    content = [
        paragraph("From the configuration of the runs themselves.", "note"),
        table(
            ["the same in every arm", "value"],
            [[row_name(key), _setting_cell(key, "every arm", shared[key])] for key in shared],
        ),
    ]
    if differing:
        content.append(_differing_settings(numbers, arms, differing))
    if versions := _versions(results):
        content.append(paragraph(f"Ran with {versions}.", "note"))
    return section("settings", "Hyperparameters", *content)


def _differing_settings(
    numbers: StudyNumbers, settings: Sequence[dict[str, str]], keys: Sequence[str]
) -> str:
    """The longer side goes down the page; a setting that an arm does not have is left empty."""
    arms, title = numbers.results.study.arms, "differs between arms"
    cells = [
        [_setting_cell(key, arm.name, of_arm.get(key, "")) for key in keys]
        for arm, of_arm in zip(arms, settings, strict=True)
    ]
    if len(keys) <= len(arms):
        rows = [[arm_name(numbers, arm), *row] for arm, row in zip(arms, cells, strict=True)]
        return table([title, *keys], rows)
    columns = zip(keys, zip(*cells, strict=True), strict=True)
    return table([title, *(arm.name for arm in arms)], [[row_name(k), *col] for k, col in columns])


def _flat_settings(settings: Any, game: str) -> dict[str, str]:
    """The settings of an arm by name, what is fixed in its code, and the layers that read a game's
    observations."""
    flat = {}
    if torso := getattr(settings, "torso", None):
        flat["hidden layers"] = torso_description(torso, env_spec(game).obs_shape)
    flat |= settings.fixed()
    for name, value in asdict(settings).items():
        if name == "protocol":  # has its own section
            continue
        inner = value.items() if isinstance(value, dict) else ()
        flat |= {f"{name}: {key}".replace("_", " "): _plain(item) for key, item in inner}
        if not inner:
            flat[name.replace("_", " ")] = _plain(value)
    return flat


def _plain(value) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:g}".replace("-", "−") if isinstance(value, float) else str(value)


def _setting_cell(key: str, arm: str, value: str) -> str:
    where = f'data-setting="{escape(key)}" data-arm="{escape(arm)}"'
    return f'<td class="n" {where}>{escape(value)}</td>'


def _versions(results: StudyResults) -> str:
    found = set()
    missing = set(results.missing)
    for run in results.study.runs:
        folder = RunFolder(run_path(results.root, run))
        if folder.finished and run not in missing:
            versions = folder.origin().versions
            found.add(", ".join(f"{name} {version}" for name, version in versions.items()))
    return "; and with ".join(sorted(found))


def runs_section(results: StudyResults, path: Path) -> str:
    missing = {(run.arm, run.game, run.seed) for run in results.missing}
    by_place = {(run.arm, run.game, run.seed): run for run in results.study.runs}
    content = [paragraph("Each run's folder, and its metrics as JSON lines.", "note")]
    for arm in results.study.arms:
        rows = [
            [
                row_name(game),
                *(
                    "<td>missing</td>"
                    if (arm.name, game, seed) in missing
                    else _links(results.root, by_place[arm.name, game, seed], path)
                    for seed in results.study.seeds
                ),
            ]
            for game in results.study.games
        ]
        header = ["game", *(f"seed {seed}" for seed in results.study.seeds)]
        content.append(folded(arm.name, table(header, rows)))
    return section("runs", "Runs", *content)


def run_link(root: Path, run: StudyRun, page_path: Path) -> str:
    """The run's folder, relative to the page."""
    return quote(Path(os.path.relpath(run_path(root, run), page_path.parent)).as_posix())


def _links(root: Path, run: StudyRun, page_path: Path) -> str:
    folder = run_link(root, run, page_path)
    name = run.spec.content_hash
    return f'<td><a href="{folder}/">{name}</a> · <a href="{folder}/metrics.jsonl">metrics</a></td>'
