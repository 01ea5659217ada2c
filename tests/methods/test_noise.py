"""The noise variants, and the random stream behind them."""

from dataclasses import replace

import pytest
import torch

from calibrant.errors import InputError
from calibrant.methods import FeatureMixture, Gaussian, HeadNoise, MatchedGaussian, Shell
from calibrant.methods.random_stream import Stream
from calibrant.training import Step

CPU = torch.device("cpu")


@pytest.mark.parametrize("noise", [Gaussian, "gaussian", 0.5])
def test_what_is_no_noise_is_named(noise):
    """Before the first step, which would end in an error about something else."""
    with pytest.raises(InputError, match=r"^HeadNoise takes a noise, such as Gaussian\(\), got"):
        HeadNoise(noise=noise)


def clusters(count=4000, width=3, dtype=torch.float32, seed=0):
    """Two clusters of different centre and spread; a tenth of the rows is ignored and far away."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(2, (count,), generator=generator)
    centres = torch.tensor([[4.0, 0.0, 1.0], [-2.0, 3.0, 1.0]])[:, :width]
    spread = torch.tensor([0.5, 1.5])[labels].unsqueeze(-1)
    features = centres[labels] + spread * torch.randn(count, width, generator=generator)
    ignored = torch.rand(count, generator=generator) < 0.1
    features[ignored], labels[ignored] = 1e6, -100
    return Step(torch.zeros(count, 2), labels, features=features.to(dtype))


def draw(noise, step, seed=0):
    return noise.like(step, torch.Generator().manual_seed(seed))


@pytest.mark.parametrize(
    "noise", [Gaussian(), MatchedGaussian(), MatchedGaussian("full"), Shell(), FeatureMixture()]
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("shape", [(6, 4), (2, 3, 4)])
def test_shape_dtype_and_no_gradient(noise, dtype, shape):
    features = torch.randn(shape).to(dtype).requires_grad_()
    step = Step(torch.zeros(*shape[:-1], 2), torch.zeros(shape[:-1], dtype=torch.long), features)
    found = draw(noise, step)
    assert found.shape == features.shape
    assert found.dtype == dtype
    assert not found.requires_grad
    assert torch.isfinite(found).all()


def test_gaussian_is_standard_normal():
    found = draw(Gaussian(), clusters())
    assert found.mean().abs() < 0.05
    assert (found.std() - 1).abs() < 0.05
    assert (draw(Gaussian(scale=3.0), clusters()).std() - 3).abs() < 0.15


@pytest.mark.parametrize("covariance", ["diagonal", "full"])
def test_matched_has_the_mean_and_covariance_of_the_kept_features(covariance):
    step = clusters()
    kept = step.features[step.kept]
    found = draw(MatchedGaussian(covariance), step)
    torch.testing.assert_close(found.mean(0), kept.mean(0), rtol=0, atol=0.2)
    expected, actual = torch.cov(kept.T), torch.cov(found.T)
    assert expected[0, 1] < -2  # The clusters make the coordinates depend on each other.
    if covariance == "diagonal":
        expected = torch.diag(expected.diagonal())
    torch.testing.assert_close(actual, expected, rtol=0.1, atol=0.4)


def test_matched_follows_with_momentum():
    noise = MatchedGaussian(momentum=0.25)
    labels = torch.zeros(2, dtype=torch.long)
    for value in (0.0, 4.0):
        step = Step(torch.zeros(2, 2), labels, torch.full((2, 1), value))
        found = draw(noise, step)
    torch.testing.assert_close(found, torch.ones(2, 1))  # ¾ · 0 + ¼ · 4, without spread.
    ignored = Step(torch.zeros(2, 2), labels - 100, torch.full((2, 1), 99.0))
    torch.testing.assert_close(draw(noise, ignored), torch.ones(2, 1))


def test_shell_keeps_its_distance_from_every_class():
    step = clusters()
    found = draw(Shell(clearance=2.0, thickness=0.5), step)
    for label in (0, 1):
        members = step.features[step.labels == label]
        centre = members.mean(0)
        radius = (members - centre).square().sum(-1).mean().sqrt()
        assert (found - centre).norm(dim=-1).min() >= 2 * radius * 0.999
    assert found.norm(dim=-1).max() < 30


def test_mixture_is_a_mean_of_kept_features():
    features = torch.tensor([[0.0], [1.0], [1e6]])
    step = Step(torch.zeros(3, 2), torch.tensor([0, 1, -100]), features)
    values = {draw(FeatureMixture(parts=2), step, seed)[0].item() for seed in range(40)}
    assert values == {0.0, 0.5, 1.0}


def test_noise_of_a_head_that_pools_its_own_input():
    """Features (b, t, d) with labels (b): every position of a kept row is kept."""
    features = torch.zeros(2, 3, 1)
    features[1] = 99.0
    step = Step(torch.zeros(2, 2), torch.tensor([0, -100]), features)
    for noise in (MatchedGaussian(), FeatureMixture(), Shell()):
        assert draw(noise, step).abs().max() == 0


def test_the_channels_of_images_are_the_width():
    """Features (b, d, h, w) with labels (b), as a head gets them that flattens them itself."""
    step = clusters()
    step = replace(step, features=step.features + torch.tensor([0.0, 30.0, -30.0]))
    images = step.features.view(-1, 3, 1, 1).expand(-1, 3, 2, 2)
    of_images = Step(step.logits, step.labels, images)
    for noise in (MatchedGaussian, lambda: MatchedGaussian("full"), Shell, FeatureMixture):
        drawn = draw(noise(), of_images)
        assert drawn.shape == images.shape
        flat = drawn.movedim(1, -1).reshape(-1, 3)
        torch.testing.assert_close(flat.mean(0), draw(noise(), step).mean(0), atol=0.5, rtol=0)


def test_shapes_that_do_not_fit():
    step = Step(torch.zeros(2, 3, 2), torch.zeros(2, 3, dtype=torch.long), torch.zeros(6, 4))
    with pytest.raises(InputError, match=r"\(6, 4\) and \(2, 3\)"):
        draw(MatchedGaussian(), step)
    with pytest.raises(InputError, match="diagonal or full"):
        MatchedGaussian("round")


@pytest.mark.parametrize("noise", [MatchedGaussian, Shell])
def test_running_values_are_saved(noise):
    first, second = noise(), noise()
    draw(first, clusters(seed=0))
    second.load_state_dict(first.state_dict())
    assert torch.equal(draw(first, clusters(seed=1)), draw(second, clusters(seed=1)))


def test_streams_differ_by_seed_and_rank(monkeypatch):
    draws = []
    for seed, rank in ((0, 0), (0, 1), (1, 0)):
        monkeypatch.setattr("calibrant.methods.random_stream.rank", lambda rank=rank: rank)
        draws.append(torch.rand(4, generator=Stream(seed).generator(CPU)))
    assert not torch.equal(draws[0], draws[1])
    assert not torch.equal(draws[0], draws[2])


def test_a_state_of_rank_0_does_not_make_all_ranks_alike(monkeypatch):
    stream = Stream(0)
    torch.rand(5, generator=stream.generator(CPU))
    state = stream.state_dict()
    draws = {}
    for rank in (0, 1, 2):
        monkeypatch.setattr("calibrant.methods.random_stream.rank", lambda rank=rank: rank)
        other = Stream(0)
        other.load_state_dict(state)
        draws[rank] = torch.rand(4, generator=other.generator(CPU))
    assert torch.equal(draws[0], torch.rand(4, generator=stream.generator(CPU)))
    assert not torch.equal(draws[0], draws[1])
    assert not torch.equal(draws[1], draws[2])
