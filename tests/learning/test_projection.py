import pytest
import torch

from bnmodes.learning.projection import Projection, ProjectionSettings
from bnmodes.networks.value import NormSettings, QNetwork

pytestmark = pytest.mark.numeric


def network() -> QNetwork:
    generator = torch.Generator().manual_seed(0)
    return QNetwork((4, 10, 10), (3, 51), "minatar", NormSettings(kind="bn"), 1.0, generator)


def shaken(net: QNetwork) -> None:
    """As an optimizer step would: every parameter moves."""
    torch.manual_seed(1)
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.add_(torch.randn_like(parameter))


def neuron_norms(weight):
    return weight.detach().flatten(1).norm(dim=1)


def test_each_output_neuron_of_each_hidden_kernel_has_unit_norm_from_the_start():
    net = network()
    project = Projection(ProjectionSettings(granularity="neuron"), net)
    for _ in range(2):
        for linear in net.linears:
            norms = neuron_norms(linear.weight)
            torch.testing.assert_close(norms, torch.ones_like(norms))
        shaken(net)
        assert neuron_norms(net.linears[0].weight).max() > 2
        project()


def test_a_projection_keeps_directions_and_everything_but_kernels():
    net = network()
    project = Projection(ProjectionSettings(granularity="neuron"), net)
    shaken(net)
    before = {name: value.clone() for name, value in net.state_dict().items()}
    project()
    for name, after in net.state_dict().items():
        if name.startswith("linears") and name.endswith("weight"):
            rows = torch.nn.functional.cosine_similarity(before[name].flatten(1), after.flatten(1))
            torch.testing.assert_close(rows, torch.ones_like(rows))
        else:
            assert torch.equal(after, before[name]), name


@pytest.mark.parametrize("granularity", ["neuron", "layer"])
def test_the_initial_radius_is_kept(granularity):
    net, untouched = network(), network()
    project = Projection(ProjectionSettings(granularity=granularity, radius="initial"), net)
    shaken(net)
    project()
    for linear, initial in zip(net.linears, untouched.linears, strict=True):
        if granularity == "neuron":
            torch.testing.assert_close(neuron_norms(linear.weight), neuron_norms(initial.weight))
        else:
            torch.testing.assert_close(linear.weight.norm(), initial.weight.norm())


def test_a_layers_norm_is_one_number():
    net = network()
    Projection(ProjectionSettings(granularity="layer"), net)
    torch.testing.assert_close(net.linears[0].weight.norm(), torch.tensor(1.0))
    assert neuron_norms(net.linears[0].weight).std() > 0


def test_the_head_is_projected_only_where_asked():
    net = network()
    Projection(ProjectionSettings(granularity="neuron"), net)
    assert torch.equal(net.head.weight, network().head.weight)
    Projection(ProjectionSettings(granularity="neuron", head=True), net)
    torch.testing.assert_close(neuron_norms(net.head.weight), torch.ones(3 * 51))


def test_none_leaves_the_network_alone():
    net = network()
    Projection(ProjectionSettings(), net)()
    before, after = network().state_dict(), net.state_dict()
    assert all(torch.equal(before[name], after[name]) for name in before)


def test_a_kernel_of_zeros_stays_zero():
    net = network()
    project = Projection(ProjectionSettings(granularity="neuron"), net)
    with torch.no_grad():
        net.linears[0].weight.zero_()
    project()
    assert not net.linears[0].weight.any()
