"""Every encoder trains, alone and in stacks: captured, stacked, or plainly with a note."""

import copy

import pytest
import torch
from test_loop import pieces

from calibrant.methods import create
from calibrant.training.loop import Loop, Schedule, Windows
from calibrant.training.stacked import NotStackableError, Stack

transformers = pytest.importorskip("transformers")
SMALL = {
    "vocab_size": 50, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4,
    "intermediate_size": 24, "num_labels": 3, "max_position_embeddings": 64, "pad_token_id": 0,
}  # fmt: skip
NAMES = {
    "DistilBert": {
        "hidden_size": "dim", "num_hidden_layers": "n_layers", "num_attention_heads": "n_heads",
        "intermediate_size": "hidden_dim",
    },
    "XLNet": {
        "hidden_size": "d_model", "num_hidden_layers": "n_layer", "num_attention_heads": "n_head",
        "intermediate_size": "d_inner", "max_position_embeddings": None,
    },
    "GPT2": {
        "hidden_size": "n_embd", "num_hidden_layers": "n_layer", "num_attention_heads": "n_head",
        "intermediate_size": "n_inner", "max_position_embeddings": "n_positions",
    },
}  # fmt: skip
MORE = {
    "Electra": {"embedding_size": 16},
    "Albert": {"embedding_size": 8},
    "DebertaV2": {
        "relative_attention": True, "pos_att_type": ["p2c", "c2p"], "max_relative_positions": 8,
    },
    "ModernBert": {"cls_token_id": 1, "sep_token_id": 2, "bos_token_id": 1, "eos_token_id": 2},
    "MPNet": {"pad_token_id": 1},
    "Roberta": {"pad_token_id": 1},
}  # fmt: skip
KINDS = [
    "Bert", "MPNet", "DistilBert", "Roberta", "DebertaV2", "Electra", "ModernBert", "Albert",
    "XLNet", "GPT2",
]  # fmt: skip
METHODS = ["cross_entropy", "head_noise_error_regularization"]
# DeBERTa is written with torch.jit, which torch is about to leave.
pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit")
GPU = pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU"))


def tagger(kind, seed=0):
    names = NAMES.get(kind, {})
    settings = {names.get(name, name): value for name, value in SMALL.items()}
    settings = {name: value for name, value in settings.items() if name} | MORE.get(kind, {})
    torch.manual_seed(seed)
    config = getattr(transformers, f"{kind}Config")(**settings)
    return getattr(transformers, f"{kind}ForTokenClassification")(config)


def changed(before, after):
    return any(not torch.equal(value, after[name].cpu()) for name, value in before.items())


@pytest.mark.parametrize("device", ["cpu", GPU])
@pytest.mark.parametrize("kind", KINDS)
def test_an_encoder_trains_alone(kind, device):
    model = tagger(kind)
    before = copy.deepcopy(model.state_dict())
    method, schedule = create("head_noise_error_regularization"), Schedule(epochs=2, batch=4)
    padding = model.config.pad_token_id
    loop = Loop(model, method, Windows(pieces(), device, padding), schedule)
    loop.run()
    assert loop.number == len(loop)
    assert torch.isfinite(loop.loss)
    assert changed(before, model.state_dict())
    if device == "cuda":
        assert loop.note is None or kind in loop.note


@pytest.mark.parametrize("device", ["cpu", GPU])
@pytest.mark.parametrize("kind", KINDS)
def test_encoders_train_in_a_stack_or_say_why_not(kind, device):
    models = [tagger(kind, seed) for seed in range(2)]
    windows = Windows(pieces(), device, models[0].config.pad_token_id)
    methods, schedule = [create(name) for name in METHODS], Schedule(epochs=2, batch=4)
    try:
        stack = Stack(models, methods, windows, schedule)
    except NotStackableError as error:
        pytest.skip(str(error))
    for _ in stack.steps():
        pass
    assert all(loss == loss for loss in stack.losses())
    assert stack.note is None or kind in stack.note
