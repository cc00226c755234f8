"""Compiled or not, on one device or another: the same agent.

No accelerator is needed: PyTorch's `meta` device stands in for one. It computes shapes only,
refuses tensors of two devices in one operation, and has no number for whoever asks for one.
"""

import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

from bnmodes import execution as execution_module
from bnmodes.envs.contract import EnvSpec
from bnmodes.errors import UsageError
from bnmodes.execution import Execution, has_compiler, processor_name
from bnmodes.replay.ring import Replay
from helpers.compiled_beside_eager import build, fill, learn

pytestmark = pytest.mark.numeric

ARMS = [
    *(("c51", "bn-tracked"), ("pqn", "bn-batch"), ("td3", "none"), ("mrq", "ln")),
    *(("xqc", "bn-joined"), ("crossq", "batchrenorm")),
]
each_agent = pytest.mark.parametrize(("name", "arm"), ARMS)
needs_compiler = pytest.mark.skipif(not has_compiler(), reason="no g++ for torch.compile")


@pytest.mark.slow
@needs_compiler
@each_agent
def test_compiled_equals_eager_and_is_compiled_once(name, arm):
    """In a process without the checks of types in tests, which cannot be compiled."""
    command = [sys.executable, "-m", "helpers.compiled_beside_eager", name, arm]
    tests = Path(__file__).parents[1]
    done = subprocess.run(command, cwd=tests, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", ["c51", "td3", "xqc"])
def test_updates_drawn_in_one_go_are_the_same_bit_for_bit(name):
    together, apart = (build(name, dict(ARMS)[name]) for _ in range(2))
    for agent, games in (together, apart):
        fill(agent, games)
    together[0].make_updates(5)
    for _ in range(5):
        apart[0].make_updates(1)
    ours, theirs = (agent.state()["networks"] for agent, _ in (together, apart))
    for network, tensors in ours.items():
        for key, tensor in tensors.items():
            assert torch.equal(tensor, theirs[network][key])


@pytest.fixture
def stand_in(monkeypatch):
    """`meta` as an accelerator; counts how often somebody waits for it, and answers with ones.

    To copy from ordinary memory, and not from pinned memory without blocking, is to wait too.
    """
    waits = []
    move = torch.Tensor.to

    def to(tensor, *args, **kwargs):
        moved = move(tensor, *args, **kwargs)
        blocking = not kwargs.get("non_blocking")
        if tensor.device.type == "cpu" and moved.device.type == "meta" and blocking:
            waits.append(move)
        return moved

    def answer(original, value, tensor, *args):
        if tensor.device.type != "meta":
            return original(tensor, *args)
        waits.append(original)
        return value(tensor) if callable(value) else value

    for name, value in {
        "cpu": lambda tensor: torch.ones(tensor.shape, dtype=tensor.dtype),
        "tolist": lambda tensor: [1.0] * len(tensor),
        "__float__": 1.0,
        "__int__": 1,
        "__bool__": True,
    }.items():
        method = partial(answer, getattr(torch.Tensor, name), value)
        monkeypatch.setattr(torch.Tensor, name, lambda self, *args, m=method: m(self, *args))
    monkeypatch.setattr(torch.Tensor, "to", to)
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda self: self)
    monkeypatch.setattr(execution_module, "free_bytes", lambda device: 10**9)
    for kernel in ("_fused_adam_", "_fused_adamw_"):  # they exist for real devices only
        monkeypatch.setattr(torch, kernel, fused_step)
    return waits


def fused_step(*tensors, lr, **settings) -> None:
    """On an accelerator the kernel reads a rate that is a tensor as a single-precision number."""
    assert isinstance(lr, float) or lr.dtype is torch.float32


