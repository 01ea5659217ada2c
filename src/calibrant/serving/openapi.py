"""Describe the service for ``/openapi.json``."""

from __future__ import annotations

from typing import Any

from calibrant import __version__
from calibrant.serving.requests import Limits

__all__ = ["describe"]

_ERROR = {
    "type": "object",
    "properties": {"error": {"type": "string"}},
    "required": ["error"],
}
_REFUSALS = {
    "400": "The body is not valid JSON.",
    "401": "The token is missing or wrong.",
    "408": "The body took too long.",
    "413": "The body, a text, an image or the list is too large.",
    "415": "The content type is not known.",
    "422": "A field is missing, unknown or of the wrong kind.",
    "503": "Too many inputs wait, or the prediction took too long: try again after Retry-After.",
}


def describe(
    unit: str, labels: tuple[str, ...], limits: Limits, *, entities: bool
) -> dict[str, Any]:
    """Return the OpenAPI 3.1 document of a service for ``unit``: texts or images."""
    one = unit[:-1]
    given = {"type": "string", "maxLength": limits.characters}
    if unit == "images":
        given = {"type": "string", "contentEncoding": "base64"}
    properties: dict[str, Any] = {
        one: given,
        unit: {"type": "array", "items": given, "minItems": 1, "maxItems": limits.inputs},
        "top_k": {"type": "integer", "minimum": 1, "default": 1},
        "min_confidence": {"type": "number", "minimum": 0, "maximum": 1, "default": 0},
        "target_risk": {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
        "level": {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1, "default": 0.9},
    }
    asked = {
        "type": "object",
        "properties": properties,
        "additionalProperties": False,
        "oneOf": [{"required": [one]}, {"required": [unit]}],
    }
    bodies: dict[str, Any] = {"application/json": {"schema": asked}}
    if unit == "images":
        bodies |= {"image/*": {"schema": {"type": "string", "format": "binary"}}}
    answers = {"200": _answer("Predictions in the order of the inputs.", _predictions(entities))}
    answers |= {status: _answer(words, _ERROR) for status, words in _REFUSALS.items()}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "calibrant",
            "version": __version__,
            "description": "Predictions with calibrated confidence. Classes: " + ", ".join(labels),
        },
        "paths": {
            "/predict": {"post": {"requestBody": {"content": bodies}, "responses": answers}},
            "/healthz": {"get": {"responses": {"200": {"description": "The service answers."}}}},
            "/metrics": {"get": {"responses": {"200": {"description": "For Prometheus."}}}},
        },
    }


def _answer(words: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"description": words, "content": {"application/json": {"schema": schema}}}


def _predictions(entities: bool) -> dict[str, Any]:
    number, text, flag = {"type": "number"}, {"type": "string"}, {"type": "boolean"}
    one: dict[str, Any] = {
        "type": "object",
        "properties": {"label": text, "confidence": number, "accepted": flag},
    }
    if entities:
        place = {"type": "integer"}
        entity = {
            "type": "object",
            "properties": {
                "type": text, "start": place, "end": place, "text": text, "confidence": number,
            },
        }  # fmt: skip
        several = {"type": "array", "items": entity}
        one["properties"] = {"text": text, "entities": several, "abstained": several}
    return {
        "type": "object",
        "properties": {
            "format": {"const": 1},
            "predictions": {"type": "array", "items": one},
            "guarantee": {"type": "object"},
        },
        "required": ["format", "predictions"],
    }
