"""Every method takes its trial step, and leaves the random stream of training alone."""

import pytest
import torch

from calibrant.errors import InputError
from calibrant.experiments.recipe import Recipe
from calibrant.experiments.recipe_parts import try_method
from calibrant.methods import METHODS, NOISES


@pytest.mark.parametrize("method", METHODS)
def test_every_method_passes_with_its_defaults(method):
    torch.manual_seed(3)
    before = torch.random.get_rng_state()
    try_method(Recipe(method=method))
    assert torch.equal(torch.random.get_rng_state(), before)


@pytest.mark.parametrize("noise", NOISES)
def test_every_noise_passes(noise):
    try_method(Recipe(method="head_noise", method_options={"noise": {"name": noise}}))


@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("focal", {"gamma": "high"}),
        ("head_noise", {"weight": "much"}),
        ("head_noise", {"noise": "gaussian"}),
        ("label_smoothing", {"smoothing": [0.1]}),
        ("error_regularization", {"task": 3}),
    ],
)
def test_an_option_of_the_wrong_type_is_one_line(method, options):
    with pytest.raises(InputError) as caught:
        try_method(Recipe(method=method, method_options=options))
    assert "\n" not in str(caught.value)
