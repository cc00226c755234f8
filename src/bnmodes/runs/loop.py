"""From a specification to a finished run: the one loop for every agent and every game.

A run that was stopped and resumed equals one that never stopped bit for bit, on one model of
processor, with one number of threads and one set of package versions. Elsewhere rounding differs.
"""

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from bnmodes.agents.agent import Agent
from bnmodes.agents.registry import find_agent
from bnmodes.envs.contract import VectorEnv
from bnmodes.envs.registry import env_spec, make_env
from bnmodes.errors import DamagedError, UsageError
from bnmodes.execution import PLAIN, Execution
from bnmodes.runs import checkpoint
from bnmodes.runs.divergence import networks_are_finite
from bnmodes.runs.evaluate import play_games
from bnmodes.runs.folder import RunFolder
from bnmodes.runs.progress import Progress
from bnmodes.runs.returns import GameReturns
from bnmodes.runs.sinks import SinkName, open_sinks
from bnmodes.runs.spec import RunSpec
from bnmodes.runs.stopping import Stopped, StopRequest
from bnmodes.streams import numpy_stream


def build_agent(spec: RunSpec, env: VectorEnv, execution: Execution = PLAIN) -> Agent:
    build = find_agent(spec.agent).build
    return build(spec.settings, env.spec, spec.seed, spec.total_decisions, execution)


def make_evaluation_env(spec: RunSpec, decision: int) -> VectorEnv:
    """New environments, seeded by the evaluation's decision: there is nothing to resume."""
    seed = int(numpy_stream(spec.seed, "evaluation games", decision).integers(2**31 - 1000))
    return _make_env(spec, spec.evaluation.episodes, seed)


def _make_env(spec: RunSpec, num_envs: int, seed: int) -> VectorEnv:
    return make_env(
        spec.env,
        num_envs,
        seed,
        threads=torch.get_num_threads(),
        new_life=spec.new_life,
    )


