"""The audit of a PyTorch module, or of a function that calls some."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.modules.lazy import LazyModuleMixin

from bnmodes.auditing.evidence import (
    FEW_CONSTANTS,
    Evidence,
    Seen,
    conclude,
    gather,
    perturbed,
)
from bnmodes.auditing.functions import blindness
from bnmodes.auditing.result import Audit
from bnmodes.auditing.sandbox import Sandbox, Slot
from bnmodes.auditing.trees import (
    Change,
    Leaf,
    Leaves,
    arrays,
    change,
    copied,
    count_rows,
    leaf,
    leaves,
    thinned,
    with_other_mates,
)
from bnmodes.errors import UsageError


def audit(
    forward: nn.Module | Callable,
    batch,
    modules: Sequence[nn.Module] | None = None,
) -> Audit:
    """Which statistics does this forward really use? Leaves everything as it was.

    `forward(batch)` is run on variations of `batch`, which is a tensor or a dict or tuple of
    tensors whose first axis is the rows; what it returns may be nested too. `modules` are those
    that the forward may call; a module's own are known, a function's must be given.

    Running statistics are those of bnmodes' layers, every `running_mean` and `running_var`, and
    every other tensor of the modules into which a forward writes something that depends on the rows
    and on what was there (tried in training and in evaluation mode too). Tensors and NumPy's arrays
    in plain objects, dicts and lists are among them; single numbers, and arrays that cannot be
    written into, are put back but not looked at.

    Where the output shows nothing, the forward is run again with other parameters and with a look
    at the outputs of single layers, so that a head of zeros hides nothing. What cannot be told is
    None in the result, with a reason. Every run begins with the same random state, so a dropout
    mask that is the same for the same shapes is not mistaken for a batch-mate.
    """
    if modules is None:
        if not isinstance(forward, nn.Module):
            raise UsageError(
                "a function does not say whose running statistics it may touch: give audit its "
                "modules."
            )
        modules = [forward]
    for part in (part for module in modules for part in module.modules()):
        if isinstance(part, LazyModuleMixin) and part.has_uninitialized_params():
            raise UsageError(
                "this module has lazy layers that do not know their size yet: call it once before "
                "you audit it."
            )
        if isinstance(part, torch.jit.ScriptModule):
            raise UsageError(
                "TorchScript shows nothing of single layers: audit the module before "
                "torch.jit.script or torch.jit.trace."
            )
    with torch.no_grad(), Sandbox(modules) as sandbox:
        look = _Look(forward, sandbox)
        look.moments = _find_moments(look, batch)
        first = gather(look.run, batch)
        second = _second_look(look, batch) if _unsure(first) else None
        constants = _find_constants(look, batch)
    return _conclusion(first, second, look, constants)


class _Look:
    """Runs the forward from the same state each time, and notes what it sees."""

    def __init__(self, forward: Callable, sandbox: Sandbox):
        self.forward = forward
        self.sandbox = sandbox
        self.moments: list[Slot] = []
        self.training: bool | None = None
        """A training flag for all parts; None: as they are."""
        self.awake = False
        """With other parameters, uncompiled, and with a look at single layers."""
        self.ran = False
        """A layer with running statistics was called."""
        self.heard: dict[str, bool] = {}
        """Layers with running statistics: whether any run gave rows with different outputs."""
        self.replaced = False
        """A layer with running statistics was called with others than its own."""

    def run(self, batch, direction: int = 0, size: float = 1.0) -> Seen:
        before = self._begin(direction, size, self.moments)
        batch = copied(batch)
        if not self.awake:
            output, layers = self.forward(batch), {}
        else:
            with _watched(self, count_rows(batch)) as layers:
                output = self.forward(batch)
        wrote = any(
            (now := slot.now()) is None or change({"": leaf(value)}, {"": leaf(now)})
            for slot, value in before.items()
        )
        return Seen(leaves(output), wrote, layers)

    def left_behind(self, batch, slots: list[Slot], changed: Slot | None = None) -> Leaves:
        """The values of these slots after a run, by id (two modules may have the same names), and
        the run's output."""
        self._begin(+1 if changed else 0, 1.0, [changed] if changed else [])
        output = leaves(self.forward(copied(batch)))
        left = {str(id(slot)): leaf(slot.now()) for slot in slots if slot.now() is not None}
        return left | {f"output{path}": value for path, value in output.items()}

    def _begin(self, direction: int, size: float, slots: list[Slot]) -> dict[Slot, Tensor]:
        self.sandbox.restore()
        if self.training is not None:
            for part in self.sandbox.parts:
                part.training = self.training
        if self.awake:
            self.sandbox.waken(except_for=self.moments)
        slots = [slot for slot in slots if slot.has_values]
        for slot in slots if direction else []:
            slot.tensor.data.copy_(perturbed(slot.value, direction, size))
        return {slot: slot.tensor.clone() for slot in slots}


