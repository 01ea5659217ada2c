# mypy: allow-untyped-calls, disable-error-code="arg-type"
"""A classifier of tokens or of texts: any encoder of transformers with an MLP as its head.

This file is saved with the weights, so that a model with such a head loads where calibrant is not
installed: ``AutoModelForTokenClassification.from_pretrained(folder, trust_remote_code=True)``, or
with ``Sequence`` for ``Token``.
It needs torch and transformers alone.
"""

from typing import Any

from torch import Tensor, nn
from transformers import (
    AutoConfig,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    PretrainedConfig,
    PreTrainedModel,
)

__all__ = [
    "KINDS",
    "EncoderWithHead",
    "EncoderWithHeadConfig",
    "SequenceEncoderWithHead",
    "head_of",
]

_HEADS = ("classifier", "score", "logits_proj")  # As the classes of transformers call them.
_ACTIVATIONS = {"relu": nn.ReLU, "gelu": nn.GELU, "tanh": nn.Tanh, "none": nn.Identity}


class EncoderWithHeadConfig(PretrainedConfig):
    """``encoder`` is the config of the encoder's own classifier, with its ``model_type``.

    ``head`` has ``width``, ``depth``, ``activation`` and ``dropout``.
    """

    model_type = "encoder_with_head"

    def __init__(
        self,
        encoder: dict[str, Any] | None = None,
        head: dict[str, Any] | None = None,
        **others: Any,
    ) -> None:
        self.encoder = encoder or {}
        self.head = head or {}
        super().__init__(**others)


class EncoderWithHead(PreTrainedModel):
    """The encoder's own token classifier, its last layer replaced by ``depth`` layers and one."""

    config_class = EncoderWithHeadConfig
    base_model_prefix = "model"
    _supports_sdpa = True
    _own: Any = AutoModelForTokenClassification

    def __init__(self, config: EncoderWithHeadConfig) -> None:
        super().__init__(config)
        own = AutoConfig.for_model(**config.encoder)
        # Only code of transformers, no matter what the config names.
        self.model = self._own.from_config(own, trust_remote_code=False)
        name = head_of(self.model)
        features = getattr(self.model, name).in_features
        setattr(self.model, name, _head(features, config.num_labels, **config.head))
        self.post_init()

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        labels: Tensor | None = None,
        **others: Any,
    ) -> Any:
        """As the encoder's own classifier."""
        return self.model(
            input_ids=input_ids, attention_mask=attention_mask, labels=labels, **others
        )


class SequenceEncoderWithHead(EncoderWithHead):
    """The same of the encoder's own classifier of whole texts."""

    _own = AutoModelForSequenceClassification


KINDS = {"token": EncoderWithHead, "sequence": SequenceEncoderWithHead}


def head_of(model: nn.Module) -> str:
    """Return the name of the last layers of an encoder's own classifier."""
    return next(name for name in _HEADS if hasattr(model, name))


def _head(
    features: int, classes: int, width: int, depth: int, activation: str, dropout: float = 0.1
) -> nn.Module:
    layers: list[nn.Module] = []
    for _ in range(depth):
        layers += [nn.Dropout(dropout), nn.Linear(features, width), _ACTIVATIONS[activation]()]
        features = width
    return nn.Sequential(*layers, nn.Dropout(dropout), nn.Linear(features, classes))