@dataclass
class Loop:
    """A run in motion; everything that its next decision depends on is in `state`."""

    spec: RunSpec
    folder: RunFolder
    progress: Progress
    sink_names: tuple[SinkName, ...] = ()
    execution: Execution = PLAIN
    stop: StopRequest = field(default_factory=StopRequest)
    evaluations_done: int = 0
    resumes: int = 0
    last_finite_decision: int = 0
    """The last look at which every parameter was a finite number."""
    diverged: bool = False

    def __post_init__(self):
        self.num_envs = self.spec.settings.num_envs
        self.evaluation_grid = self.spec.evaluation.grid(self.spec.total_decisions)
        self.games = GameReturns(self.num_envs, self.spec.settings.env_rows)

    @property
    def decision(self) -> int:
        """Decisions made so far; the agent counts them."""
        return self.agent.decisions

    def start(self) -> None:
        """From the newest checkpoint, or from the beginning."""
        loaded = checkpoint.load(self.folder.path, discard_damaged=True)
        state = loaded.tree if loaded else None
        # Earlier checkpoints do not say whose they are.
        if state and state.get("run", self.spec.content_hash) != self.spec.content_hash:
            raise DamagedError(
                f"the checkpoints in {self.folder.path} are of another run ({state['run']}): put "
                "its own back, or delete the run's folder to run it again."
            )
        for note in loaded.notes if loaded else []:
            self.progress.say(note)
        self.resumes = state["resumes"] + 1 if state else 0
        seed = numpy_stream(self.spec.seed, "games", self.resumes).integers(2**31 - 1000)
        decision = self.progress.decision = state["decision"] if state else 0
        self.sinks = open_sinks(self.sink_names, self.spec, self.folder.path, decision)
        self.progress.phase("starting games")
        self.env = _make_env(self.spec, self.spec.settings.env_rows, int(seed))
        self.agent = build_agent(self.spec, self.env, self.execution)
        if state is None:
            self.folder.metrics_file.rewind(0, None)
            self.obs = self.env.reset()
            self.agent.begin(self.obs)
        else:
            self.progress.say(f"going on from decision {state['decision']:,}")
            self.folder.metrics_file.rewind(state["metrics_bytes"], state.get("metrics_sha256"))
            self.load_state(state)
        self.progress.phase("")

    def load_state(self, state: dict[str, Any]) -> None:
        self.evaluations_done = state["evaluations_done"]
        self.games.load_state(state)
        self.last_finite_decision = state.get("last_finite_decision", 0)
        self.agent.load_state(state["agent"])
        obs = self.env.load_state(state["env"])
        if obs is not None:
            self.obs = obs
            return
        self.progress.say("the games could not go on as they were: new ones begin")
        self.games.new_games()
        self.obs = self.env.reset()
        self.agent.begin(self.obs)
        self._record("resume", {"new_games": self.spec.settings.env_rows})

    def state(self) -> dict[str, Any]:
        return {
            "run": self.spec.content_hash,
            "decision": self.decision,
            "evaluations_done": self.evaluations_done,
            "resumes": self.resumes,
            "metrics_bytes": self.folder.metrics_file.size_bytes(),
            "metrics_sha256": self.folder.metrics_file.sha256(),
            "last_finite_decision": self.last_finite_decision,
            **self.games.state(),
            "agent": self.agent.state(),
            "env": self.env.state(),
        }

    def save(self) -> None:
        self.folder.metrics_file.flush()
        checkpoint.save(self.folder.path, self.state())

    def run(self, checkpoint_minutes: float) -> None:
        """To the last decision, or until the networks' parameters are no longer finite."""
        last_save = time.monotonic()
        while True:
            self._evaluate_if_due()
            if self.diverged or self.decision >= self.spec.total_decisions:
                return
            self._stop_if_asked()
            if time.monotonic() - last_save > 60 * checkpoint_minutes:
                self.save()
                last_save = time.monotonic()
            try:
                self._decide()
            except (RuntimeError, ValueError):  # as sampling from NaN does
                if networks_are_finite(self.agent.networks):
                    raise
                self._is_finite()

    def _is_finite(self) -> bool:
        """Look at the parameters; where they are not finite the run has diverged, and ends. No
        score comes from such networks: this is asked before each row."""
        if self.diverged or not networks_are_finite(self.agent.networks):
            if not self.diverged:
                self.diverged = True
                self._record("diverged", {"last_finite_decision": self.last_finite_decision})
            return False
        self.last_finite_decision = self.decision
        return True

    def _decide(self) -> None:
        before = self.decision
        actions = self.agent.act(self.obs)
        step = self.env.step(actions)
        self.agent.observe(actions if step.pressed is None else step.pressed, step)
        self.agent.learn()
        self.obs = step.obs
        if self.decision != before + self.num_envs:
            raise UsageError(
                f"{self.spec.agent} counted {self.decision - before} decisions in a step of "
                f"{self.num_envs} environments: its `observe` must add their number to `decisions`."
            )
        self.games.add(step.reward, step.game_over)
        if self.games.last is not None:
            self.progress.last_return = self.games.last
        self._record_what_is_due(before)
        self.progress.update(self.decision)

    def _record_what_is_due(self, before: int) -> None:
        every = self.spec.record_every_decisions
        is_row_due = self.decision // every > before // every
        bins = range(self._test_bin(before), self._test_bin(self.decision))
        point = self._diagnostics_point(self.decision)
        is_point_due = point > self._diagnostics_point(before)
        if not (is_row_due or bins or is_point_due) or not self._is_finite():
            return
        if is_row_due:
            self._record("train", self.games.take_training() | self.agent.take_metrics())
        for test_bin in bins:
            self._record_tests(test_bin)
        if is_point_due:
            self._diagnose(point)

    def _diagnostics_point(self, decision: int) -> int:
        return decision * self.spec.diagnostics.points // self.spec.total_decisions

    def _diagnose(self, point: int) -> None:
        rng = numpy_stream(self.spec.seed, "diagnostics", self.decision)
        if measured := self.agent.diagnose(self.obs, rng):
            on_grid = point * self.spec.total_decisions // self.spec.diagnostics.points
            self._record("diagnostics", measured, decision=on_grid)

    def _record_tests(self, test_bin: int) -> None:
        end = self.spec.evaluation.test_grid(self.spec.total_decisions)[test_bin]
        self._record("test", {"bin": test_bin} | self.games.take_tests(), decision=end)

    def _test_bin(self, decision: int) -> int:
        """Number of bins of test games that are over by this decision; 0 without such games."""
        if not self.games.has_tests:
            return 0
        total = self.spec.total_decisions  # which many environments may overshoot
        return min(decision, total) * self.spec.evaluation.test_bins // total

    def _evaluate_if_due(self) -> None:
        while (
            self.evaluations_done < len(self.evaluation_grid)
            and self.decision >= self.evaluation_grid[self.evaluations_done]
            and self._is_finite()
        ):
            self.progress.phase("evaluating")
            returns = play_games(
                self.agent.greedy,
                make_evaluation_env(self.spec, self.decision),
                self.spec.evaluation.epsilon,
                numpy_stream(self.spec.seed, "evaluation actions", self.decision),
                each_decision=self._between_decisions,
            )
            self._record(
                "evaluation",
                {"return": float(returns.mean()), "returns": returns.tolist()},
                # Many environments may overshoot it; runs are compared on the grid.
                decision=self.evaluation_grid[self.evaluations_done],
            )
            self.evaluations_done += 1
            self.progress.last_evaluation = float(returns.mean())
            self.progress.phase("")

    def _between_decisions(self) -> None:
        """Of an evaluation."""
        self.progress.beat()
        self._stop_if_asked()

    def _stop_if_asked(self) -> None:
        """Save and raise `Stopped`. An evaluation under way is dropped and repeated later."""
        if self.stop.requested:
            self.progress.phase("saving")
            self.save()
            raise Stopped(self.decision)

    def _record(self, kind: str, values: dict[str, Any], decision: int | None = None) -> None:
        decision = self.decision if decision is None else decision
        frame = decision * self.env.spec.frames_per_decision
        row = {"kind": kind, "decision": decision, "frame": frame} | values
        self.folder.metrics_file.append(row)
        for sink in list(self.sinks):
            try:
                sink.write(row)
            except Exception as error:  # the run's own file stays the truth, whatever fails here
                self.progress.say(f"{type(sink).__name__} failed and is left out: {error}")
                self.sinks.remove(sink)


