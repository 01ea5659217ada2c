"""Comparing calibrators on tables in partitions: all fits and folds share their passes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from calibrant.calibrators import CALIBRATORS, Calibrator
from calibrant.comparison import REPLICATES, Comparison, Row, Settings, check_replicates
from calibrant.comparison.cross_validation import check_folds
from calibrant.comparison.recommendation import Differences, choose
from calibrant.comparison.selection import calibrator_names, in_order, remarks
from calibrant.distributed.engine import Engine
from calibrant.distributed.engines import Opened, open_dataset
from calibrant.distributed.evaluating import BLOCKS, HeldOut, Marks, OnTest
from calibrant.distributed.fitting import (
    Known,
    Source,
    check_distributed,
    fit_routine,
    survey,
)
from calibrant.distributed.left_out import LeftOut
from calibrant.distributed.passes import Answer, Ask, Passes, Question
from calibrant.distributed.reading import reader_of
from calibrant.distributed.views import Folded
from calibrant.errors import CalibrantError, InputError
from calibrant.files.columns import DEFAULT_COLUMNS, Columns
from calibrant.files.format import FileKind
from calibrant.metrics import (
    Bins,
    CalibrationState,
    ConfidenceSketch,
    bootstrap_interval,
    confidence_steps,
    ece,
)
from calibrant.metrics.bootstrap import check_bootstrap
from calibrant.metrics.measure import measure_sources
from calibrant.metrics.sketch import BINS

__all__ = ["compare"]

_WHOLE = -1  # The number of the fit on all rows, next to those without one fold.
_ROUNDING = 1e-12


def compare(
    valid: Any,
    test: Any,
    calibrators: Sequence[str] | None = None,
    *,
    engine: Engine | None = None,
    columns: Columns = DEFAULT_COLUMNS,
    kind: FileKind | None = None,
    folds: int = 5,
    bootstrap: int = 1000,
    bins: int = 15,
    seed: int = 0,
    same_data: bool = False,
    keep_predictions: bool = False,
    skip_damaged: bool = False,
) -> Comparison:
    """Compare calibrators on tables in partitions, as :func:`calibrant.compare` does in memory.

    ``valid`` and ``test`` are what :func:`calibrant.distributed.audit` takes. The fits of all
    calibrators and folds run side by side, so that a pass over VALID serves all of them. A hash of
    the group, or of the row's number, deals rows to the folds. The split of the NLL into
    calibration and refinement, and the test whether VALID and TEST differ, are left out.
    Calibrators that need all rows at once are skipped. Corrupted copies in VALID are left out.

    >>> from tempfile import TemporaryDirectory
    >>> from calibrant import Predictions
    >>> p = Predictions.from_logits([[6.0, 0.0]] * 200, ([0] * 8 + [1] * 2) * 19 + [0] * 9 + [1])
    >>> with TemporaryDirectory() as folder:
    ...     p[:100].write(f"{folder}/valid.parquet")
    ...     p[100:].write(f"{folder}/test.parquet")
    ...     names = ["identity", "temperature"]
    ...     found = compare(f"{folder}/valid.parquet", f"{folder}/test.parquet", names, bootstrap=0)
    >>> found.recommended, round(found["identity"].ece, 2), round(found["temperature"].ece, 2)
    ('temperature', 0.19, 0.01)
    """
    check_folds(folds)
    edges = Bins(bins)
    check_replicates(bootstrap)
    replicates = bootstrap or REPLICATES
    check_bootstrap(replicates, seed=seed)
    opened = [open_dataset(d, engine, skip_damaged=skip_damaged) for d in (valid, test)]
    readers = [reader_of(o.dataset, columns, kind, o.schemas) for o in opened]
    pairs = [(o.dataset, r) for o, r in zip(opened, readers, strict=True)]
    on_valid, on_test = Passes(*pairs[0], clean=True), Passes(*pairs[1])
    sources = [Source.of(passes) for passes in (on_valid, on_test)]
    names = calibrator_names(calibrators, keep_predictions)
    _check_same_kind(*sources)
    if not same_data:
        _check_other_data(Passes(*pairs[0]), on_test)
    known, fitted, skipped = _fit_all(on_valid, sources[0], names, folds, seed)
    losses = HeldOut(_by_fold(fitted, folds), folds, seed, known.floor(logarithmic=False))
    held_out = _answer(on_valid, losses, "VALID")
    whole = {name: fits[_WHOLE] for name, fits in fitted.items()}
    tested = _answer(on_test, OnTest(tuple(whole.values()), bins), "TEST")
    rows = _rows(whole, held_out, tested, edges, bootstrap, seed)
    chosen, reason = _chosen(whole, held_out, known, replicates, seed)
    n_test, classes = int(tested["sum:n"][0]), len(sources[0].names or ()) or known.sample.classes
    settings = Settings(known.n + known.copies, n_test, classes, folds, bootstrap, seed, bins)
    left_out = _left_out(opened, (on_valid, on_test))
    return Comparison(tuple(rows), skipped, chosen, reason, settings, whole, left_out=left_out)


def _left_out(opened: Sequence[Opened], passes: Sequence[Passes]) -> dict[str, Any]:
    """Return what could not be read of VALID and TEST together; nothing where all was."""
    found = sum((each.left_out for each in passes), LeftOut())
    files = tuple(name for each in opened for name in each.damaged)
    return dict(replace(found, files=files).described().get("left_out", {}))


def _check_same_kind(valid: Source, test: Source) -> None:
    if valid.kind != test.kind and (valid.claims or test.claims):
        raise InputError(f"VALID holds {valid.kind}, but TEST {test.kind}.")
    if None not in (valid.names, test.names) and valid.names != test.names and not valid.claims:
        raise InputError("VALID and TEST have different label names.")


def _check_other_data(on_valid: Passes, on_test: Passes) -> None:
    valid, test = _answer(on_valid, Marks(), "VALID"), _answer(on_test, Marks(), "TEST")
    if all(np.array_equal(valid[name], test[name]) for name in valid):
        raise InputError(
            "VALID and TEST hold the same examples, so the numbers on TEST would be too good; give "
            "other data, or allow it with same_data=True (--force)."
        )


def _answer(passes: Passes, question: Question, table: str) -> Answer:
    """Return the answer of one pass; a table without a row that counts has none."""
    found = passes.one(lambda ask: ask(question))
    if not found:
        raise InputError(f"{table}: every row is ignored or without a label.")
    return found


Fits = dict[str, dict[int, Calibrator]]


def _fit_all(
    passes: Passes, source: Source, names: Sequence[str], folds: int, seed: int
) -> tuple[Known, Fits, dict[str, str]]:
    """Fit every calibrator on all rows and without each fold; return what could not run."""
    parts = {_WHOLE: None, **{k: Folded(folds, k, seed) for k in range(folds)}}
    surveys = passes.run({k: partial(_surveyed, source, part) for k, part in parts.items()})
    known: dict[int, Known] = {k: _value(found) for k, found in surveys.items()}
    routines: dict[tuple[str, int], Callable[[Ask], Calibrator]] = {}
    skipped: dict[str, str] = {}
    for name in names:
        made = CALIBRATORS[name].calibrator()
        try:
            check_distributed(made)
        except CalibrantError:
            skipped[name] = "These need all rows at once."
            continue
        routines |= {(name, k): partial(_routine, made, known[k]) for k in parts}
    found = passes.run(routines)
    for (name, _), fit in found.items():
        if isinstance(fit, CalibrantError):
            skipped.setdefault(name, str(fit))
        elif isinstance(fit, Exception):
            raise fit
    kept = [name for name in names if name not in skipped]
    fitted: Fits = {name: {k: _value(found[name, k]) for k in parts} for name in kept}
    return known[_WHOLE], fitted, skipped


def _surveyed(source: Source, folded: Folded | None, ask: Ask) -> Known:
    return survey(ask, source, folded)


def _routine(made: Calibrator, known: Known, ask: Ask) -> Calibrator:
    return fit_routine(ask, made, known)


def _value(found: Any) -> Any:
    if isinstance(found, Exception):
        raise found
    return found


def _by_fold(fitted: Fits, folds: int) -> tuple[tuple[Calibrator, ...], ...]:
    return tuple(tuple(fits[k] for k in range(folds)) for fits in fitted.values())


def _chosen(
    whole: Mapping[str, Calibrator], held_out: Answer, known: Known, bootstrap: int, seed: int
) -> tuple[str, str]:
    """Choose by the rule of :func:`~calibrant.comparison.select_calibrator`."""
    kinds = {name: type(calibrator) for name, calibrator in whole.items()}
    order = in_order(kinds, known.sample.classes, known.n)
    place = [list(whole).index(name) for name in order]
    count, nll, brier = (held_out[f"sum:{key}"] for key in ("count", "nll", "brier"))
    if known.faultless:  # As if one more example were wrong; its loss is spread over all.
        mistakes = held_out["sum:mistake"] / count.sum() ** 2
        nll, brier = (s + np.outer(m, count) for s, m in zip((nll, brier), mistakes, strict=True))
    pair = [Differences.of_sums(s[place].T, count, bootstrap, seed) for s in (nll, brier)]
    chosen, reason = choose(order, *pair)
    return chosen, reason + remarks([n for n in whole if n not in order], known.faultless)


def _rows(
    whole: Mapping[str, Calibrator],
    held_out: Answer,
    tested: Answer,
    bins: Bins,
    bootstrap: int,
    seed: int,
) -> list[Row]:
    size, before, rows = held_out["sum:count"].sum(), None, []
    alone = not tested["max:grouped"][0]
    for place, (name, calibrator) in enumerate(whole.items()):
        state, sketch = _tested_state(tested, place, bins), _sketch(tested, place)
        interval = bootstrap and bootstrap_interval(
            ece, state, replicates=bootstrap, seed=seed, independent=bool(alone)
        )
        low, high = interval or (None, None)
        sources = {"state": state.total(), "confidences": confidence_steps(sketch)}
        metrics = measure_sources(sources, ["classes"], bins.count)
        before = metrics["accuracy"] if before is None else before  # The first changes nothing.
        change = metrics["accuracy"] - before
        rows.append(
            Row(
                name=name,
                valid_nll=float(held_out["sum:nll"][place].sum() / size),
                valid_brier=float(held_out["sum:brier"][place].sum() / size),
                valid_ece=_gap(held_out["sum:top"][place]),
                valid_calibration=None,
                metrics=metrics,
                ece_low=low,
                ece_high=high,
                accuracy_change=0.0 if abs(change) < _ROUNDING else change,
                fit_seconds=math.nan,  # Fits share their passes.
                notes=tuple(calibrator.fitted_on_["warnings"]),
            )
        )
    return rows


def _gap(top: np.ndarray) -> float:
    """Return the ECE of (3, bins) counts, confidences and right predictions."""
    return float(np.abs(top[1] - top[2]).sum() / top[0].sum())


def _tested_state(tested: Answer, place: int, bins: Bins) -> CalibrationState:
    weighted = tested["sum:0.n"].dtype.kind == "f"
    options: dict[str, Any] = {"blocks": (BLOCKS,), "weighted": weighted, "classwise": False}
    empty = CalibrationState.empty(0, bins, **options)
    known = [s for s in CalibrationState.SUMS if f"sum:{place}.{s}" in tested]
    sums: dict[str, Any] = {s: tested[f"sum:{place}.{s}"] for s in known}
    return replace(empty, **sums)


def _sketch(tested: Answer, place: int) -> ConfidenceSketch:
    own = tested["cell:place"] // BINS == place
    weighted = tested["sum:0.n"].dtype.kind == "f"
    made = ConfidenceSketch.empty(weighted=weighted)
    for name in ("count", "correct", "confidence"):
        column = getattr(made, name)
        column[tested["cell:place"][own] % BINS] = tested[f"cell:{name}"][own]
    return made
