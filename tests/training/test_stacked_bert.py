"""BERT encoders of several runs as one: values and gradients are those of each run alone."""

import functools

import pytest
import torch

from calibrant.methods import create
from calibrant.training.loop import Schedule, Windows
from calibrant.training.stacked import Stack
from calibrant.training.stacked import bert as stacked_bert
from calibrant.training.stacked.bert import StackedBert
from calibrant.training.stacked.stack import _without_head

transformers = pytest.importorskip("transformers")
RUNS = 3
LONG = stacked_bert._SHORT + 5


KINDS = ["Bert", "Electra", "Roberta", "XLMRoberta", "MPNet", "DistilBert"]
DISTILLED = {
    "hidden_size": "dim", "num_hidden_layers": "n_layers", "num_attention_heads": "n_heads",
    "intermediate_size": "hidden_dim", "hidden_dropout_prob": "dropout",
    "attention_probs_dropout_prob": "attention_dropout", "classifier_dropout": None,
}  # fmt: skip


def bert(seed=0, dropout=0.0, kind="Bert", **changes):
    settings = {
        "vocab_size": 50, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4,
        "intermediate_size": 24, "hidden_dropout_prob": dropout, "num_labels": 3,
        "attention_probs_dropout_prob": dropout, "classifier_dropout": 0.0,
    }  # fmt: skip
    settings |= {"embedding_size": 16} if kind == "Electra" else {}
    settings |= changes
    if kind == "DistilBert":
        named = {DISTILLED.get(name, name): value for name, value in settings.items()}
        settings = {name: value for name, value in named.items() if name is not None}
    torch.manual_seed(seed)
    config = getattr(transformers, f"{kind}Config")(**settings)
    model = getattr(transformers, f"{kind}ForTokenClassification")(config)
    model.dropout.p = settings.get("classifier_dropout", 0.0)
    for parameter in model.parameters():  # Biases and norms begin at 0 and 1.
        parameter.data += 0.1 * torch.randn_like(parameter)
    return model.double()


def batch(sentences, pieces):
    """Sentences of all lengths, one of them full and one of a single piece, which is padding."""
    random = torch.Generator().manual_seed(pieces)
    ids = torch.randint(50, (sentences, pieces), generator=random)
    lengths = torch.randint(1, pieces + 1, (sentences,), generator=random)
    lengths[0], lengths[-1] = pieces, 1
    return ids, (torch.arange(pieces) < lengths[:, None]).long()


def stacked(**options):
    bodies = [_without_head(bert(seed, **options)).train() for seed in range(RUNS)]
    return bodies, separate(bodies)


def separate(bodies):
    """Each parameter of all runs as a separate leaf."""
    names = [name for name, _ in bodies[0].named_parameters()]
    return {
        name: torch.stack([body.get_parameter(name).detach() for body in bodies]).requires_grad_()
        for name in names
    }


def features_and_gradients(encoder, weights, ids, mask):
    found = encoder(weights, ids, mask, torch.float64)
    target = torch.linspace(-1, 1, found[0].numel()).view_as(found[0]) * mask[..., None]
    gradients = torch.autograd.grad((found * target).sum(), list(weights.values()))
    return found * mask[..., None], dict(zip(weights, gradients, strict=True))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("sentences", "pieces"), [(4, 6), (2, 1), (5, 17), (2, LONG)])
def test_each_run_is_what_it_would_be_alone(sentences, pieces, kind):
    bodies, weights = stacked(kind=kind)
    assert StackedBert.serves(bodies[0])
    ids, mask = batch(sentences, pieces)
    padding = bodies[0].get_input_embeddings().padding_idx
    ids = torch.where((ids == padding) & (mask == 0), ids + 2, ids)
    ids[-1, 0] = padding  # A text may contain [PAD]; its row is not trained.
    found, gradients = features_and_gradients(StackedBert(bodies[0]), weights, ids, mask)
    target = torch.linspace(-1, 1, found[0].numel()).view_as(found[0]) * mask[..., None]
    for number, body in enumerate(bodies):
        alone = body(input_ids=ids, attention_mask=mask).logits * mask[..., None]
        torch.testing.assert_close(found[number], alone)
        (alone * target).sum().backward()
        for name, parameter in body.named_parameters():
            torch.testing.assert_close(gradients[name][number], parameter.grad, msg=name)