@pytest.mark.parametrize("memory", ["host", "device"])
@each_agent
def test_updates_stay_on_the_device_and_wait_for_it_never(stand_in, name, arm, memory):
    """But for MR.Q, once an update: its priorities are on the host."""
    agent, games = build(name, arm, Execution("meta", replay_memory=memory))
    fill(agent, games)
    assert agent.greedy(games.reset()).shape == (games.num_envs,)
    stand_in.clear()
    for updates in (1, 3, 2):
        learn(agent, updates)
    assert len(stand_in) == (6 if name == "mrq" else 0)
    tensors = [t for network in agent.networks.values() for t in network.state_dict().values()]
    assert {t.device.type for t in tensors} == {"meta"}
    if hasattr(agent, "replay"):
        assert agent.replay.frames.device.type == ("meta" if memory == "device" else "cpu")
    assert agent.take_metrics()["updates"]
    measured = agent.diagnose(games.reset(), np.random.default_rng(0))
    assert bool(measured)


@pytest.mark.filterwarnings("ignore:.*copying from a non-meta")
@each_agent
def test_a_checkpoint_goes_from_one_device_to_another(stand_in, name, arm):
    saved, games = build(name, arm)
    fill(saved, games)
    for _ in range(3):
        learn(saved)
    moved, _ = build(name, arm, Execution("meta", replay_memory="device"))
    moved.load_state(saved.state())
    assert moved.updates == saved.updates
    assert moved.means.sums.device.type == "meta"
    learn(moved)


def test_frames_that_do_not_fit_on_the_device_are_refused_with_what_to_do(stand_in, monkeypatch):
    atari = EnvSpec("random frames", 6, (1, 84, 84), 4, 1 / 255, 4)
    on_device = Execution("meta", replay_memory="device")
    monkeypatch.setattr(execution_module, "free_bytes", lambda device: 6_040_000_000)
    Replay(atari, 1, 800_000, on_device)
    with pytest.raises(UsageError, match=r"take 7\.4 GB, but meta has 6\.0 GB free.*memory host"):
        Replay(atari, 1, 1_000_000, on_device)
    Replay(atari, 1, 1_000_000, Execution("meta", replay_memory="host"))


def test_the_replays_two_memories_are_one_on_the_cpu():
    agents = [build("c51", "bn-batch", Execution(replay_memory=m)) for m in ("host", "device")]
    for agent, games in agents:
        fill(agent, games, decisions=150)
        agent.make_updates(2)
    host, device = (agent.state()["networks"]["online"] for agent, _ in agents)
    assert all(torch.equal(host[key], device[key]) for key in host)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--device", "cuda"], "PyTorch sees no accelerator here; use --device cpu."),
        (["--device", "tpu"], "device 'tpu' is unknown: choose cpu, cuda or cuda:N."),
    ],
)
@pytest.mark.parametrize("command", [["train", "mrq"], ["study", "run", "quick"]])
def test_a_device_that_is_not_here_is_refused_in_one_sentence(
    run, tmp_path, monkeypatch, command, options, sentence
):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    code, _, err = run(*command, "--out", tmp_path / "x", *options)
    assert code == 2
    assert err.startswith("bnmodes: ")
    assert sentence in err
    assert err.count("\n") == 1
    assert not (tmp_path / "x").exists()


def test_accelerators_are_counted_from_zero(monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    Execution("cuda:1").validate_here()
    with pytest.raises(UsageError, match="sees 2 accelerators"):
        Execution("cuda:2").validate_here()


def test_compiling_without_a_compiler_is_refused(monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler")
    Execution().validate_here()
    with pytest.raises(UsageError, match=r"g\+\+"):
        Execution(compile=True).validate_here()


def test_a_processor_has_the_name_of_its_model_or_its_architecture(tmp_path, monkeypatch):
    cpuinfo = tmp_path / "cpuinfo"
    monkeypatch.setattr("platform.processor", lambda: "")  # as Linux often says
    monkeypatch.setattr("platform.machine", lambda: "aarch64")
    assert processor_name(cpuinfo) == "aarch64"
    cpuinfo.write_text("BogoMIPS : 50.00\n")
    assert processor_name(cpuinfo) == "aarch64"
    cpuinfo.write_text("model : 6\nmodel name : Abacus: II\nmodel name : Other\n")
    assert processor_name(cpuinfo) == "Abacus: II"