def train(
    spec: RunSpec,
    out: Path,
    *,
    checkpoint_minutes: float = 5.0,
    show_progress: bool = True,
    sinks: tuple[SinkName, ...] = (),
    execution: Execution = PLAIN,
    keep_networks: bool = True,
) -> RunFolder:
    """Run `spec` in the folder `out`, or go on with it; does nothing when it is finished.

    Without `keep_networks` a finished run has its metrics only: it can be neither watched nor
    audited. Raises `Stopped` after Ctrl-C or SIGTERM, with everything kept.
    """
    spec.validate()
    execution.validate_here()
    env_spec(spec.env)  # an environment that cannot be made is refused before a folder is
    folder = RunFolder(out)
    with folder.claimed(spec, execution):
        if folder.finished:
            folder.discard_checkpoints()  # a kill may have come between the mark and this
        else:
            with Progress(spec, folder.progress_path, visible=show_progress) as progress:
                try:
                    loop = Loop(spec, folder, progress, sinks, execution)
                    _train_in(folder, loop, checkpoint_minutes, keep_networks)
                except (MemoryError, RuntimeError) as error:
                    if not _is_memory_full(error):
                        raise
                    raise UsageError(
                        f"the memory of {execution.device} is full: let fewer runs share it, or "
                        "make batches, networks or the replay smaller."
                    ) from None
    return folder


def _is_memory_full(error: Exception) -> bool:
    """PyTorch has an exception of its own for accelerators, and none for the machine's memory."""
    kinds = (MemoryError, torch.OutOfMemoryError)
    return isinstance(error, kinds) or "allocate memory" in str(error)


def _train_in(
    folder: RunFolder, loop: Loop, checkpoint_minutes: float, keep_networks: bool
) -> None:
    with loop.stop.listening():
        loop.start()
        try:
            started, first = time.monotonic(), loop.decision
            loop.run(checkpoint_minutes)
        finally:
            for sink in loop.sinks:
                sink.close()
    seconds = time.monotonic() - started
    folder.finish(
        networks=loop.agent.state()["networks"] if keep_networks else None,
        decision=loop.decision,
        resumes=loop.resumes,
        decisions_per_second=round((loop.decision - first) / seconds, 1),
        last_finite_decision=loop.last_finite_decision if loop.diverged else None,
    )
