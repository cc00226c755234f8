"""Checkpoints come back bit for bit, and no kill or damage loses the one before."""

import contextlib
import multiprocessing
import random
import shutil
import sys
import tempfile
import time
import warnings
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from bnmodes.errors import UsageError
from bnmodes.runs import checkpoint

pytestmark = pytest.mark.numeric

FILES = ("arrays.safetensors", "tree.json", "complete.json")
TREE = {"decision": 3, "weights": torch.arange(5.0), "frames": np.arange(12, dtype=np.uint8)}


def identical(a: Any, b: Any) -> bool:
    """Same types, same order of keys, same bits."""
    if type(a) is not type(b):
        return False
    match a:
        case dict():
            return list(a) == list(b) and all(identical(a[key], b[key]) for key in a)
        case list() | tuple():
            return len(a) == len(b) and all(map(identical, a, b))
        case np.ndarray():
            return (a.dtype, a.shape, a.tobytes()) == (b.dtype, b.shape, b.tobytes())
        case torch.Tensor():
            return (a.dtype, a.shape) == (b.dtype, b.shape) and identical(bits(a), bits(b))
        case float():
            return repr(a) == repr(b)
    return a == b


def bits(tensor: torch.Tensor) -> np.ndarray:
    # A copy, because `view` refuses the zero strides that NumPy gives some empty arrays.
    flat = tensor.detach().clone(memory_format=torch.contiguous_format).reshape(-1)
    return flat.view(torch.uint8).numpy()


dtypes = st.sampled_from(
    ["?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8"]
)
arrays = hnp.arrays(dtypes, hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=3))
tensors = arrays.map(lambda array: torch.from_numpy(array.copy()))
bfloats = hnp.arrays("i2", hnp.array_shapes(min_dims=0)).map(
    lambda array: torch.from_numpy(array.copy()).view(torch.bfloat16)
)
scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text()
trees = st.recursive(
    scalars | arrays | arrays.map(np.transpose) | tensors | bfloats,
    lambda children: (
        st.lists(children, max_size=4)
        | st.lists(children, max_size=2).map(tuple)
        | st.dictionaries(st.text() | st.integers(), children, max_size=4)
    ),
    max_leaves=12,
)


@settings(max_examples=100, deadline=None)
@given(tree=trees)
def test_a_tree_comes_back_bit_for_bit(tree):
    with tempfile.TemporaryDirectory() as folder:
        checkpoint.save(Path(folder), tree)
        loaded = checkpoint.load(Path(folder))
    assert loaded.notes == []
    assert identical(loaded.tree, tree)


def test_leaves_are_saved_by_value(tmp_path):
    images = torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last)
    read_only = np.arange(4)
    read_only.flags.writeable = False
    weight = torch.nn.Parameter(torch.randn(3))
    shared = torch.arange(6)
    tree = {
        "images": images,
        "read_only": read_only,
        "strided": [np.arange(6).reshape(2, 3).T, np.arange(6)[::-1]],
        "shared": [shared, shared, shared[2:]],
    }
    with warnings.catch_warnings(action="error"):
        checkpoint.save(tmp_path, {**tree, "weight": weight})
    loaded = checkpoint.load(tmp_path).tree
    assert identical(loaded.pop("weight"), weight.detach())
    assert identical(loaded, tree)
    assert loaded["images"].is_contiguous()
    assert loaded["read_only"].flags.writeable


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc/self/maps")
def test_a_large_array_is_mapped_and_outlives_its_file(tmp_path):
    frames = np.random.default_rng(0).integers(0, 256, 65 * 2**20, dtype=np.uint8)
    checkpoint.save(tmp_path, {"frames": frames, "weights": torch.ones(3)})
    tree = checkpoint.load(tmp_path).tree
    arrays_file = str(tmp_path / "checkpoints" / "1" / "arrays.safetensors")
    assert arrays_file in Path("/proc/self/maps").read_text()
    shutil.rmtree(tmp_path / "checkpoints")
    assert np.array_equal(tree["frames"], frames)
    del tree["frames"]
    assert arrays_file not in Path("/proc/self/maps").read_text()  # `weights` does not hold it


@pytest.mark.parametrize("leaf", [object(), {1, 2}, np.int64(3), np.array(["text"]), {1.5: 0}])
def test_what_cannot_be_saved_is_refused_and_costs_nothing(tmp_path, leaf):
    checkpoint.save(tmp_path, TREE)
    with pytest.raises(TypeError):
        checkpoint.save(tmp_path, [leaf])
    assert identical(checkpoint.load(tmp_path), checkpoint.Loaded(TREE, []))


