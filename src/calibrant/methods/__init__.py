"""Training-time methods: what each technique changes in a training step.

The tables below register each method: name, factory, one-line summary, paper. They load
no torch; a class is imported on first use, by name (``create``) or as an attribute
(``from calibrant.methods import HeadNoise``). ``docs/add-a-method.md`` explains how to add one.

>>> create("focal", gamma=2.0).gamma
2.0
"""

from __future__ import annotations

import importlib
import inspect
from typing import TYPE_CHECKING, Any, NamedTuple

from calibrant.errors import InputError, unknown_name
from calibrant.extras import require
from calibrant.old_names import renamed

if TYPE_CHECKING:
    from calibrant.methods.avuc import Avuc
    from calibrant.methods.base import ExampleLoss, Method
    from calibrant.methods.cross_entropy import CrossEntropy
    from calibrant.methods.dece import Dece
    from calibrant.methods.entropy_penalty import EntropyPenalty
    from calibrant.methods.error_regularization import ErrorRegularization
    from calibrant.methods.focal import Flsd, Focal
    from calibrant.methods.head_noise import HeadNoise, head_noise_error_regularization
    from calibrant.methods.label_smoothing import LabelSmoothing
    from calibrant.methods.margin_smoothing import MarginSmoothing
    from calibrant.methods.matched_noise import MatchedGaussian
    from calibrant.methods.mdca import Dca, Mdca
    from calibrant.methods.meta_regularization import (
        MetaRegularization,
        gamma_net_dece,
        gamma_net_sece,
    )
    from calibrant.methods.mixup import FeatureMixup, InputMixup
    from calibrant.methods.mmce import Mmce, WeightedMmce
    from calibrant.methods.mse import Mse
    from calibrant.methods.noise import FeatureMixture, Gaussian, Noise
    from calibrant.methods.sece import Sece
    from calibrant.methods.shell_noise import Shell
    from calibrant.methods.wrapper import Regularizer, Wrapper

__all__ = [
    "METHODS",
    "NOISES",
    "Avuc",
    "CrossEntropy",
    "Dca",
    "Dece",
    "EntropyPenalty",
    "ErrorRegularization",
    "ExampleLoss",
    "FeatureMixture",
    "FeatureMixup",
    "Flsd",
    "Focal",
    "Gaussian",
    "HeadNoise",
    "InputMixup",
    "LabelSmoothing",
    "MarginSmoothing",
    "MatchedGaussian",
    "Mdca",
    "MetaRegularization",
    "Method",
    "MethodEntry",
    "Mmce",
    "Mse",
    "Noise",
    "Regularizer",
    "Sece",
    "Shell",
    "WeightedMmce",
    "Wrapper",
    "create",
    "gamma_net_dece",
    "gamma_net_sece",
    "head_noise_error_regularization",
]


class MethodEntry(NamedTuple):
    """One row of the table; ``factory`` is "module:name" inside this package.

    >>> METHODS["focal"].summary, METHODS["focal"].paper
    ('less weight on what is already right', 'Lin et al., ICCV 2017')
    """

    factory: str
    summary: str
    paper: str


