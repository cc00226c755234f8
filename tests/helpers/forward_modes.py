"""Networks with BatchNorm, and what each mode means for them, with PyTorch's own flags."""

import copy

import torch
from torch import nn

from bnmodes import forward_mode

TRACK = {"statistics": "running", "track": 0.3}
MODES = {
    "batch": {"statistics": "batch"},
    "update": {"statistics": "batch", "update": 0.3},
    "running": {"statistics": "running"},
    "track": TRACK,
}


class Net(nn.Module):
    """All BatchNorm layers are in `features`, and two of them follow each other."""

    def __init__(self, norm=nn.BatchNorm1d):
        super().__init__()
        torch.manual_seed(0)
        self.features = nn.Sequential(
            nn.Linear(5, 8), norm(8), nn.ReLU(), nn.Linear(8, 8), norm(8), nn.ReLU()
        )
        self.head = nn.Linear(8, 3)

    def forward(self, x, scale=1.0):
        return self.head(self.features(x)) * scale


def rows(seed=1, shape=(8, 5)):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)) * 2 + 1


def moments(module):
    return {name: b.clone() for name, b in module.named_buffers() if b.is_floating_point()}


def settings(module):
    return [(type(m), dict(m.__dict__, _buffers=0, _parameters=0)) for m in module.modules()]


def twin_of(net):
    twin = Net()
    twin.load_state_dict(net.state_dict())
    return twin


def by_hand(mode, net, xs):
    """What the mode means, with PyTorch's own flags: the outputs, and the statistics left."""
    net = copy.deepcopy(net)
    layers = [m for m in net.modules() if hasattr(m, "running_mean")]
    outputs = []
    for x in xs:
        before = moments(net)
        for layer in layers:
            layer.train(mode["statistics"] == "batch" or "track" in mode)
            layer.momentum = mode.get("update", mode.get("track", 0.5))
        outputs.append(net(x).detach())
        if mode == {"statistics": "batch"}:
            net.load_state_dict(before, strict=False)
        if "track" in mode:
            for layer in layers:
                layer.eval()
            outputs[-1] = net(x).detach()
    return outputs, moments(net)


def assert_right(mode, net, call, xs=None, **block):
    """`call` under `mode` is what the mode means, and `net` has its own settings afterwards."""
    xs = xs or [rows(1), rows(2)]
    outputs, left = by_hand(mode, net, xs)
    before = settings(net)
    with forward_mode(block.get("module", net), **mode):
        found = [call(x).detach() for x in xs]
    for a, b in zip(found, outputs, strict=True):
        torch.testing.assert_close(a, b)
    assert moments(net).keys() == left.keys()
    for name, moment in moments(net).items():
        torch.testing.assert_close(moment, left[name])
    assert settings(net) == before
