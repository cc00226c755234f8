"""Which torso an observation gets, and what it is said to be."""

import pytest
import torch

from bnmodes.agents.registry import AGENTS, arm_settings
from bnmodes.errors import UsageError
from bnmodes.networks.torsos import TORSO_NAMES, TORSOS, Torso, resolve_torso, torso_description
from bnmodes.protocol import Mode

pytestmark = pytest.mark.numeric

NONE = Mode(statistics="none")


@pytest.mark.parametrize(
    ("obs_shape", "chosen"),
    [
        ((4,), "dense"),
        ((4, 84, 84), "nature"),
        ((1, 36, 36), "nature"),
        ((1, 35, 36), "minatar"),
        ((1, 36, 35), "minatar"),
        ((6, 10, 10), "minatar"),
        ((3, 3, 64), "minatar"),
    ],
)
def test_auto_chooses_by_the_size_of_an_observation(obs_shape, chosen):
    assert resolve_torso("auto", obs_shape) == chosen
    torso = Torso(obs_shape, "auto", pixel_scale=1.0)
    x = torch.zeros(2, *obs_shape, dtype=torch.float32 if chosen == "dense" else torch.uint8)
    assert torso(x, NONE).shape == (2, TORSOS[chosen][-1].units)


def test_a_picture_too_small_for_any_convolution_is_refused():
    with pytest.raises(
        UsageError, match="fits a picture of 2×9 pixels and 3 channels: use --torso"
    ):
        resolve_torso("auto", (3, 2, 9))
    assert resolve_torso("dense", (3, 2, 9)) == "dense"


@pytest.mark.parametrize(
    ("name", "least"),
    [("nature", 36), ("nature-small", 18), ("minatar", 3), ("minatar-deep", 7), ("mrq", 31)],
    ids=lambda value: str(value),
)
def test_the_smallest_picture_of_each_torso_is_the_smallest_that_it_can_compute(name, least):
    x = torch.zeros(1, 2, least, least, dtype=torch.uint8)
    assert Torso((2, least, least), name, pixel_scale=1.0)(x, NONE).isfinite().all()
    with pytest.raises(UsageError, match=rf"'{name}' needs pictures of at least {least}×{least}"):
        Torso((2, least - 1, least + 9), name, pixel_scale=1.0)


def test_a_vector_cannot_be_convolved():
    with pytest.raises(UsageError, match="but an observation is a vector of 4 numbers: use auto"):
        resolve_torso("minatar", (4,))


def test_an_unknown_name_is_told_the_choices():
    with pytest.raises(
        UsageError, match="no torso 'huge': choose one of auto, nature, nature-small"
    ):
        resolve_torso("huge", (4, 84, 84))


def test_every_torso_can_be_named_in_settings():
    assert {*TORSO_NAMES} == {"auto", *TORSOS}
    for name, kind in AGENTS.items():
        for torso in TORSO_NAMES:
            settings = arm_settings(name, kind.default_arm, "minatar", {"torso": torso})
            assert settings.torso == torso
        with pytest.raises(UsageError, match="torso"):
            arm_settings(name, kind.default_arm, "minatar", {"torso": "huge"})


@pytest.mark.parametrize(
    ("name", "obs_shape", "words"),
    [
        ("auto", (6, 10, 10), "3×3 convolution of 16, dense 128"),
        ("auto", (4,), "dense 256, dense 256"),
        (
            "nature",
            (4, 84, 84),
            "8×8 convolution of 32 with stride 4, 4×4 convolution of 64 with stride 2, "
            "3×3 convolution of 64, dense 512",
        ),
    ],
)
def test_a_torso_is_described_in_words(name, obs_shape, words):
    assert torso_description(name, obs_shape) == words


def test_layers_are_named_by_kind_and_place():
    assert Torso((4, 84, 84), "nature", 1.0).names == ["conv1", "conv2", "conv3", "dense"]
    assert Torso((4,), "dense", 1.0).names == ["dense1", "dense2"]


def test_observations_are_scaled_and_moved_before_the_first_layer():
    torso = Torso((2, 5, 5), "minatar", pixel_scale=0.5, pixel_offset=-3.0)
    x = torch.randint(0, 9, (4, 2, 5, 5), dtype=torch.uint8)
    seen = []
    torso.linears[0].register_forward_hook(lambda _, inputs, __: seen.append(inputs[0]))
    torso(x, NONE)
    torch.testing.assert_close(seen[0], x * 0.5 - 3.0)