@contextmanager
def _watched(look: _Look, rows: int) -> Iterator[Leaves]:
    """The outputs of single layers, and whether those with running statistics use their own."""
    seen: Leaves = {}
    owners: dict[nn.Module, list[Slot]] = {}
    for slot in look.moments:
        owners.setdefault(slot.part, []).append(slot)

    def before(part: nn.Module, _) -> None:
        look.ran = True
        of_pytorch = [slot for slot in owners[part] if slot.held_in is not vars(part)]
        if any(slot.now() is not slot.tensor for slot in of_pytorch):
            look.replaced = True

    def after(part: nn.Module, _, output) -> None:
        for path, array in arrays(output).items():
            if not isinstance(array, Tensor) or torch._C._functorch.is_functorch_wrapped_tensor(
                array
            ):
                continue  # inside vmap a tensor is many, and none of them can be kept
            name = look.sandbox.parts[part]
            calls = sum(key.startswith(f"{name}{path}#") for key in seen)
            found = leaf(array)
            found = Leaf(thinned(found.values, rows), found.rounding)
            seen[f"{name}{path}#{calls}"] = found
            if part in owners:
                varies = bool(np.ptp(found.values, axis=0).any())
                look.heard[name] = varies or look.heard.get(name, False)

    single = [p for p in look.sandbox.parts if p in owners or not [*p.children()]]
    hooks = [part.register_forward_pre_hook(before) for part in owners]
    hooks += [part.register_forward_hook(after) for part in single]
    try:
        # A hook in a compiled graph would stay in it.
        with torch.compiler.set_stance("force_eager"):
            yield seen
    finally:
        for hook in hooks:
            hook.remove()


def _find_moments(look: _Look, batch) -> list[Slot]:
    """Running statistics: of known layers, and what else is written from rows and from itself."""
    slots = [slot for slot in look.sandbox.slots if slot.may_be_moment]
    known = [slot for slot in slots if slot.is_known_moment]
    others = [slot for slot in slots if not slot.is_known_moment and slot.has_values]
    written: dict[bool | None, list[Slot]] = {}
    (_, exchanged), *_ = with_other_mates(batch, count_rows(batch))
    for look.training in (None, True, False) if others else ():
        try:
            plain, other = (look.left_behind(given, others) for given in (batch, exchanged))
        except Exception:
            if look.training is None:
                raise
            continue  # a module that has no such mode
        written[look.training] = [slot for slot in others if _differs(plain, other, str(id(slot)))]
    found = []
    for slot in dict.fromkeys(slot for slots in written.values() for slot in slots):
        # A cache is written too. What is read later, or averaged with what was there, is a moment.
        for look.training, slots in written.items():
            plain, other = (look.left_behind(batch, slots, changed) for changed in (None, slot))
            if change(plain, other) is not Change.NONE:
                found.append(slot)
                break
    look.training = None
    return known + found


def _differs(a: Leaves, b: Leaves, name: str) -> bool:
    return name in a and name in b and change({name: a[name]}, {name: b[name]}) is not Change.NONE


def _find_constants(look: _Look, batch) -> tuple[str, ...]:
    """Buffers and plain tensors that the output depends on, and that nothing here writes."""
    others = [
        slot
        for slot in look.sandbox.slots
        if slot.may_be_moment
        and slot.has_values
        and slot.held_in is not slot.part._parameters
        and slot not in look.moments
    ][:FEW_CONSTANTS]
    plain = look.left_behind(batch, []) if others else {}
    return tuple(
        slot.name
        for slot in others
        if change(plain, look.left_behind(batch, [], changed=slot)) is not Change.NONE
    )


def _unsure(first: Evidence) -> bool:
    return not (first.reads is first.mates is Change.CLEAR and first.wrote)


def _second_look(look: _Look, batch) -> Evidence | None:
    look.awake = True
    try:
        return gather(look.run, batch)
    except Exception:  # it fails with other parameters: what was seen before must do
        return None
    finally:
        look.awake = False


def _conclusion(
    first: Evidence, second: Evidence | None, look: _Look, constants: tuple[str, ...]
) -> Audit:
    looks = [first] if second is None else [first, second]
    reads, why_reads = conclude(
        max(found.reads for found in looks),
        max(found.layers_read for found in looks),
        "the running statistics",
    )
    mates, why_mates = conclude(
        max(found.mates for found in looks), max(found.layers_mix for found in looks), "batch-mates"
    )
    writes: bool | None = first.wrote
    reasons = [why_reads, why_mates]
    if all(found.same_for_all_rows for found in looks):
        reads, mates = reads or None, mates or None
        reasons.append(blindness(True))
    if silent := [name for name, varies in look.heard.items() if not varies]:
        reads = reads or None
        reasons.append(
            f"layer {', '.join(silent)} gives the same output for every row, so that "
            "it shows nothing: give it a scale that is not zero"
        )
    touched = look.ran or any(found.wrote or found.reads is Change.CLEAR for found in looks)
    if look.moments and _unsure(first) and (look.replaced or not touched):
        reads, writes = reads or None, writes or None
        if look.replaced:
            reasons.append(
                "the forward runs these modules with other tensors than their own "
                "(functional_call, vmap): give audit_function the statistics that it uses"
            )
        else:
            reasons.append(
                "no layer with running statistics of the given modules was seen to run: give "
                "audit the modules that this forward calls"
            )
    if None not in (reads, mates, writes):
        reasons = []
    return Audit(reads, mates, writes, tuple(r for r in dict.fromkeys(reasons) if r), constants)
