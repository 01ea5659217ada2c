"""What every loss promises, run over every loss."""

from collections.abc import Callable
from functools import partial

import pytest
import torch
from beartype import beartype
from jaxtyping import jaxtyped
from torch import Tensor

from calibrant import losses
from calibrant.errors import InputError

Loss = Callable[[Tensor, Tensor], Tensor]


def soft_targets(logits: Tensor, labels: Tensor) -> Tensor:
    classes = logits.shape[-1]
    onehot = torch.nn.functional.one_hot(labels.clamp(min=0), classes)
    onehot = onehot.to(torch.promote_types(logits.dtype, torch.float32))
    return losses.soft_cross_entropy(logits, 0.8 * onehot + 0.2 / classes, labels)


def gamma_by_label(logits: Tensor, labels: Tensor) -> Tensor:
    return losses.focal(logits, labels, 0.5 + labels.clamp(min=0).to(logits.dtype))


def given_error(logits: Tensor, labels: Tensor) -> Tensor:
    # An error that belongs to the example and moves with it, not to its place in the batch.
    error = (logits.detach().double().softmax(-1).square().sum(-1) * 7) % 1
    return losses.error_regularization(logits, labels, error)


PER_EXAMPLE: dict[str, Loss] = {
    "cross_entropy": losses.cross_entropy,
    "mse": losses.mse,
    "label_smoothing": losses.label_smoothing,
    "focal": losses.focal,
    "flsd": losses.flsd,
    "entropy_penalty": losses.entropy_penalty,
    "margin_smoothing": losses.margin_smoothing,
}
REGULARISERS: dict[str, Loss] = {
    "mmce": losses.mmce,
    "weighted_mmce": losses.weighted_mmce,
    "dece": losses.dece,
    "sece": losses.sece,
    "avuc": losses.avuc,
    "error_regularization": losses.error_regularization,
    "mdca": losses.mdca,
    "dca": losses.dca,
}
VARIANTS: dict[str, Loss] = {
    "soft_cross_entropy": soft_targets,
    "label_smoothing others": partial(losses.label_smoothing, others_only=True),
    "focal 0.5": partial(losses.focal, gamma=0.5),
    "focal 0": partial(losses.focal, gamma=0.0),
    "focal tensor": gamma_by_label,
    "margin_smoothing text": partial(losses.margin_smoothing, margin=0.5, class_mean=True),
    "avuc confidence": partial(losses.avuc, measure="confidence"),
    "avuc threshold": partial(losses.avuc, threshold=0.7),
    "error_regularization wrong": partial(losses.error_regularization, error="wrong"),
    "error_regularization sum": partial(losses.error_regularization, normalize=False),
    "error_regularization given": given_error,
    "sece wide": partial(losses.sece, bandwidth=0.2),
    "mmce narrow": partial(losses.mmce, bandwidth=0.05),
}
ALL = PER_EXAMPLE | REGULARISERS | VARIANTS

every_loss = pytest.mark.parametrize("loss", [pytest.param(f, id=name) for name, f in ALL.items()])
both_ways = pytest.mark.parametrize("n", [40, 700], ids=["matrix", "fast"])