METHODS: dict[str, MethodEntry] = {
    "cross_entropy": MethodEntry("cross_entropy:CrossEntropy", "baseline: −log p_y", "–"),
    "mse": MethodEntry("mse:Mse", "squared error of the probabilities (Brier)", "Brier 1950"),
    "label_smoothing": MethodEntry(
        "label_smoothing:LabelSmoothing",
        "cross-entropy against softened labels",
        "Szegedy et al., CVPR 2016",
    ),
    "focal": MethodEntry(
        "focal:Focal", "less weight on what is already right", "Lin et al., ICCV 2017"
    ),
    "flsd": MethodEntry(
        "focal:Flsd", "focal, γ 5 where p_y < 0.2, else 3", "Mukhoti et al., NeurIPS 2020"
    ),
    "entropy_penalty": MethodEntry(
        "entropy_penalty:EntropyPenalty",
        "cross-entropy that pays for confidence (ECP, ERL)",
        "Pereyra et al., 2017",
    ),
    "margin_smoothing": MethodEntry(
        "margin_smoothing:MarginSmoothing",
        "logit distances up to a margin are free (MbLS)",
        "Liu et al., CVPR 2022",
    ),
    "mmce": MethodEntry(
        "mmce:Mmce", "kernel distance of confidence and correctness", "Kumar et al., ICML 2018"
    ),
    "weighted_mmce": MethodEntry(
        "mmce:WeightedMmce", "MMCE, right and wrong weigh the same", "Kumar et al., ICML 2018"
    ),
    "dece": MethodEntry(
        "dece:Dece", "CE-DECE: ECE with soft bins added", "Bohdal et al., TMLR 2023"
    ),
    "sece": MethodEntry(
        "sece:Sece", "CE-SECE: binning-free ECE added", "Wang & Golebiowski, TMLR 2024"
    ),
    "avuc": MethodEntry(
        "avuc:Avuc",
        "certain where right, uncertain where wrong",
        "Krishnan & Tickoo, NeurIPS 2020",
    ),
    "error_regularization": MethodEntry(
        "error_regularization:ErrorRegularization",
        "larger error must not have larger confidence (ABS)",
        "Xin et al., ACL 2021",
    ),
    "mdca": MethodEntry(
        "mdca:Mdca",
        "mean probability meets frequency in each class",
        "Hebbalaguppe et al., CVPR 2022",
    ),
    "dca": MethodEntry("mdca:Dca", "mean confidence meets accuracy", "Liang et al., BMVC 2020"),
    "head_noise": MethodEntry(
        "head_noise:HeadNoise",
        "∇Acc: the head is uncertain about noise",
        "Jouet et al., IJCNN 2022",
    ),
    "head_noise_error_regularization": MethodEntry(
        "head_noise:head_noise_error_regularization",
        "∇Acc+ABS: error regularisation as third head-only pass",
        "Jouet et al., IJCNN 2022",
    ),
    "input_mixup": MethodEntry(
        "mixup:InputMixup", "mixes inputs and labels (pixels)", "Zhang et al., ICLR 2018"
    ),
    "feature_mixup": MethodEntry(
        "mixup:FeatureMixup", "mixes the head's input and labels (text)", "Verma et al., ICML 2019"
    ),
    "gamma_net_sece": MethodEntry(
        "meta_regularization:gamma_net_sece",
        "FLγ-SECE: focal γ learnt on held-out data",
        "Wang & Golebiowski, TMLR 2024",
    ),
    "gamma_net_dece": MethodEntry(
        "meta_regularization:gamma_net_dece",
        "FLγ-DECE: the same with DECE as outer loss",
        "Wang & Golebiowski, TMLR 2024",
    ),
}

NOISES: dict[str, MethodEntry] = {
    "gaussian": MethodEntry(
        "noise:Gaussian", "N(0, 1) in every coordinate", "Jouet et al., IJCNN 2022"
    ),
    "matched": MethodEntry(
        "matched_noise:MatchedGaussian", "running mean and covariance of the features", "–"
    ),
    "shell": MethodEntry("shell_noise:Shell", "outside all class clusters", "–"),
    "mixture": MethodEntry("noise:FeatureMixture", "means of real features", "–"),
}

# Public names that the command line does not offer.
_PARTS = (
    "base:Method",
    "base:ExampleLoss",
    "wrapper:Wrapper",
    "wrapper:Regularizer",
    "noise:Noise",
    "meta_regularization:MetaRegularization",
)


def create(name: str, **options: Any) -> Method:
    """Create a method by name: ``"head-noise"`` and ``"head_noise"`` are the same.

    Parts may be given as data: mappings with their own "name".

    >>> method = create("head-noise", task={"name": "focal"}, noise={"name": "shell"})
    >>> type(method.task).__name__, type(method.noise).__name__
    ('Focal', 'Shell')
    """
    method: Method = _build("method", METHODS, name, options)
    return method


def _build(what: str, table: dict[str, MethodEntry], name: str, options: dict[str, Any]) -> Any:
    key = str(name).replace("-", "_")
    if key not in table:
        known = [entry.replace("_", "-") for entry in table]
        raise unknown_name(
            what, key.replace("_", "-"), known, f"'calibrant list {what}s' shows all."
        )
    factory = _load(table[key].factory)
    parts = {option: _part(option, value) for option, value in options.items()}
    try:
        return factory(**parts)
    except TypeError as error:
        reason = str(error).split("() ", 1)[-1]
        raise InputError(f"{what.capitalize()} '{name}' {reason}{_taken(factory)}.") from None


def _taken(factory: Any) -> str:
    """Return the names of the options that a factory takes; empty if it passes them on."""
    options = inspect.signature(factory).parameters.values()
    if any(option.kind is option.VAR_KEYWORD for option in options):
        return ""
    return f"; it takes {', '.join(option.name for option in options)}"


def _part(key: str, value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_part(key, one) for one in value]
    if not (isinstance(value, dict) and "name" in value):
        return value
    options = {option: part for option, part in value.items() if option != "name"}
    if key == "noise":
        return _build("noise", NOISES, value["name"], options)
    return _build("method", METHODS, value["name"], options)


def _load(factory: str) -> Any:
    require("torch", "torch", "Training with a calibration method")
    module, _, attribute = factory.partition(":")
    return getattr(importlib.import_module(f"{__name__}.{module}"), attribute)


def __getattr__(attribute: str) -> Any:
    entries = [entry.factory for entry in (*METHODS.values(), *NOISES.values())]
    for factory in (*entries, *_PARTS):
        if factory.partition(":")[2] == attribute:
            return _load(factory)
    return renamed(__name__, attribute)
