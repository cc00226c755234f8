import re
from dataclasses import dataclass, replace

import pytest

from bnmodes import plugins
from bnmodes.agents.agent import UNTUNED, AgentKind, SuiteDefaults
from bnmodes.agents.c51 import C51, C51Agent, C51Settings
from bnmodes.agents.registry import AGENTS, arm_label, arm_settings, find_agent
from bnmodes.envs.registry import env_spec
from bnmodes.errors import UsageError
from bnmodes.runs.spec import make_spec, spec_from_json

EVERY_ARM = [(name, arm) for name, kind in AGENTS.items() for arm in kind.arms]
each_arm = pytest.mark.parametrize(("agent", "arm"), EVERY_ARM)


@each_arm
@pytest.mark.parametrize("suite", ["atari", "minatar", "probe", "gym"])
def test_every_arm_of_every_agent_is_valid_on_every_suite(agent, arm, suite):
    settings = arm_settings(agent, arm, suite)
    settings.validate(evaluation_rows=10)
    settings.for_timing().validate(evaluation_rows=10)
    assert arm_label(agent, arm, suite, settings) == arm


@pytest.mark.parametrize("envs", [10, 12, 128])
@pytest.mark.parametrize("minibatches", [1, 2, 10])
def test_pqn_is_timed_with_settings_that_are_valid(envs, minibatches):
    changes = {"num_envs": envs, "rollout_steps": 30, "minibatches": minibatches}
    settings = arm_settings("pqn", "bn-batch", "minatar", changes)
    settings.validate(evaluation_rows=10)
    timed = settings.for_timing()
    timed.validate(evaluation_rows=10)
    assert timed.minibatch_size >= min(settings.minibatch_size, envs)


@each_arm
def test_a_runs_file_gives_every_arm_back(agent, arm):
    spec = make_spec(agent, "minatar/breakout", arm)
    assert spec_from_json(spec.to_json()) == spec


def test_no_two_arms_of_an_agent_are_the_same():
    for agent, kind in AGENTS.items():
        settings = [arm_settings(agent, arm, "minatar") for arm in kind.arms]
        assert all(a != b for i, a in enumerate(settings) for b in settings[:i])


@pytest.mark.parametrize("agent", AGENTS)
def test_a_suite_that_nobody_tuned_for_gets_the_stated_defaults(agent):
    kind = find_agent(agent)
    assert kind.is_tuned_for("atari")
    assert not kind.is_tuned_for("gym")
    assert kind.suite_defaults("gym") is kind.suites[UNTUNED]
    settings = arm_settings(agent, kind.default_arm, "gym")
    assert settings.torso == "auto"
    for name, value in kind.suites[UNTUNED].settings.items():
        assert getattr(settings, name) == value


def test_an_agent_without_suites_has_its_own_defaults_everywhere():
    bare = replace(C51, suites={})
    assert bare.suite_defaults("minatar") == SuiteDefaults()
    assert not bare.is_tuned_for("minatar")


@pytest.mark.parametrize(
    ("agent", "arm", "changes"),
    [
        ("c51", "bn-tracked", {"protocol.bootstrap.track": 0.3}),
        ("c51", "bn-batch", {"protocol.predict.update": "flax:0.9"}),
        ("c51", "bn-running", {"calibrate_target": True}),
        ("c51", "ln-wn", {"gamma": 0.9, "learning_rate": 1e-3, "torso": "nature"}),
        ("pqn", "bn-running", {"protocol.predict.update": 0.5}),
        ("xqc", "bn-joined", {"protocol.predict.update": 0.5, "protocol.improve.update": 0.1}),
    ],
)
def test_an_arm_with_other_weights_or_hyperparameters_is_still_that_arm(agent, arm, changes):
    assert make_spec(agent, "minatar/breakout", arm, changes=changes).arm == arm


@pytest.mark.parametrize(
    ("agent", "arm", "changes"),
    [
        ("c51", "bn-batch", {"protocol.bootstrap.statistics": "running"}),
        ("c51", "bn-running", {"protocol.bootstrap.track": 0.1}),
        ("c51", "bn-tracked", {"protocol.bootstrap.track": None}),
        ("c51", "bn-batch", {"protocol.bootstrap.moments": "pool"}),
        ("c51", "bn-batch", {"norm.bn_epsilon": 1e-3}),
        ("c51", "bn-batch", {"projection.granularity": "neuron"}),
        ("c51", "bn-wn", {"learning_rate_schedule": "constant"}),
        ("pqn", "bn-running", {"head": "hl-gauss"}),
        ("pqn", "bn-running", {"bootstrap_source": "acting-cache"}),
        ("crossq", "batchnorm", {"norm": "batchrenorm"}),
        ("xqc", "xqc-no-target", {"protocol.bootstrap.params": "target"}),
    ],
)
def test_an_arm_whose_definition_was_changed_says_so(agent, arm, changes):
    spec = make_spec(agent, "minatar/breakout", arm, changes=changes)
    assert spec.arm == f"{arm}-changed"
    spec.validate()