def batch(n: int, classes: int = 4, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(n)
    logits = 2 * torch.randn(n, classes, generator=generator, dtype=torch.float64)
    labels = torch.randint(classes, (n,), generator=generator)
    return logits.to(dtype), labels


def gradient(loss: Loss, logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    leaf = logits.detach().clone().requires_grad_()
    value = loss(leaf, labels)
    value.backward()
    assert leaf.grad is not None
    return value.detach(), leaf.grad


def test_the_suite_covers_every_public_loss():
    named = set(PER_EXAMPLE) | set(REGULARISERS) | {"soft_cross_entropy"}
    assert named == set(losses.__all__) - {"IGNORED", "threshold_from", "uncertainty_sums"}


@every_loss
@both_ways
def test_ignored_examples_change_nothing(loss, n):
    logits, labels = batch(n)
    keep = torch.rand(n, generator=torch.Generator().manual_seed(1)) < 0.7
    masked = torch.where(keep, labels, -100)
    expected, expected_gradient = gradient(loss, logits[keep], labels[keep])
    value, got = gradient(loss, logits, masked)
    torch.testing.assert_close(value, expected, rtol=1e-12, atol=1e-14)
    torch.testing.assert_close(got[keep], expected_gradient, rtol=1e-9, atol=1e-13)
    assert torch.equal(got[~keep], torch.zeros_like(got[~keep]))


@every_loss
@both_ways
@pytest.mark.parametrize("poison", [float("nan"), float("inf"), 1e30])
def test_what_stands_at_an_ignored_position_does_not_matter(loss, n, poison):
    if loss in (soft_targets, given_error):
        pytest.skip("the case itself computes from the poisoned logits")
    logits, labels = batch(n)
    labels[::3] = -100
    expected, expected_gradient = gradient(loss, logits, labels)
    logits[::3] = poison
    value, got = gradient(loss, logits, labels)
    assert torch.equal(value, expected)
    assert torch.equal(got, expected_gradient)


@every_loss
@pytest.mark.parametrize("shape", [(60,), (6, 10), (3, 4, 5)])
def test_any_leading_shape(loss, shape):
    logits, labels = batch(60)
    expected, expected_gradient = gradient(loss, logits, labels)
    value, got = gradient(loss, logits.view(*shape, 4), labels.view(shape))
    assert value.shape == ()
    assert torch.equal(value, expected)
    assert torch.equal(got.view(60, 4), expected_gradient)


@every_loss
@both_ways
def test_order_and_shift_of_the_logits_do_not_matter(loss, n):
    logits, labels = batch(n)
    expected, expected_gradient = gradient(loss, logits, labels)
    order = torch.randperm(n, generator=torch.Generator().manual_seed(2))
    value, got = gradient(loss, logits[order] + torch.linspace(-3, 3, n)[:, None], labels[order])
    torch.testing.assert_close(value, expected, rtol=1e-11, atol=1e-13)
    torch.testing.assert_close(got, expected_gradient[order], rtol=1e-7, atol=1e-11)


@every_loss
@pytest.mark.parametrize("shape", [(0,), (1,), (5,), (2, 3), (600,), (2, 0)])
def test_nothing_kept_is_zero_with_a_zero_gradient(loss, shape):
    logits = torch.randn(*shape, 4)
    value, got = gradient(loss, logits, torch.full(shape, -100))
    assert value == 0
    assert torch.equal(got, torch.zeros_like(logits))


@every_loss
@pytest.mark.parametrize("classes", [1, 2, 4])
@pytest.mark.parametrize("n", [1, 2, 6, 600])
@pytest.mark.parametrize("answers", ["right", "wrong", "mixed"])
def test_gradients_are_finite_at_the_edges(loss, classes, n, answers):
    predicted = torch.arange(n) % classes
    wrong = {"right": 0, "wrong": 1, "mixed": torch.arange(n) // classes % 2}[answers]
    for gap in (0.0, 30.0, 1e4):
        logits = gap * torch.nn.functional.one_hot(predicted, classes).float()
        value, got = gradient(loss, logits, (predicted + wrong) % classes)
        assert torch.isfinite(value)
        assert torch.isfinite(got).all()


@every_loss
def test_a_class_masked_out_by_minus_infinity_is_finite_where_the_formula_is(loss):
    name = next(key for key, value in ALL.items() if value is loss)
    if name.startswith(("label_smoothing", "margin_smoothing")):
        pytest.skip("the formula itself is infinite: it asks for probability on every class")
    logits, labels = batch(30)
    logits[:, 3] = -torch.inf
    value, got = gradient(loss, logits, labels % 3)
    assert torch.isfinite(got).all()
    if loss is not soft_targets:  # Its target gives the masked class a share.
        assert torch.isfinite(value)


@every_loss
@both_ways
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_low_precision_is_computed_in_float32(loss, n, dtype):
    logits, labels = batch(n, dtype=dtype)
    value, got = gradient(loss, logits, labels)
    # The same rounded logits in float64 differ by float32 rounding alone.
    expected, expected_gradient = gradient(loss, logits.double(), labels)
    assert value.dtype == torch.float32
    assert got.dtype == dtype
    torch.testing.assert_close(value.double(), expected, rtol=2e-5, atol=1e-6)
    slack = torch.finfo(dtype).eps * float(expected_gradient.abs().max())
    # One sign or one threshold may fall the other way in float32: compare in the mean.
    assert float((got.double() - expected_gradient).abs().mean()) <= 4 * slack + 1e-7


@every_loss
@both_ways
def test_autocast_does_not_lower_the_precision(loss, n):
    logits, labels = batch(n, dtype=torch.float32)
    expected, expected_gradient = gradient(loss, logits, labels)
    with torch.autocast("cpu", torch.bfloat16):
        value, got = gradient(loss, logits, labels)
    torch.testing.assert_close(value, expected)
    torch.testing.assert_close(got, expected_gradient)


@every_loss
@both_ways
def test_nan_in_a_kept_example_is_not_hidden(loss, n):
    logits, labels = batch(n)
    logits[n // 2] = torch.nan
    assert loss(logits, labels).isnan()


@every_loss
@pytest.mark.parametrize("n", [3, 9])
def test_gradcheck(loss, n):
    logits, labels = batch(n)
    labels[1] = -100
    assert torch.autograd.gradcheck(lambda x: loss(x, labels), logits.requires_grad_())


@every_loss
@pytest.mark.parametrize("around", ["bare", "summed"])
def test_second_derivatives_are_right_or_refused(loss, around):
    """Against differences of gradients; a pairwise loss says that it has none."""
    logits, labels = batch(6)
    labels[1] = -100
    other = losses.cross_entropy if around == "summed" else lambda x, y: 0

    def value(x):
        return loss(x, labels) + other(x, labels)

    name = next(key for key, known in ALL.items() if known is loss)
    if not name.startswith(("mmce", "weighted_mmce", "sece", "error_regularization")):
        assert torch.autograd.gradgradcheck(value, logits.requires_grad_())
        return
    with pytest.raises(NotImplementedError, match="have no second derivative"):
        torch.autograd.gradgradcheck(value, logits.requires_grad_())


@every_loss
# Dynamo makes an instance of the autograd function that it traces, which PyTorch itself deprecates.
@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")
def test_compiles_in_one_graph(loss):
    logits, labels = batch(700, dtype=torch.float32)
    labels[::5] = -100
    torch._dynamo.reset()
    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
    expected, expected_gradient = gradient(loss, logits, labels)
    value, got = gradient(compiled, logits, labels)
    torch.testing.assert_close(value, expected)
    torch.testing.assert_close(got, expected_gradient)


@every_loss
@both_ways
def test_never_looks_at_values_on_the_host(loss, n):
    # Meta tensors have no values: .item(), boolean indexing or a shape that depends on data raises.
    # A CUDA graph forbids the same.
    logits = torch.empty(n, 4, device="meta", requires_grad=True)
    value = loss(logits, torch.empty(n, dtype=torch.long, device="meta"))
    value.backward()
    assert value.shape == ()
    assert logits.grad is not None


@every_loss
@both_ways
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")
def test_runs_in_a_cuda_graph(loss, n):
    n = 10 * n
    logits, labels = (x.cuda() for x in batch(n, dtype=torch.float32))
    labels[::5] = -100
    static = logits.clone().requires_grad_()
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            static.grad = None
            loss(static, labels).backward()
    torch.cuda.current_stream().wait_stream(stream)
    static.grad = None
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        value = loss(static, labels)
        value.backward()
    with torch.no_grad():
        static.copy_(-logits)
    graph.replay()
    expected, expected_gradient = gradient(loss, -logits, labels)
    torch.testing.assert_close(value.detach(), expected)
    torch.testing.assert_close(static.grad, expected_gradient)


@every_loss
@both_ways
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")
def test_the_gpu_agrees(loss, n):
    logits, labels = batch(10 * n)
    labels[::5] = -100
    expected, expected_gradient = gradient(loss, logits, labels)
    value, got = gradient(loss, logits.cuda(), labels.cuda())
    torch.testing.assert_close(value.cpu(), expected, rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(got.cpu(), expected_gradient, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("name", [*PER_EXAMPLE, "soft_cross_entropy"])
def test_reductions(name):
    logits, labels = batch(12)
    labels[::4] = -100
    function = getattr(losses, name)
    if name == "soft_cross_entropy":
        function = partial(lambda x, y, **k: losses.soft_cross_entropy(x, x.softmax(-1), y, **k))
    each = function(logits.view(3, 4, 4), labels.view(3, 4), reduction="none")
    assert each.shape == (3, 4)
    assert torch.equal(each.flatten()[::4], torch.zeros(3, dtype=each.dtype))
    alone = torch.stack([function(logits[[i]], labels[[i]]) for i in range(12)])
    torch.testing.assert_close(each.flatten(), alone)
    torch.testing.assert_close(function(logits, labels, reduction="sum"), alone.sum())
    torch.testing.assert_close(function(logits, labels), alone.sum() / 9)
    with pytest.raises(InputError, match="'mean', 'sum' or 'none'; got 'median'"):
        function(logits, labels, reduction="median")


@pytest.mark.parametrize("name", [*PER_EXAMPLE, *REGULARISERS])
def test_shapes_are_as_annotated(name):
    checked = jaxtyped(typechecker=beartype)(getattr(losses, name))
    logits, labels = batch(6)
    assert checked(logits.view(2, 3, 4), labels.view(2, 3)).shape == ()
    with pytest.raises(Exception, match="labels"):
        checked(logits, labels.view(2, 3))


@pytest.mark.parametrize("name", [*PER_EXAMPLE, *REGULARISERS])
@pytest.mark.parametrize(
    ("logits", "labels", "message"),
    [
        (
            torch.zeros(3, 2),
            torch.zeros(2, dtype=torch.long),
            r"got logits \(3, 2\) and labels \(2,\)",
        ),
        (torch.zeros(3, 0), torch.zeros(3, dtype=torch.long), "one class or more"),
        (torch.zeros(3, 2), torch.zeros(3), "integer labels; got torch.float32"),
        (torch.zeros(3, 2).long(), torch.zeros(3).long(), "floating-point logits; got torch.int64"),
        (torch.zeros(3, 2), torch.tensor([0, 2, 1]), "0 … 1, or -100 for ignored; got 2"),
        (torch.zeros(3, 2), torch.tensor([0, -1, 1]), "got -1"),
    ],
)
def test_wrong_input_is_an_error_that_says_so(name, logits, labels, message):
    with pytest.raises(InputError, match=message):
        getattr(losses, name)(logits, labels)
