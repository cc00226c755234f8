"""What a `forward_mode` block does to the layers of a module, and how it undoes it.

Blocks may be nested, and need not end in the order in which they began. So each layer has a list of
the blocks that hold it, is dressed as the last of them says, and gets its own settings back when
none is left.

A tracking block must run every call twice. Between calls its layers are locked: they have a class
whose forward refuses. So a way into them that does not pass through the discarded pass (a part that
is called alone, a graph that torch.compile made earlier) is an error and never a silent answer:
torch.compile looks at the class of a layer before it uses a graph, while it does not look at hooks.
"""

import threading
from functools import cache
from typing import Any
from weakref import WeakKeyDictionary

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.modules.instancenorm import _InstanceNorm

from bnmodes.errors import UsageError
from bnmodes.protocol import RUNNING, Mode

_LOCK = threading.RLock()
_MISSING = object()
_BLOCKS: "WeakKeyDictionary[nn.Module, list[Block]]" = WeakKeyDictionary()
"""Of each layer: the open blocks that hold it, innermost last."""
_OWN: "WeakKeyDictionary[nn.Module, tuple]" = WeakKeyDictionary()
"""Of each layer in a block: its own class, training flag, momentum and track_running_stats."""
_WAYS: "WeakKeyDictionary[nn.Module, list[_Way]]" = WeakKeyDictionary()
"""Of each module through which a tracked call may come: its ways, innermost last."""
_OWN_FORWARD: "WeakKeyDictionary[nn.Module, object]" = WeakKeyDictionary()
"""Of each such module: the forward that its instance had, if it had one."""


class Block:
    """One `forward_mode` block: a module, its mode, and the layers that are set."""

    @torch.compiler.disable
    def __init__(self, module: nn.Module, mode: Mode, layers: list[nn.Module]):
        self.mode = mode
        self.layers = layers
        self.thread = threading.get_ident()
        self.running: Mode | None = None
        """The mode of the pass that a tracked call is in."""
        self.ways = []
        if mode.track is not None:
            held = set(layers)
            self.ways = [_Way(self, m) for m in module.modules() if held <= set(m.modules())]

    @torch.compiler.disable
    def open(self) -> None:
        with _LOCK:
            if any(b.thread != self.thread for layer in self.layers for b in _blocks(layer)):
                raise UsageError(
                    "another thread has a forward_mode block open on these layers, which are "
                    "shared: let one thread end before the next begins, or give each its own copy."
                )
            for layer in self.layers:
                if not _blocks(layer):
                    _OWN[layer] = (
                        layer.__class__, layer.training, layer.momentum, layer.track_running_stats
                    )  # fmt: skip
                _BLOCKS.setdefault(layer, []).append(self)
            for way in self.ways:
                _WAYS.setdefault(way.module, []).append(way)
            self._dress()

    @torch.compiler.disable
    def close(self) -> None:
        with _LOCK:
            for layer in self.layers:
                _BLOCKS[layer].remove(self)
            for way in self.ways:
                _WAYS[way.module].remove(way)
            self._dress()

    def _dress(self) -> None:
        """Sets the layers, and the ways of every block that holds one of them."""
        blocks = {self, *(block for layer in self.layers for block in _blocks(layer))}
        for layer in self.layers:
            _dress(layer)
        for module in {way.module for block in blocks for way in block.ways}:
            _lead(module)

    def ruled(self) -> list[nn.Module]:
        """The layers that no inner block has taken over."""
        return [layer for layer in self.layers if _blocks(layer)[-1] is self]

    @torch.compiler.disable
    def check_undisturbed(self) -> None:
        if self.mode.track is None and any(
            layer.training != (self.mode.statistics == "batch") for layer in self.ruled()
        ):
            raise UsageError(
                "train() or eval() was called on this module inside a forward_mode block, which "
                "undid the block's mode: call it outside the block."
            )

    def twice(self, module: nn.Module, args: tuple, kwargs: dict):
        """A tracked call of `module`: the discarded pass, then the one that counts."""
        if threading.get_ident() != self.thread:
            raise UsageError(
                "a tracked call came from another thread than the one that opened the forward_mode "
                "block: open the block in that thread, or on the wrapper (DataParallel) itself."
            )
        inner = [_blocks(layer)[-1] for layer in self.layers if _blocks(layer)[-1] is not self]
        if any(block.mode.writes for block in inner):
            raise UsageError(
                "a part of this tracked module is in an inner forward_mode block that writes, and "
                "would write in both passes of a tracked call: call the part alone in that block."
            )
        try:
            self._begin(Mode(statistics="batch", update=self.mode.track))
            with torch.no_grad():
                module.forward(*args, **kwargs)
            self._begin(RUNNING)
            return module.forward(*args, **kwargs)
        finally:
            self._begin(None)

    def _begin(self, running: Mode | None) -> None:
        with _LOCK:
            self.running = running
            self._dress()


