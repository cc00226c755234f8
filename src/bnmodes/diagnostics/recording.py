"""What the layers of a network compute in one forward, read through forward hooks.

Networks know nothing of it: every `LayerStack` inside a network has named layers, and hooks on its
norms, activations and head keep what passes through them.
"""

from collections.abc import Mapping
from functools import partial
from typing import NamedTuple

from jaxtyping import Float
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from bnmodes.diagnostics.role_forward import Inputs
from bnmodes.networks.layers import LayerStack
from bnmodes.norm.layers import ModedModule
from bnmodes.protocol import Mode


class LayerRecord(NamedTuple):
    """One layer in one forward."""

    name: str
    norm: ModedModule
    before_norm: Float[Tensor, "B C ..."]
    """The norm's input."""
    units: Float[Tensor, "B C ..."] | None
    """The activation's output; None for a norm on a network's input, which has no units."""
    channels: slice = slice(None)
    """The norm's channels that `before_norm` holds."""


class Recording(NamedTuple):
    """One forward of a network."""

    layers: list[LayerRecord]
    """In the order in which they were computed."""
    head_inputs: dict[str, Float[Tensor, "B units"]]
    """What each head read, by the head's name."""
    output: Tensor


def record(network: nn.Module, inputs: Inputs, mode: Mode) -> Recording:
    """Run the network and keep what its layers computed."""
    layers: list[LayerRecord] = []
    head_inputs: dict[str, Tensor] = {}
    handles: list[RemovableHandle] = []
    for stack in _stacks(network):
        handles += _hook_layers(stack, layers)
        if stack.input_norm is not None:
            handles.append(_hook_input_norm(stack.input_norm, stack.input_parts, layers))
        if stack.head is not None:
            handles.append(_hook_head(stack.head, _head_name(stack), head_inputs))
    try:
        output = network(inputs, mode)
    finally:
        for handle in handles:
            handle.remove()
    return Recording(layers, head_inputs, output)


def kernels(network: nn.Module) -> dict[str, Tensor]:
    """The kernel of each layer and head of the network, by its name."""
    found: dict[str, Tensor] = {}
    for stack in _stacks(network):
        for name, linear in zip(stack.names, stack.linears, strict=True):
            found[name] = linear.get_parameter("weight")
        if stack.head is not None:
            found[_head_name(stack)] = stack.head.weight
    return found


def _stacks(network: nn.Module) -> list[LayerStack]:
    return [module for module in network.modules() if isinstance(module, LayerStack)]


def _head_name(stack: LayerStack) -> str:
    return f"{stack.prefix}head"


def _hook_layers(stack: LayerStack, layers: list[LayerRecord]) -> list[RemovableHandle]:
    before: dict[str, Tensor] = {}
    handles = []
    for name, norm, activation in zip(stack.names, stack.norms, stack.activations, strict=True):
        if stack.norm_last:
            handles.append(norm.register_forward_hook(partial(_keep_units, layers, name)))
            continue
        handles.append(norm.register_forward_hook(partial(_keep_input, before, name)))
        keep = partial(_keep_layer, layers, before, name, norm)
        handles.append(activation.register_forward_hook(keep))
    return handles


def _hook_input_norm(
    input_norm: ModedModule, parts: Mapping[str, slice], layers: list[LayerRecord]
) -> RemovableHandle:
    return input_norm.register_forward_hook(partial(_keep_parts, layers, parts))


def _hook_head(head: nn.Linear, name: str, head_inputs: dict[str, Tensor]) -> RemovableHandle:
    return head.register_forward_hook(partial(_keep_input, head_inputs, name))


# The hooks: PyTorch calls each with the module, its inputs and its output.


def _keep_input(kept: dict[str, Tensor], name: str, _module, inputs, _output) -> None:
    kept[name] = inputs[0]


def _keep_layer(
    layers: list[LayerRecord], before: dict[str, Tensor], name: str, norm, _module, _inputs, units
) -> None:
    layers.append(LayerRecord(name, norm, before.pop(name), units))


def _keep_units(layers: list[LayerRecord], name: str, norm, inputs, _output) -> None:
    """A norm behind the activation reads the units themselves."""
    layers.append(LayerRecord(name, norm, inputs[0], inputs[0]))


def _keep_parts(
    layers: list[LayerRecord], parts: Mapping[str, slice], norm, inputs, _output
) -> None:
    for name, channels in parts.items():
        layers.append(LayerRecord(name, norm, inputs[0][:, channels], None, channels))
