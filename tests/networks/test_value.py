import pytest
import torch
from torch import nn

from bnmodes.networks.norms import NormSettings
from bnmodes.networks.value import QNetwork
from bnmodes.protocol import BATCH

pytestmark = pytest.mark.numeric

NATURE = {"obs_shape": (4, 84, 84), "torso": "nature", "pixel_scale": 1 / 255}
MINATAR = {"obs_shape": (6, 10, 10), "torso": "minatar", "pixel_scale": 1.0}
VECTOR = {"obs_shape": (7,), "torso": "dense", "pixel_scale": 1.0}


def build(kind="none", seed=0, head_shape=(3, 51), **options) -> QNetwork:
    norm = options.pop("norm", NormSettings(kind=kind))
    generator = torch.Generator().manual_seed(seed)
    return QNetwork(head_shape=head_shape, norm=norm, generator=generator, **options)


def observations(network_options, count=5):
    torch.manual_seed(1)
    shape = (count, *network_options["obs_shape"])
    if network_options is VECTOR:
        return torch.randn(shape)
    return torch.randint(0, 256, shape, dtype=torch.uint8)


@pytest.mark.parametrize("kind", ["none", "ln", "bn"])
@pytest.mark.parametrize("options", [NATURE, MINATAR, VECTOR], ids=["nature", "minatar", "dense"])
def test_it_is_the_same_function_as_a_plain_sequential_network(kind, options):
    """Written out with torch's own layers: linear, norm, ReLU on each hidden layer; a bare head."""
    network = build(kind, **options)

    def norm(features, conv):
        if kind == "bn":
            return nn.BatchNorm2d(features) if conv else nn.BatchNorm1d(features)
        if kind == "ln":
            per_sample = nn.LayerNorm(features, eps=1e-6)
            return ChannelsLast(per_sample) if conv else per_sample
        return nn.Identity()

    convolutions, dense = {
        "nature": ([(4, 32, 8, 4), (32, 64, 4, 2), (64, 64, 3, 1)], [(3136, 512)]),
        "minatar": ([(6, 16, 3, 1)], [(1024, 128)]),
        "dense": ([], [(7, 256), (256, 256)]),
    }[options["torso"]]
    plain = []
    for channels_in, channels_out, kernel, stride in convolutions:
        plain += [nn.Conv2d(channels_in, channels_out, kernel, stride)]
        plain += [norm(channels_out, conv=True), nn.ReLU()]
    if convolutions:
        plain += [ChannelsLastFlatten()]
    for inputs, units in dense:
        plain += [nn.Linear(inputs, units), norm(units, conv=False), nn.ReLU()]
    plain = nn.Sequential(*plain, nn.Linear(units, 3 * 51))
    with torch.no_grad():
        linears = [m for m in plain if isinstance(m, nn.Conv2d | nn.Linear)]
        for ours, theirs in zip([*network.linears, network.head], linears, strict=True):
            theirs.weight.copy_(ours.weight)
            theirs.bias.copy_(ours.bias)
    x = observations(options)
    expected = plain(x.float() * options["pixel_scale"]).reshape(5, 3, 51)
    torch.testing.assert_close(network(x, BATCH), expected, rtol=1e-4, atol=1e-4)


class ChannelsLast(nn.Module):
    def __init__(self, norm):
        super().__init__()
        self.norm = norm

    def forward(self, x):
        return self.norm(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class ChannelsLastFlatten(nn.Module):
    def forward(self, x):
        return x.permute(0, 2, 3, 1).flatten(1)


def test_initialisation_is_kaiming_normal_with_zero_biases():
    network = build(**NATURE)
    for linear in (*network.linears, network.head):
        fan_in = linear.weight[0].numel()
        assert linear.weight.std().item() == pytest.approx((2 / fan_in) ** 0.5, rel=0.05)
        assert abs(linear.weight.mean().item()) < 0.1 * (2 / fan_in) ** 0.5
        assert not linear.bias.any()


def test_a_heads_own_scheme_leaves_the_other_layers_as_they_were():
    """LeCun's, as Flax draws it: variance 1/inputs, nothing beyond two deviations of the normal."""
    same, lecun = (
        build(head_shape=(200,), head_scheme=scheme, **NATURE) for scheme in ("kaiming", "lecun")
    )
    assert torch.equal(same.linears[3].weight, lecun.linears[3].weight)
    assert same.head.weight.var().item() == pytest.approx(2 / 512, rel=0.02)
    assert lecun.head.weight.var().item() == pytest.approx(1 / 512, rel=0.02)
    assert lecun.head.weight.abs().max().item() == pytest.approx(2 / 0.87963 / 512**0.5, rel=0.02)


def test_the_seed_alone_decides_the_initial_weights():
    first, again, other = build(**MINATAR), build(**MINATAR), build(seed=1, **MINATAR)
    assert torch.equal(first.head.weight, again.head.weight)
    assert not torch.equal(first.head.weight, other.head.weight)


def test_a_scalar_head_has_one_number_per_action():
    assert build(head_shape=(3,), **MINATAR)(observations(MINATAR), BATCH).shape == (5, 3)


def test_layernorm_over_all_has_a_scale_for_every_element_of_the_map():
    network = build(norm=NormSettings(kind="ln", ln_axes="all"), **MINATAR)
    assert network.norms[0].weight.shape == (16, 8, 8)


def test_convolutions_are_channels_last():
    for linear in build(**NATURE).linears[:3]:
        assert linear.weight.is_contiguous(memory_format=torch.channels_last)
