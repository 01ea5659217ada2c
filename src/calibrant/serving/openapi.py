"""Describe the service for ``/openapi.json``."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from calibrant import __version__
from calibrant.json_values import FORMAT
from calibrant.serving.requests import Limits, option_names

if TYPE_CHECKING:
    from calibrant.tasks.predictor import Predictor

__all__ = ["describe"]

_TEXT, _FLAG = {"type": "string"}, {"type": "boolean"}
_PLACE = {"type": "integer", "minimum": 0}
_SHARE = {"type": "number", "minimum": 0, "maximum": 1}
_INSIDE = {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1}
_BASE64 = {"type": "string", "contentEncoding": "base64"}
_PNG = {**_BASE64, "contentMediaType": "image/png"}
_OPTIONS = {
    "top_k": {"type": "integer", "minimum": 1, "default": 1},
    "min_confidence": {**_SHARE, "default": 0},
    "target_risk": _INSIDE,
    "level": {**_INSIDE, "default": 0.9},
    "maps": {**_FLAG, "default": False},
}
_OF_ALL = {
    "401": "The token is missing or wrong.",
    "403": "The request is from a page of another site.",
    "421": "The request names another host.",
    "500": "An error in the service, which its log describes.",
}
_OF_BODIES = {
    "400": "The body ends too early or is not valid.",
    "408": "The body took too long.",
    "413": "The body, a text, an image or the list is too large.",
}
_OF_PREDICT = {
    **_OF_BODIES,
    "415": "The content type is not known.",
    "422": "A field is missing, unknown or of the wrong kind.",
    "503": "Too much waits, or the prediction took too long: try again after Retry-After.",
}
_NO_REPORT = {"404": "There is no report."}
_TOKEN = {
    "components": {"securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
    "security": [{"token": []}],
}


def describe(predictor: Predictor, limits: Limits, *, token: bool) -> dict[str, Any]:
    """Return the OpenAPI 3.1 document of a service; ``token``: whether requests need one."""
    classes = ", ".join(predictor.labels)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "calibrant",
            "version": __version__,
            "description": f"Predictions with calibrated confidence. Classes: {classes}",
        },
        "paths": _paths(predictor, limits, token),
        **(_TOKEN if token else {}),
    }


def _paths(predictor: Predictor, limits: Limits, token: bool) -> dict[str, Any]:
    """Return each address of the service; those that are open to all need no token."""
    predicted = _answer("Predictions in the order of the inputs.", _predictions(predictor))
    report = _content("The report of the run.", "text/html")
    given = _object({"token": _TEXT}) if token else {"type": "object"}
    form = _content("The token.", "application/x-www-form-urlencoded", given)
    file = _get({"description": "A script or a style."}, {"404": "There is no such file."})
    name = {"name": "name", "in": "path", "required": True, "schema": _TEXT}
    return {
        "/predict": {
            "post": {**_get(predicted, _OF_PREDICT), "requestBody": _bodies(predictor, limits)}
        },
        "/healthz": {"get": {**_get(_answer("The service answers.", _HEALTH)), "security": []}},
        "/metrics": {"get": _get(_content("For Prometheus.", "text/plain"))},
        "/openapi.json": {"get": _get(_answer("This document.", {"type": "object"}))},
        "/about": {"get": _get(_answer("What the page shows about the model.", _ABOUT))},
        "/report": {
            "get": _get(report, _NO_REPORT),
            "post": {
                **_get(report, {**_NO_REPORT, **_OF_BODIES}),
                "requestBody": form,
                "security": [],
            },
        },
        "/": {"get": {**_get(_content("The page.", "text/html")), "security": []}},
        "/static/{name}": {"get": {**file, "parameters": [name], "security": []}},
    }


def _get(answer: dict[str, Any], refusals: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return an operation with its answer and what may be refused."""
    error, words = _object({"error": _TEXT}), {**_OF_ALL, **(refusals or {})}
    return {"responses": {"200": answer, **{s: _answer(w, error) for s, w in words.items()}}}


