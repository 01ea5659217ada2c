"""The one rule by which ``compare``, ``fit`` and ``train`` choose a calibrator."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from calibrant.calibrators import CALIBRATORS, Calibrator, calibrator_class
from calibrant.comparison.candidates import Candidate, fit_candidate
from calibrant.comparison.cross_validation import make_folds
from calibrant.comparison.recommendation import Differences, choose, with_one_mistake
from calibrant.errors import CalibrantError
from calibrant.metrics import top_label
from calibrant.predictions import Predictions

__all__ = ["Selection", "map_names", "select_calibrator"]

_BASELINE = "identity"
_FAULTLESS = (
    " No prediction on VALID is wrong, so every NLL of this choice has one mistake added: "
    "fit on more or harder examples."
)


@dataclass(frozen=True, eq=False)
class Selection:
    """The chosen calibrator, the reason, and how the others did.

    ``calibrator`` is fitted on all of the data; ``candidates`` go from simple to flexible;
    ``skipped`` has the reason for each calibrator that could not run.
    """

    calibrator: Calibrator
    reason: str
    candidates: Mapping[str, Candidate]
    skipped: Mapping[str, str]
    folds: int

    def __repr__(self) -> str:
        return f"<Selection of {self.calibrator.name} among {len(self.candidates)} calibrators>"


def select_calibrator(
    valid: Predictions,
    names: Sequence[str] | None = None,
    *,
    keep_predictions: bool = False,
    folds: int = 5,
    bootstrap: int = 1000,
    seed: int = 0,
    split: bool = False,
    progress: Callable[[str], None] | None = None,
) -> Selection:
    """Choose one of the named calibrators (default: all) and fit it.

    Cross-validation scores every calibrator, with whole sentences or images held out together. The
    choice is the simplest one whose log-loss no other beats significantly (paired bootstrap, 5 %
    for all together) and whose Brier score is not significantly above that of the original scores.
    Both are proper scores: unlike the ECE they do not reward a map that gives all examples the same
    confidence. ``keep_predictions`` leaves out calibrators that can change the predicted class. If
    every prediction is right, each calibrator is judged as if one more example were wrong.

    >>> rng = np.random.default_rng(0)
    >>> labels = rng.integers(0, 3, 1500)
    >>> logits = 4 * (rng.normal(size=(1500, 3)) + np.eye(3)[labels])  # Four times too large.
    >>> valid = Predictions.from_logits(logits, labels)
    >>> select_calibrator(valid, ["temperature", "vector"]).calibrator.name
    'temperature'
    """
    valid, wanted = valid.numpy(), map_names(names, keep_predictions)
    dealt = make_folds(valid, folds, seed)
    candidates, skipped = {}, {}
    for name in wanted:
        try:
            candidates[name] = fit_candidate(name, valid, dealt, split=split)
        except CalibrantError as error:
            skipped[name] = str(error)
        if progress is not None:
            progress(name)
    block = dealt.in_order().block
    losses = np.stack([c.nll for c in candidates.values()])
    faultless = bool(top_label(valid)[2].all())
    losses = with_one_mistake(losses) if faultless else losses
    nll = Differences(losses, block, bootstrap, seed)
    brier = Differences(np.stack([c.brier for c in candidates.values()]), block, bootstrap, seed)
    chosen, reason = choose(list(candidates), nll, brier)
    reason += _FAULTLESS if faultless else ""
    return Selection(candidates[chosen].calibrator, reason, candidates, skipped, dealt.count)


def map_names(names: Sequence[str] | None, keep_predictions: bool = False) -> list[str]:
    """The names in the order of the table, from simple to flexible; the baseline always.

    >>> map_names(["matrix", "temperature"], keep_predictions=True)
    ['identity', 'temperature']
    """
    for name in names or ():
        calibrator_class(name)  # Says so where there is none of that name.
    wanted = [n for n in CALIBRATORS if names is None or n in names or n == _BASELINE]
    return [n for n in wanted if not keep_predictions or CALIBRATORS[n].calibrator.keeps_argmax]
