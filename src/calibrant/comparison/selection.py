"""The one rule by which ``compare``, ``fit`` and ``train`` choose a calibrator."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from calibrant.arguments import check_kind
from calibrant.calibrators import CALIBRATORS, Calibrator, calibrator_class
from calibrant.calibrators.matrix import Vector, WeightMatrix
from calibrant.calibrators.scalar import OneVsRest
from calibrant.claims import Claims
from calibrant.comparison.candidates import Candidate, fit_candidate
from calibrant.comparison.cross_validation import Folds, make_folds
from calibrant.comparison.recommendation import (
    Differences,
    choose,
    losses_if_wrong,
    with_one_mistake,
)
from calibrant.comparison.under_shift import copies_of, judge_under_shift
from calibrant.errors import CalibrantError, InputError
from calibrant.metrics import top_label
from calibrant.predictions import Predictions

__all__ = ["Selection", "calibrator_names", "in_order", "remarks", "select_calibrator"]

_BASELINE, _SHIFTED = "identity", "shift-aware"
_NO_COPIES = "It learns from corrupted copies, and VALID has none (group 'corruption')."
_LEFT_OUT = " Not considered, with more numbers to learn than examples: {}."
_FAULTLESS = (
    " No prediction on VALID is wrong, so every NLL of this choice has one mistake added: "
    "fit on more or harder examples."
)


@dataclass(frozen=True, eq=False)
class Selection:
    """The chosen calibrator, the reason, and how the others did.

    ``calibrator`` is fitted on all of the data; ``candidates`` go from simple to flexible;
    ``skipped`` has the reason for each calibrator that could not run.

    >>> p = Predictions.from_logits([[6.0, 0.0]] * 100, [0] * 80 + [1] * 20)
    >>> chosen = select_calibrator(p, ["identity", "temperature"])
    >>> chosen
    <Selection of temperature among 2 calibrators>
    >>> {name: round(each.nll.mean(), 2) for name, each in chosen.candidates.items()}
    {'identity': np.float64(1.2), 'temperature': np.float64(0.5)}
    """

    calibrator: Calibrator
    reason: str
    candidates: Mapping[str, Candidate]
    skipped: Mapping[str, str]
    folds: int

    def __repr__(self) -> str:
        return f"<Selection of {self.calibrator.name} among {len(self.candidates)} calibrators>"


def select_calibrator(
    valid: Predictions | Claims,
    names: Sequence[str] | None = None,
    *,
    keep_predictions: bool = False,
    folds: int = 5,
    bootstrap: int = 1000,
    seed: int = 0,
    split: bool = False,
    more: Sequence[Calibrator] = (),
    progress: Callable[[str], None] | None = None,
) -> Selection:
    """Choose one of the named calibrators (default: all) and fit it.

    Cross-validation scores every calibrator, with neighbours in the file held out together, and
    whole sentences or images. The choice is the simplest one, from ``temperature`` on, whose
    log-loss no other beats significantly (paired bootstrap, 5 % for all together) and whose Brier
    score is not significantly above that of the original scores. The scores stay unchanged if a
    temperature does not lower the log-loss and nothing beats them. ``matrix`` and ``dirichlet`` are
    not chosen if they learn more numbers than there are examples. Both are proper scores: unlike
    the ECE they do not reward a calibrator that gives all examples the same confidence.
    ``keep_predictions`` leaves out calibrators that can change the predicted class. If every
    prediction is right, each calibrator is judged as if one more example were wrong.
    ``more`` are calibrators that are in no table, from simple to flexible.

    Rows of VALID with a corruption in the group ``corruption`` are copies: ``shift-aware`` takes
    the place of the choice if it is better on kinds of damage that it did not see, and no worse on
    clean rows (:func:`~calibrant.comparison.under_shift.judge_under_shift`).

    >>> rng = np.random.default_rng(0)
    >>> labels = rng.integers(0, 3, 1500)
    >>> logits = 4 * (rng.normal(size=(1500, 3)) + np.eye(3)[labels])  # Four times too large.
    >>> valid = Predictions.from_logits(logits, labels)
    >>> select_calibrator(valid, ["temperature", "vector"]).calibrator.name
    'temperature'
    """
    check_kind("select_calibrator", valid, Predictions, Claims)
    valid, copies = copies_of(valid.numpy())
    wanted = [
        n for n in calibrator_names(names, keep_predictions) if copies is None or n != _SHIFTED
    ]
    dealt = make_folds(valid, folds, seed)
    candidates, skipped = {}, {}
    tried = {name: calibrator_class(name)() for name in wanted} | {one.name: one for one in more}
    for name, calibrator in tried.items():
        try:
            if isinstance(valid, Claims) and name in CALIBRATORS:
                _check_suits_claims(name, asked=names is not None)
            candidates[name] = fit_candidate(calibrator, valid, dealt, split=split)
        except CalibrantError as error:
            skipped[name] = str(error)
        if progress is not None:
            progress(name)
    chosen, reason = _chosen(candidates, valid, dealt, bootstrap, seed)
    taken = candidates[chosen].calibrator
    if names is None and copies is None:
        skipped[_SHIFTED] = _NO_COPIES
    elif copies is not None and valid.weighted:
        skipped[_SHIFTED] = "it takes no sample weights."
    elif copies is not None and _SHIFTED in (names or CALIBRATORS):
        found = judge_under_shift(taken, valid, copies, dealt, bootstrap=bootstrap, seed=seed)
        reason = f"{reason} {found.reason}"
        if found.candidate is not None:
            candidates[_SHIFTED], taken = found.candidate, found.candidate.calibrator
    return Selection(taken, reason, candidates, skipped, dealt.count)


def _chosen(
    candidates: Mapping[str, Candidate],
    valid: Predictions | Claims,
    dealt: Folds,
    bootstrap: int,
    seed: int,
) -> tuple[str, str]:
    """Return the name of the choice, and the reason."""
    kinds = {name: type(candidate.calibrator) for name, candidate in candidates.items()}
    choice = in_order(kinds, valid.classes, len(valid))
    block = dealt.in_order().block
    losses = np.stack([candidates[name].nll for name in choice])
    faultless = bool(top_label(valid)[2].all())
    weights = candidates[choice[0]].weights
    briers = np.stack([candidates[name].brier for name in choice])
    if faultless:
        wrong = np.stack([candidates[name].brier_if_wrong for name in choice])
        briers = with_one_mistake(briers, wrong, weights)
        losses = with_one_mistake(losses, losses_if_wrong(losses), weights)
    nll = Differences(losses, block, bootstrap, seed, weights)
    chosen, reason = choose(choice, nll, Differences(briers, block, bootstrap, seed, weights))
    return chosen, reason + remarks([n for n in candidates if n not in choice], faultless)


def in_order(kinds: Mapping[str, type], classes: int, n: int) -> list[str]:
    """Return the calibrators that n examples allow, from those that need few to many."""
    choice = [name for name, kind in kinds.items() if _has_enough_examples(kind, classes, n)]
    return sorted(choice, key=lambda name: _caution(kinds[name], classes))


def remarks(left_out: Sequence[str], faultless: bool) -> str:
    """Return what the reason of a choice must add, or nothing."""
    about = _LEFT_OUT.format(" and ".join(left_out)) if left_out else ""
    return about + (_FAULTLESS if faultless else "")


def _check_suits_claims(name: str, *, asked: bool) -> None:
    """Skip calibrators that need all classes, or whose top-label form learns the same."""
    if not CALIBRATORS[name].calibrator.takes_claims:
        raise InputError("these need the scores of all classes, not one confidence per example.")
    if f"{name}-top-label" in CALIBRATORS and not asked:
        raise InputError("from one confidence each, those that end in -top-label learn the same.")


def _has_enough_examples(kind: type, classes: int, n: int) -> bool:
    """Whether there are as many examples as free numbers.

    With fewer, such a calibrator learns single examples, and in cross-validation it profits from
    others that resemble them: paraphrases, neighbours, duplicates.
    """
    return not issubclass(kind, WeightMatrix) or n >= classes * (classes + 1)


def _caution(kind: type, classes: int) -> int:
    """Return how many examples a calibrator needs: few (0), more (1) or many (2).

    0 is one number or curve for all classes, or a penalty that fades as examples come; 1 is weights
    without such a penalty; 2 is a separate calibrator for each of more than two classes.
    """
    if issubclass(kind, OneVsRest) and classes > 2:
        return 2
    return 1 if issubclass(kind, Vector | WeightMatrix) else 0


def _is_wanted(name: str, names: Sequence[str] | None) -> bool:
    if names is None:
        return not CALIBRATORS[name].calibrator.needs_copies
    return name in names


def calibrator_names(names: Sequence[str] | None, keep_predictions: bool = False) -> list[str]:
    """Return the names in the order of the table, simple first; always with the baseline.

    >>> calibrator_names(["matrix", "temperature"], keep_predictions=True)
    ['identity', 'temperature']
    """
    names = [names] if isinstance(names, str) else names
    for name in names or ():
        calibrator_class(name)  # Raises an error for an unknown name.
    wanted = [n for n in CALIBRATORS if _is_wanted(n, names) or n == _BASELINE]
    return [n for n in wanted if not keep_predictions or CALIBRATORS[n].calibrator.keeps_argmax]
