"""Turn a stream of predictions, with or without labels, into a :class:`Watch`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from calibrant.arguments import check_kind, check_unweighted, check_whole
from calibrant.calibrators import Calibrator
from calibrant.calibrators.signals import context_group
from calibrant.claims import Claims
from calibrant.comparison.span_calibrator import SpanCalibrator, fit_entities
from calibrant.comparison.under_shift import without_copies
from calibrant.errors import InputError, unknown_name
from calibrant.metrics.tags import is_bio
from calibrant.old_names import renamed_arguments
from calibrant.predictions import Predictions
from calibrant.watching.pieces import Examples, Pieces
from calibrant.watching.record import Watch
from calibrant.watching.summary import ESTIMATORS, Summary
from calibrant.watching.watcher import Watcher

__all__ = ["ESTIMATORS", "watch"]


@renamed_arguments(by="keep_together")
def watch(
    source: Examples | Iterable[Examples],
    *,
    reference: Examples | None = None,
    calibrator: Calibrator | None = None,
    entities: SpanCalibrator | None = None,
    chunk: int = 1000,
    per: str | None = None,
    keep_together: str | None = "auto",
    estimator: str = "cbpe",
    level: float = 0.95,
    false_alarms: float = 0.01,
    seed: int = 0,
) -> Watch:
    """Estimate accuracy and F1 of an unlabelled stream, and watch it for drift.

    ``source`` is predictions, or an iterator of them in the order of time; or claims of top labels
    (:meth:`calibrant.Claims.from_top_label`), whose F1 stays unknown. Labels are not looked
    at where a group ``labelled`` is false (:func:`calibrant.files.stream_unlabelled` makes it).
    ``calibrator`` makes the confidences honest; ``reference`` is labelled predictions of the same
    model before the calibrator, for example those that the calibrator was fitted on. Where classes
    are tags, ``entities`` is the learned confidence of whole entities. By default it is learned
    from the reference, and from corrupted copies in it if ``calibrator`` needs copies.

    Numbers are given for each ``chunk`` of this many rows, or for each value of the group ``per``.
    Rows with the same value of ``keep_together`` ("auto": sentence or image, if there is one, or
    the group whose means the calibrator reads) depend on each other and stay together. The
    ``estimator`` of accuracy is "cbpe" (the mean honest confidence) or "atc" (Garg et al. 2022; it
    needs a reference). Intervals cover ``level``; alarms come with a probability of at most
    ``false_alarms`` over the whole stream if nothing changes.

    >>> from calibrant.watching.pieces import unlabelled
    >>> random = np.random.default_rng(0)
    >>> p = random.uniform(0.6, 1, 6000)
    >>> whole = Predictions.from_probabilities(p, (random.random(6000) < p).astype(int))
    >>> found = watch(unlabelled(whole[2000:]), reference=whole[:2000], chunk=2000)
    >>> [round(chunk.expected_accuracy.value, 2) for chunk in found.chunks]
    [0.8, 0.8]
    >>> found.alarms
    ()
    """
    _check(source, reference, calibrator, chunk, estimator, level, false_alarms)
    if reference is not None:  # Corrupted copies are not what a stream looks like.
        reference, copies = without_copies(reference)
        if entities is None:
            entities = _entities(calibrator, reference, copies)
    if keep_together == "auto" and calibrator is not None:
        # Its signals are means over a group, such as a batch, which chunks must not cut.
        keep_together = context_group(calibrator.signals_) or keep_together
    pieces = Pieces(source, chunk, per, keep_together)
    summary = Summary(estimator, level)
    watcher = Watcher(calibrator, reference, summary, false_alarms, seed, entities)
    for name, piece in pieces:
        if per is None:
            watcher.close(but=name)
        watcher.add(name, piece, pieces.by)
    if not watcher.rows:
        raise InputError(f"Nothing to watch: the stream has no rows{pieces.dropped}.")
    watcher.close()
    settings = {
        "chunk": chunk if per is None else None,
        "per": per,
        "keep_together": pieces.by,
        "by": pieces.by,  # Its old name.
        "estimator": estimator,
        "level": level,
        "false_alarms": false_alarms,
        "tests": list(watcher.tests) if reference is not None or watcher.labelled else [],
        "calibrator": None if calibrator is None else calibrator.name,
        "seed": seed,
    }
    return _concluded(watcher, settings)


def _entities(
    calibrator: Calibrator | None, clean: Examples, copies: Examples | None
) -> SpanCalibrator | None:
    """Learn the confidence of entities from copies, too, if that of words was."""
    if calibrator is None or not calibrator.needs_copies:
        return None
    if not isinstance(clean, Predictions) or not isinstance(copies, Predictions):
        return None
    return fit_entities(calibrator, clean, copies) if is_bio(clean.label_names) else None


def _concluded(watcher: Watcher, settings: dict[str, Any]) -> Watch:
    summary, calibrated = watcher.summary, settings["calibrator"] is not None
    return Watch(
        tuple(watcher.closed),
        watcher.whole(),
        tuple(watcher.alarms.values()),
        summary.described_reference(),
        settings,
        tuple(summary.warnings(calibrated=calibrated)),
    )


def _check(
    source: Any,
    reference: Any,
    calibrator: Any,
    chunk: int,
    estimator: str,
    level: float,
    false_alarms: float,
) -> None:
    if not isinstance(source, Iterable) or isinstance(source, (str, np.ndarray)):
        check_kind("watch", source, Predictions, Claims)
    if reference is not None:
        check_kind("watch(reference=…)", reference, Predictions, Claims)
        check_unweighted("watch", reference, "it compares rows of two samples")
    if calibrator is not None:
        check_kind("watch(calibrator=…)", calibrator, Calibrator)
    check_whole("watch", "a chunk of at least 1 row", chunk)
    if estimator not in ESTIMATORS:
        raise unknown_name("estimator", str(estimator), ESTIMATORS)
    if estimator == "atc" and reference is None:
        raise InputError("The estimator 'atc' needs a reference, which sets its threshold.")
    for name, value in (("level", level), ("false_alarms", false_alarms)):
        if not 0 < value < 1:
            raise InputError(f"watch expects {name} between 0 and 1, got {value}.")