def _uncompiled(method):
    """torch.compile breaks its graph here, or, where it may not (`fullgraph`), gives the reason."""
    reason = "a tracked call is two passes: set forward_mode on the compiled module, not inside it"
    return torch.compiler.disable(method, reason=reason)


class _Way:
    """Stands in for the forward of a module that holds all layers of a tracking block."""

    def __init__(self, block: Block, module: nn.Module):
        self.block = block
        self.module = module

    def __call__(self, *args, **kwargs):
        return self._twice(args, kwargs)

    @_uncompiled
    def _twice(self, args: tuple, kwargs: dict):
        return self.block.twice(self.module, args, kwargs)

    def __deepcopy__(self, memo):
        raise UsageError(
            "a module cannot be copied inside a forward_mode block that tracks: copy it outside."
        )

    def __reduce__(self):
        self.__deepcopy__({})


def _blocks(layer: nn.Module) -> list[Block]:
    return _BLOCKS.get(layer, [])


def _lead(module: nn.Module) -> None:
    """Puts the innermost way whose block rules and is not in a call in this module's forward."""
    if module not in _OWN_FORWARD:
        _OWN_FORWARD[module] = module.__dict__.get("forward", _MISSING)
    blocks = {way: way.block for way in _WAYS[module]}
    waiting = [way for way, block in blocks.items() if block.running is None and block.ruled()]
    forward = waiting[-1] if waiting else _OWN_FORWARD[module]
    # Not setattr: torch.compile's module would hand it on to the module inside.
    if forward is _MISSING:
        module.__dict__.pop("forward", None)
    else:
        module.__dict__["forward"] = forward
    if not _WAYS[module]:
        del _WAYS[module], _OWN_FORWARD[module]


def _dress(layer: Any) -> None:
    """Gives a layer the class and flags of its innermost block, or its own where it has none."""
    own, training, momentum, track_running_stats = _OWN[layer]
    if not _blocks(layer):
        layer.__class__ = own
        layer.training = training
        layer.momentum = momentum
        layer.track_running_stats = track_running_stats
        del _BLOCKS[layer], _OWN[layer]
        return
    block = _blocks(layer)[-1]
    mode = block.running or block.mode
    locked = mode.track is not None
    reads_rows = mode.statistics == "batch"
    is_instance_norm = isinstance(layer, _InstanceNorm)
    layer.__class__ = own
    if locked:
        layer.__class__ = _locked(own)
    elif is_instance_norm and reads_rows and not mode.writes:
        layer.__class__ = _without_writing(own)
    layer.training = reads_rows
    layer.momentum = momentum if mode.update is None else mode.update
    # nn.BatchNorm neither writes nor counts a batch where this flag is off, and still uses it.
    layer.track_running_stats = not reads_rows or mode.update is not None


@cache
def _locked(own: type[nn.Module]) -> type[nn.Module]:
    def forward(self, *args, **kwargs):
        raise UsageError(
            "a BatchNorm layer was called inside a tracking forward_mode block, but not through "
            "the module of that block, so no discarded pass came first: set forward_mode on what "
            "you call."
        )

    return type(own.__name__, (own,), {"forward": forward})


@cache
def _without_writing(own: type[nn.Module]) -> type[nn.Module]:
    """`nn.InstanceNorm*` has no flag to use a row's own statistics and leave the stored alone."""

    def _apply_instance_norm(self, x):
        return F.instance_norm(x, None, None, self.weight, self.bias, True, 0.0, self.eps)

    return type(own.__name__, (own,), {"_apply_instance_norm": _apply_instance_norm})
