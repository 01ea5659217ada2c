"""Find the classification head of a model."""

from __future__ import annotations

from torch import nn

from calibrant.errors import InputError

__all__ = ["HEAD_NAMES", "advice", "by_position", "find_head", "unwrap"]

# Attribute names of heads, most specific first: transformers classifiers, decoder-only sequence
# classifiers, BART, torchvision (fc, classifier, heads) and timm (head), and plain habits.
HEAD_NAMES = (
    "classifier",
    "score",
    "classification_head",
    "head",
    "heads",
    "fc",
    "logits_proj",
    "lm_head",
    "qa_outputs",
    "out_proj",
    "output_layer",
)

# Modules that may come between two linear layers of one stack.
_BETWEEN = (
    nn.Linear,
    nn.ReLU,
    nn.GELU,
    nn.SiLU,
    nn.Tanh,
    nn.LeakyReLU,
    nn.ELU,
    nn.Sigmoid,
    nn.Dropout,
    nn.LayerNorm,
    nn.BatchNorm1d,
    nn.Identity,
    nn.Flatten,
)

_JOINING = (nn.BatchNorm1d, nn.Flatten)  # Of them, those that see several positions at once.


def unwrap(model: nn.Module) -> nn.Module:
    """Return the user's module inside ``torch.compile`` and ``DistributedDataParallel``."""
    while True:
        distributed = isinstance(model, nn.parallel.DistributedDataParallel)
        inner = getattr(model, "module" if distributed else "_orig_mod", None)
        if not isinstance(inner, nn.Module):
            return model
        model = inner


def find_head(model: nn.Module, name: str | None = None) -> tuple[str, nn.Module]:
    """Return the head of ``model`` and its dotted name.

    The search order: the head named by the user; timm's ``get_classifier()``; a known attribute
    name (``HEAD_NAMES``); the last stack of linear layers.

    >>> model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    >>> find_head(model)
    ('2', Linear(in_features=8, out_features=3, bias=True))
    """
    model = unwrap(model)
    if name is not None:
        return name, _named(model, name)
    for found in (_timm_classifier(model), _known_attribute(model), _last_linear_stack(model)):
        if found is not None:
            return found
    raise InputError(
        f"No classification head found in {type(model).__name__}: it has no attribute "
        f"{', '.join(HEAD_NAMES)} and no linear layer inside. {advice(model)}"
    )


def by_position(head: nn.Module) -> bool:
    """Whether a head treats each position of its input by itself, and so pools nothing.

    >>> by_position(nn.Linear(4, 2)), by_position(nn.Sequential(nn.Flatten(), nn.Linear(4, 2)))
    (True, False)
    """
    parts = [part for part in head.modules() if not isinstance(part, nn.Sequential)]
    return all(isinstance(p, _BETWEEN) and not isinstance(p, _JOINING) for p in parts)


def _named(model: nn.Module, name: str) -> nn.Module:
    try:
        return model.get_submodule(name)
    except AttributeError:
        raise InputError(
            f"{type(model).__name__} has no module '{name}' to use as head. {advice(model)}"
        ) from None


def advice(model: nn.Module) -> str:
    """Return other candidates for the head: the modules with parameters, last first."""
    candidates = [
        f"'{name}' ({type(module).__name__})"
        for name, module in model.named_modules()
        if name and next(module.parameters(), None) is not None
    ]
    if not candidates:
        return "It has no module with parameters: a head comes after an encoder, inside the model."
    shown = ", ".join(reversed(candidates[-12:]))
    return f"Pass head='…' with one of its modules, last first: {shown}."


def _timm_classifier(model: nn.Module) -> tuple[str, nn.Module] | None:
    classifier = getattr(model, "get_classifier", None)
    if not callable(classifier):
        return None
    head = classifier()
    for name, module in model.named_modules():
        if module is head and not isinstance(module, nn.Identity):
            return name, module
    return None


def _known_attribute(model: nn.Module) -> tuple[str, nn.Module] | None:
    for name in HEAD_NAMES:
        module = getattr(model, name, None)
        if isinstance(module, nn.Module) and next(module.parameters(), None) is not None:
            return name, module
    return None


def _last_linear_stack(model: nn.Module) -> tuple[str, nn.Module] | None:
    linear = [name for name, module in model.named_modules() if isinstance(module, nn.Linear)]
    if not linear or linear == [""]:  # This is the model itself: it has no encoder.
        return None
    parent = linear[-1].rpartition(".")[0]
    stack = model.get_submodule(parent)
    # A stack inside the model is the head as a whole. The model itself cannot be its own head.
    if parent and isinstance(stack, nn.Sequential) and all(isinstance(m, _BETWEEN) for m in stack):
        return parent, stack
    return linear[-1], model.get_submodule(linear[-1])
