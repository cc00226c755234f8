"""Processor time and memory of a report, of made-up results in a study's full size.

python tests/analysis/report_scale.py [paper-b] [--folder DIR] [--profile]

Each run has the rows that a real one writes: evaluations or test games, training metrics, and 20
rows of diagnostics with a spectrum of 512 values. The report is written twice: the second time the
cache of columns is there.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from bnmodes.analysis.mechanism import VALUE_ROLES
from bnmodes.execution import PLAIN
from bnmodes.files import sha256_of, write_json
from bnmodes.runs.completion import Completion
from bnmodes.runs.folder import RunFolder, _described
from bnmodes.studies.registry import find_study
from bnmodes.studies.results import run_path
from bnmodes.studies.study import Study, StudyRun

_SPECTRUM = json.dumps([round(20 / (1 + place), 5) for place in range(512)])
_LAYERS = ("conv1", "conv2", "conv3", "dense")
_OF_LAYER = ("mean_shift", "mean_shift_p90", "log_variance_ratio", "kl")


def make_run(root: Path, study: Study, run: StudyRun, rng: np.random.Generator) -> None:
    folder = RunFolder(run_path(root, run))
    folder.path.mkdir(parents=True)
    write_json(folder.spec_path, _described(run.spec, PLAIN))
    total, level = study.total_decisions, float(rng.lognormal(5, 0.3))
    rows = []
    for decision in study.grid:
        value = level * (1 + decision / total)
        rows.append({"kind": study.metric, "decision": decision, "games": 10, "return": value})
    for decision in range(study.record_every_decisions, total + 1, study.record_every_decisions):
        values = dict(zip(("loss", "predict_max_q", "epsilon"), rng.random(3), strict=True))
        rows.append({"kind": "train", "decision": decision, "return": level} | values)
    with open(folder.metrics_path, "w") as file:
        for row in rows:
            row["frame"] = 4 * row["decision"]
            file.write(json.dumps(row) + "\n")
        for place in range(1, 21):
            file.write(_diagnostics(total * place // 20, run, rng) + "\n")
    files = (folder.metrics_path, folder.spec_path)
    Completion(total, sha256={path.name: sha256_of(path) for path in files}).write(folder.done_path)


def _diagnostics(decision: int, run: StudyRun, rng: np.random.Generator) -> str:
    names = ["dormant_0.025", "effective_rank", "srank"]
    names += ["one_batch_effective_rank", "one_batch_srank"]
    if run.spec.settings.norm.kind == "bn":
        for role in VALUE_ROLES:
            names += [f"{role}/greedy_changed", f"{role}/q_change"]
            for layer in _LAYERS:
                for name in _OF_LAYER:
                    names += [f"{role}/{layer}/{name}", f"{role}/{layer}/{name}_floor"]
    row = {"kind": "diagnostics", "decision": decision, "frame": 4 * decision}
    row |= dict(zip(names, rng.random(len(names)).round(6).tolist(), strict=True))
    return f'{json.dumps(row)[:-1]}, "spectrum": {_SPECTRUM}}}'


def report(name: str, root: Path, *, profile: bool) -> tuple[float, float]:
    """Processor seconds and peak gigabytes of the command."""
    command = ["-m", "bnmodes", "study", "report", name, "--out", str(root)]
    if profile:
        command = ["-m", "cProfile", "-s", "cumulative", "-o", str(root / "profile"), *command]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *command], check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return seconds, after.ru_maxrss / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("study", nargs="?", default="paper-b")
    parser.add_argument("--folder", type=Path, default=None)
    parser.add_argument("--profile", action="store_true")
    options = parser.parse_args()
    study = find_study(options.study)
    with tempfile.TemporaryDirectory() as temporary:
        root = options.folder or Path(temporary)
        if not (root / "runs").is_dir():
            rng = np.random.default_rng(0)
            for run in study.runs:
                make_run(root, study, run, rng)
        size = sum(path.stat().st_size for path in root.glob("runs/*/metrics.jsonl"))
        print(
            f"{study.name}: {len(study.runs):,} runs, {size / 1e6:,.0f} MB of metrics", flush=True
        )
        for which in ("first", "later"):
            seconds, gigabytes = report(study.name, root, profile=options.profile)
            print(f"{which} report: {seconds:.0f} s, {gigabytes:.2f} GB at most", flush=True)


if __name__ == "__main__":
    main()