def test_a_run_without_checkpoints_starts_afresh(tmp_path):
    assert checkpoint.load(tmp_path / "no such run") is None
    (tmp_path / "checkpoints" / "1.partial").mkdir(parents=True)
    assert checkpoint.load(tmp_path) is None


def test_the_newest_two_are_kept(tmp_path):
    for decision in range(12):
        checkpoint.save(tmp_path, decision)
        assert checkpoint.load(tmp_path).tree == decision
    assert {path.name for path in (tmp_path / "checkpoints").iterdir()} == {"11", "12"}


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def flip_a_bit(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[random.Random(0).randrange(len(content))] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("damage", [truncate, empty, flip_a_bit, Path.unlink])
def test_a_damaged_checkpoint_gives_way_to_the_one_before(tmp_path, name, damage):
    checkpoint.save(tmp_path, {**TREE, "decision": 1})
    checkpoint.save(tmp_path, {**TREE, "decision": 2})
    damage(tmp_path / "checkpoints" / "2" / name)
    tree, notes = checkpoint.load(tmp_path)
    assert identical(tree, {**TREE, "decision": 1})
    assert len(notes) == 1
    assert str(tmp_path / "checkpoints" / "2") in notes[0]

    damage(tmp_path / "checkpoints" / "1" / name)
    with pytest.raises(UsageError, match=r"every checkpoint .* delete that folder"):
        checkpoint.load(tmp_path)

    checkpoint.save(tmp_path, TREE)
    assert identical(checkpoint.load(tmp_path), checkpoint.Loaded(TREE, []))


@pytest.mark.parametrize("bit", range(8))
def test_no_changed_bit_goes_unnoticed(tmp_path, bit):
    checkpoint.save(tmp_path, TREE)
    for name in FILES:
        path = tmp_path / "checkpoints" / "1" / name
        content = path.read_bytes()
        for place in range(len(content)):
            path.write_bytes(
                content[:place] + bytes([content[place] ^ 1 << bit]) + content[place + 1 :]
            )
            with pytest.raises(UsageError):
                checkpoint.load(tmp_path)
        path.write_bytes(content)
    assert identical(checkpoint.load(tmp_path), checkpoint.Loaded(TREE, []))


def test_damage_far_from_the_end_of_a_large_file_is_noticed(tmp_path):
    checkpoint.save(tmp_path, np.zeros(3 * 2**20, np.uint8))
    path = tmp_path / "checkpoints" / "1" / "arrays.safetensors"
    content = bytearray(path.read_bytes())
    content[1000] ^= 1
    path.write_bytes(content)
    with pytest.raises(UsageError):
        checkpoint.load(tmp_path)


@pytest.mark.parametrize("step", ["save_file", "_mark", "flush_to_disk", "Path.rename"])
def test_a_save_that_fails_keeps_the_one_before_and_is_cleaned_up(tmp_path, monkeypatch, step):
    def fail(*_args: Any) -> None:
        raise OSError("disk full")

    checkpoint.save(tmp_path, TREE)
    with monkeypatch.context() as patch:
        patch.setattr(f"bnmodes.runs.checkpoint.{step}", fail)
        with pytest.raises(OSError, match="disk full"):
            checkpoint.save(tmp_path, "never finished")
    assert (tmp_path / "checkpoints" / "2.partial").exists()
    assert identical(checkpoint.load(tmp_path), checkpoint.Loaded(TREE, []))

    checkpoint.save(tmp_path, "finished")
    assert checkpoint.load(tmp_path) == ("finished", [])
    assert {path.name for path in (tmp_path / "checkpoints").iterdir()} == {"1", "2"}


def save_for_ever(folder: Path, decision: int, progress: Connection) -> None:
    while True:
        decision += 1
        checkpoint.save(folder, {"decision": decision, "frames": np.full(2**18, decision)})
        progress.send(decision)


def test_a_killed_process_loses_no_finished_save(tmp_path):
    rng = random.Random(0)
    processes = multiprocessing.get_context("fork")
    newest = 0
    for _ in range(25):
        ours, theirs = processes.Pipe(duplex=False)
        process = processes.Process(target=save_for_ever, args=(tmp_path, newest, theirs))
        process.start()
        theirs.close()  # so that `recv` ends when the process does
        finished = ours.recv()
        time.sleep(rng.uniform(0, 0.05))
        process.kill()
        process.join()
        with contextlib.suppress(EOFError):
            while True:
                finished = ours.recv()
        tree, notes = checkpoint.load(tmp_path)
        newest = tree["decision"]
        assert newest in (finished, finished + 1)  # killed before it could say so
        assert np.array_equal(tree["frames"], np.full(2**18, newest))
        assert notes == []