@pytest.mark.parametrize("pieces", [6, LONG])
@pytest.mark.parametrize(
    "place", ["hidden_dropout_prob", "attention_probs_dropout_prob", "classifier_dropout"]
)
@pytest.mark.parametrize("kind", KINDS)
def test_dropout_has_the_places_that_it_has_alone(place, pieces, kind):
    """Where everything is dropped, nothing is random."""
    bodies, weights = stacked(kind=kind, **{place: 1.0})
    ids, mask = batch(4, pieces)
    found = StackedBert(bodies[0])(weights, ids, mask, torch.float64)
    for number, body in enumerate(bodies):
        torch.testing.assert_close(found[number], body(input_ids=ids, attention_mask=mask).logits)


# torch's compiler looks at it itself.
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")
@pytest.mark.filterwarnings("ignore:<class 'torch.autograd.function.Function'> should not be")
@pytest.mark.parametrize("kind", ["Bert", "MPNet"])
def test_compiled_it_is_the_same_and_compiled_once(monkeypatch, kind):
    graphs = []

    def backend(graph, inputs):
        graphs.append(graph)
        return graph.forward

    compile_so = functools.partial(torch.compile, backend=backend)
    monkeypatch.setattr(torch, "compile", compile_so)
    stacked_bert._compiled.cache_clear()
    bodies, weights = stacked(kind=kind)
    for sentences, pieces in ((4, 6), (5, 17), (3, LONG), (7, 9)):
        inputs = weights, *batch(sentences, pieces)
        plain, quick = (
            features_and_gradients(StackedBert(bodies[0], compiled), *inputs)
            for compiled in (False, True)
        )
        torch.testing.assert_close(quick, plain)
    assert len(graphs) == 2  # What begins, and the layer.
    stacked_bert._compiled.cache_clear()


def test_runs_draw_dropout_of_their_own():
    bodies, _ = stacked(dropout=0.5)
    weights = separate([bodies[0]] * RUNS)
    first, second, _ = StackedBert(bodies[0].train())(weights, *batch(4, 6), torch.float64)
    assert not torch.allclose(first, second)
    first, second, _ = StackedBert(bodies[0].eval())(weights, *batch(4, 6), torch.float64)
    assert torch.equal(first, second)


def test_in_bfloat16_gradients_are_in_float32():
    bodies, weights = stacked()
    weights = {name: value.detach().float().requires_grad_() for name, value in weights.items()}
    found = StackedBert(bodies[0])(weights, *batch(4, 6), torch.bfloat16)
    assert found.dtype == torch.bfloat16
    gradients = torch.autograd.grad(found.float().square().sum(), list(weights.values()))
    assert {gradient.dtype for gradient in gradients} == {torch.float32}


def test_what_is_no_plain_bert_goes_another_way():
    assert StackedBert.serves(_without_head(bert(dropout=0.1, classifier_dropout=0.3)))
    assert not StackedBert.serves(_without_head(bert(hidden_act="relu")))
    assert not StackedBert.serves(torch.nn.Linear(2, 2))
    more = bert()
    more.bert.encoder.layer[0].attention.self.query.register_parameter(
        "adapter", torch.nn.Parameter(torch.zeros(2))
    )
    assert not StackedBert.serves(_without_head(more))
    other = bert(dropout=0.1)
    other.bert.encoder.layer[1].output.dropout.p = 0.0
    assert not StackedBert.serves(_without_head(other))
    assert not StackedBert.serves(_without_head(bert(kind="Electra", embedding_size=8)))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
class TestOnAGpu:
    @pytest.mark.filterwarnings("ignore:`torch.jit.script_method` is deprecated")
    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize("compiled", [False, True])
    def test_captured_it_trains_as_it_does_eagerly(self, compiled, kind):
        from test_loop import pieces

        results = []
        for graph in (False, True):
            models = [bert(seed, kind=kind).float() for seed in range(RUNS)]
            schedule = Schedule(epochs=3, batch=4, learning_rate=1e-2)
            made = Stack(
                models, [create("error_regularization") for _ in models],
                Windows(pieces(), "cuda"), schedule, graph=graph, compiled=compiled and graph,
            )  # fmt: skip
            for _ in made.steps():
                pass
            made.wait()
            results.append({name: value.cpu() for name, value in made.weights().items()})
        for name, eager in results[0].items():
            if name.endswith(("key.bias", "k.bias", "k_lin.bias")):
                continue  # Softmax does not feel it: its gradient is rounding, which Adam enlarges.
            torch.testing.assert_close(eager, results[1][name], rtol=1e-3, atol=1e-3, msg=name)