def test_unknown_names_are_refused_with_the_nearest():
    with pytest.raises(UsageError, match=r"no agent 'c15' \(did you mean 'c51'\?\): choose c51, "):
        find_agent("c15")
    with pytest.raises(UsageError, match=r"or name one of your own as FILE\.py:NAME\.$"):
        find_agent("????")
    with pytest.raises(UsageError, match=r"^pqn has no arm 'bn-bath' \(did you mean 'bn-batch'\?"):
        arm_settings("pqn", "bn-bath", "minatar")


@dataclass(frozen=True)
class SettingsWithoutCapabilities:
    protocol: object = None
    num_envs: int = 1
    env_rows: int = 1
    updates_per_decision: float = 1.0

    def memory_bytes(self, env):
        return 0

    def for_timing(self):
        return self

    def fixed(self):
        return {}

    def notes(self):
        return []

    def warnings(self, total_decisions):
        return []

    def validate(self, evaluation_rows):
        pass


class AgentThatOnlyActs:
    def begin(self, obs):
        pass

    def act(self, obs):
        pass


@pytest.fixture
def named(monkeypatch, tmp_path):
    """Objects in a file of a user's own, by name."""

    def name(**objects):
        path = tmp_path / "mine.py"
        path.write_text("")
        monkeypatch.setattr(plugins, "_loaded", {})
        vars(plugins.load(path).module).update(objects)
        return "mine.py:Mine"

    return name


def refusal(agent: str) -> str:
    with pytest.raises(UsageError) as refused:
        find_agent(agent)
    return str(refused.value)


def test_an_agent_of_a_users_own_is_found(named):
    kind = replace(C51, name="mine")
    assert find_agent(named(Mine=kind)) is kind


def test_what_is_no_agent_is_refused(named):
    assert refusal(named(Mine=C51Agent)) == (
        "mine.py:Mine is no agent, but of type type: name an AgentKind."
    )
    assert "of type int: name an AgentKind." in refusal(named(Mine=3))


def test_a_class_that_lacks_a_method_is_refused(named):
    assert refusal(named(Mine=replace(C51, build=AgentThatOnlyActs))) == (
        "mine.py:Mine: AgentThatOnlyActs lacks observe, learn, greedy, take_metrics, diagnose, "
        "state, load_state, load_networks, which the contract bnmodes.agents.agent.Agent asks for."
    )
    assert refusal(named(Mine=replace(C51, settings=SettingsWithoutCapabilities))) == (
        "mine.py:Mine: SettingsWithoutCapabilities lacks capabilities, which the contract "
        "bnmodes.agents.agent.Settings asks for."
    )


def test_a_function_may_build_an_agent(named):
    def build(settings, env, seed, total_decisions, execution) -> C51Agent:
        return C51Agent(settings, env, seed, total_decisions, execution)

    assert find_agent(named(Mine=replace(C51, build=build))).build is build


def test_a_setting_that_an_arm_or_a_suite_misspells_is_refused(named):
    kind = AgentKind(
        name="mine",
        summary="",
        settings=C51Settings,
        arms={"one": {"gama": 0.5}},
        default_arm="one",
        build=C51Agent,
    )
    with pytest.raises(UsageError, match="did you mean 'gamma'"):
        arm_settings(named(Mine=kind), "one", "minatar")
    suites = {"minatar": SuiteDefaults({"torsoo": "minatar"})}
    kind = replace(kind, arms={"one": {}}, suites=suites)
    with pytest.raises(UsageError, match="did you mean 'torso'"):
        arm_settings(named(Mine=kind), "one", "minatar")


@pytest.mark.parametrize("name", AGENTS)
def test_what_a_report_says_of_the_optimizer_is_what_the_agent_has(name):
    spec = make_spec(name, "minatar/breakout")
    agent = find_agent(name).build(
        replace(spec.settings, **({} if name == "pqn" else {"replay_capacity": 200})),
        env_spec(spec.env),
        0,
        1000,
    )
    said = spec.settings.fixed()
    optimizers = [agent.optimizer] if name == "pqn" else agent.optimizers.values()
    for optimizer in optimizers:
        assert said["optimizer"].lower().partition(",")[0] == optimizer.rule
        assert "β ({:g}, {:g})".format(*optimizer.betas) in said["optimizer"]
    activations = {type(m).__name__ for n in agent.networks.values() for m in n.modules()}
    used = activations & {"ReLU", "ELU"}
    assert {word for word in ("ReLU", "ELU") if re.search(rf"\b{word}", said["activation"])} == used
    assert said["initialisation"].endswith("biases 0")