def _bodies(predictor: Predictor, limits: Limits) -> dict[str, Any]:
    many, images = predictor.unit, predictor.unit == "images"
    one = many.removesuffix("s")
    given = _BASE64 if images else {**_TEXT, "maxLength": limits.characters}
    most = min(limits.inputs, limits.queue)
    inputs = {
        one: given,
        many: {"type": "array", "items": given, "minItems": 1, "maxItems": most},
    }
    options = {name: _OPTIONS[name] for name in option_names(predictor.makes_masks)}
    asked = _object({**inputs, **options}, {one, many, *options})
    asked["oneOf"] = [{"required": [one]}, {"required": [many]}]
    picture = {"image/*": {"schema": {"type": "string", "format": "binary"}}} if images else {}
    return {"required": True, "content": {"application/json": {"schema": asked}, **picture}}


def _object(properties: dict[str, Any], optional: Collection[str] = ()) -> dict[str, Any]:
    """Return the schema of an object that has these properties and no others."""
    required = [name for name in properties if name not in optional]
    found = {"type": "object", "properties": properties, "additionalProperties": False}
    return {**found, "required": required} if required else found


def _several(items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items}


_HEALTH = _object({"status": {"const": "ok"}, "waiting": _PLACE})
_RISK = {
    "target": _INSIDE,
    "threshold": {"anyOf": [{"type": "number"}, {"const": "inf"}]},
    "meaning": _TEXT,
}
_ABOUT = _object(
    {
        "format": {"const": FORMAT},
        "unit": {"enum": ["texts", "images"]},
        **dict.fromkeys(("entities", "masks", "sets", "report"), _FLAG),
        "labels": _several(_TEXT),
        "calibrator": _TEXT,
        "policy": {"type": ["string", "null"]},
        "risks": _several({"type": "object", "properties": _RISK, "required": [*_RISK]}),
    }
)
_RANKED = _several(_object({"label": _TEXT, "confidence": _SHARE}))


def _answer(words: str, schema: dict[str, Any]) -> dict[str, Any]:
    return _content(words, "application/json", schema)


def _content(words: str, kind: str, schema: dict[str, Any] = _TEXT) -> dict[str, Any]:
    return {"description": words, "content": {kind: {"schema": schema}}}


def _predictions(predictor: Predictor) -> dict[str, Any]:
    one = _mask() if predictor.makes_masks else _class()
    one = _entities() if predictor.finds_entities else one
    guarantee = {"type": "object", "properties": {"meaning": _TEXT}, "required": ["meaning"]}
    content = {"format": {"const": FORMAT}, "predictions": _several(one), "guarantee": guarantee}
    return _object(content, {"guarantee"})


def _class() -> dict[str, Any]:
    optional = {"alternatives": _RANKED, "labels": _several(_TEXT), "empty": _FLAG}
    optional["accepted"] = _FLAG  # A policy of sets of classes accepts nothing.
    return _object({"label": _TEXT, "confidence": _SHARE, **optional}, optional)


def _mask() -> dict[str, Any]:
    of_class = _object({"pixels": _PLACE, "confidence": _SHARE})
    size = {"height": _PLACE, "width": _PLACE, "confidence": _SHARE, "accepted": _SHARE}
    maps = {"mask": _PNG, "confidence_map": _PNG}
    classes = {"type": "object", "additionalProperties": of_class}
    return _object({**size, "classes": classes, **maps}, maps)


def _entities() -> dict[str, Any]:
    place = {"text": _TEXT, "start": _PLACE, "end": _PLACE, "confidence": _SHARE}
    token = _object({**place, "tag": _TEXT})
    found = {**place, "type": _TEXT, "tokens": _several(token), "alternatives": _RANKED}
    entities = _several(_object(found, {"alternatives"}))
    content = {"text": _TEXT, "entities": entities, "abstained": entities}
    return _object({**content, "review": _several(token)}, {"review"})
