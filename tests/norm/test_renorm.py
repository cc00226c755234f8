import pytest
import torch

from bnmodes.norm.layers import BatchNorm
from bnmodes.norm.renorm import BatchRenorm
from bnmodes.protocol import BATCH, RUNNING, Mode

pytestmark = pytest.mark.numeric

WRITING = Mode(statistics="batch", update=0.1)


def rows(seed, shift=0.0, scale=1.0, shape=(16, 3)):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)) * scale + shift


def pair(warmup):
    """The same layer as BatchNorm and as BatchRenorm, with the same scale and offset."""
    layers = BatchNorm(3, epsilon=1e-3), BatchRenorm(3, warmup_updates=warmup, epsilon=1e-3)
    for layer in layers:
        layer.weight.data.copy_(torch.tensor([0.5, 1.0, 2.0]))
        layer.bias.data.copy_(torch.tensor([0.1, 0.0, -1.0]))
    return layers


def test_it_is_batchnorm_until_so_many_passes_have_written():
    plain, renorm = pair(warmup=3)
    for seed in range(3):
        for mode in (BATCH, BATCH, WRITING):
            x = rows(seed, shift=2)
            assert torch.equal(plain(x, mode), renorm(x, mode))
    assert torch.equal(plain.mean, renorm.mean)
    assert torch.equal(plain.variance, renorm.variance)
    x = rows(9, shift=2)
    assert not torch.allclose(plain(x, BATCH), renorm(x, BATCH), atol=1e-3)
    assert torch.equal(plain(x, RUNNING), renorm(x, RUNNING))


@pytest.mark.parametrize("shape", [(16, 3), (8, 3, 2, 2)])
def test_within_the_clips_rows_are_normalised_as_by_the_stored_moments(shape):
    _, renorm = pair(warmup=0)
    renorm.mean.fill_(0.3)
    renorm.variance.fill_(1.7)
    x = rows(1, shape=shape)
    torch.testing.assert_close(renorm(x, BATCH), renorm(x, RUNNING))


def test_far_from_the_stored_moments_the_correction_is_clipped():
    _, renorm = pair(warmup=0)
    x = rows(1, shift=100.0, scale=50.0)
    mean, deviation = x.mean(0), (x.var(0, unbiased=False) + 1e-3).sqrt()
    expected = ((x - mean) / deviation * 3.0 + 5.0) * renorm.weight + renorm.bias
    torch.testing.assert_close(renorm(x, BATCH), expected)


def test_the_corrections_have_no_gradient():
    _, renorm = pair(warmup=0)
    x = rows(1).requires_grad_()
    deviation = (x.var(0, unbiased=False) + 1e-3).sqrt()
    r = (deviation / (renorm.variance + 1e-3).sqrt()).detach()
    (renorm(x, BATCH).square() * rows(2)).sum().backward()
    got, x.grad = x.grad, None
    d = (x.mean(0) - renorm.mean).detach() / (renorm.variance + 1e-3).sqrt()
    y = ((x - x.mean(0)) / deviation * r + d) * renorm.weight + renorm.bias
    (y.square() * rows(2)).sum().backward()
    torch.testing.assert_close(got, x.grad, atol=1e-4, rtol=1e-4)


def test_a_pass_writes_after_it_was_corrected_and_others_write_nothing():
    _, renorm = pair(warmup=0)
    x = rows(1, shift=1.0)
    before = renorm(x, BATCH)
    assert renorm.updates == 0
    torch.testing.assert_close(renorm(x, WRITING), before)
    assert renorm.updates == 1
    assert not torch.allclose(renorm(x, BATCH), before, atol=1e-4)
