"""Audits of tables in partitions: sums on the workers, conclusions here."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from calibrant.auditing.collect import Collector
from calibrant.auditing.estimate import Estimator
from calibrant.auditing.partial import PartialAudit
from calibrant.auditing.record import Audit
from calibrant.auditing.run import MOST_SORTED, check_bins, conclude
from calibrant.calibrators import Calibrator
from calibrant.distributed.applying import check_rows_suffice
from calibrant.distributed.engine import Engine, Part
from calibrant.distributed.engines import open_dataset
from calibrant.distributed.left_out import LeftOut
from calibrant.distributed.reading import Reader, reader_of
from calibrant.errors import InputError
from calibrant.files.columns import DEFAULT_COLUMNS, Columns
from calibrant.files.format import FileKind
from calibrant.metrics import Bins
from calibrant.metrics.bins import Closed
from calibrant.metrics.entities import Reduction
from calibrant.metrics.sample import Sample
from calibrant.metrics.sketch import Sketched

__all__ = ["audit"]


def audit(
    dataset: Any,
    *,
    engine: Engine | None = None,
    columns: Columns = DEFAULT_COLUMNS,
    kind: FileKind | None = None,
    calibrator: Calibrator | None = None,
    bins: int = 15,
    closed: Closed = "right",
    bootstrap: int = 1000,
    level: float = 0.95,
    keep_together: str | None = "auto",
    per: str | Sequence[str] = (),
    reduction: Reduction = "product",
    mistakes: int = 20,
    seed: int = 0,
    skip_damaged: bool = False,
    provenance: Mapping[str, Any] | None = None,
) -> Audit:
    """Audit a table in partitions, as :func:`calibrant.audit` audits one in memory.

    ``dataset`` is parquet paths (files, folders, globs, ``s3://…``), read by ``engine`` or here
    part by part, a ``ray.data.Dataset``, a Spark DataFrame, or a
    :class:`~calibrant.distributed.Dataset`. Each worker returns sums of a few megabytes for any
    number of rows. Counts are those of the audit in one process, sums agree to rounding. Of more
    than a million rows, metrics that need ranks come from a sketch of all rows; the adaptive
    classwise ECE, which needs all scores, is left out. ``calibrator`` is applied first.
    ``skip_damaged`` leaves out row groups that cannot be read, and lists them in the provenance.

    >>> from tempfile import TemporaryDirectory
    >>> from calibrant import Predictions
    >>> p = Predictions.from_probabilities([0.9] * 100, [1] * 70 + [0] * 30)
    >>> with TemporaryDirectory() as folder:
    ...     p[:50].write(f"{folder}/monday.parquet")
    ...     p[50:].write(f"{folder}/tuesday.parquet")
    ...     found = audit(f"{folder}/*.parquet", bootstrap=0)
    >>> print(found.verdict[0])
    Overconfident by 20.0 points: the model says 90.0 % on average and is right 70.0 % of the time.
    """
    estimate = Estimator(bootstrap, level, seed)
    check_bins(bins)
    if calibrator is not None:
        check_rows_suffice(calibrator, "apply it to the files first, and audit the copies")
    opened = open_dataset(dataset, engine, skip_damaged=skip_damaged)
    reader = reader_of(opened.dataset, columns, kind, opened.schemas)
    shown = (per,) if isinstance(per, str) else tuple(per)
    options = {"reduction": reduction, "mistakes_shown": mistakes, "per": shown}
    options |= {"intervals": bootstrap > 0}
    many = opened.dataset.count() > MOST_SORTED
    task = _Collect(reader, Bins(bins, closed), keep_together, options, many, seed, calibrator)
    found = opened.dataset.reduce(task, _join)
    if not found:
        raise InputError("Nothing to audit: no rows.")
    left_out, whole = LeftOut.split(found)
    left_out = replace(left_out, files=opened.damaged)
    about = {**(provenance or {}), **left_out.described()}
    return conclude(PartialAudit.from_bytes(whole).finish(), estimate, provenance=about)


@dataclass(frozen=True)
class _Collect:
    """Collects the rows of a part, on a worker."""

    reader: Reader
    bins: Bins
    keep_together: str | None
    options: Mapping[str, Any]
    many: bool  # Whether there are too many rows to sort them.
    seed: int
    calibrator: Calibrator | None

    def __call__(self, part: Part) -> bytes:
        sample: Any = Sketched() if self.many else Sample(MOST_SORTED, self.seed)
        collector = Collector(
            self.bins, self.keep_together, sample=sample, start=part.start, **self.options
        )
        found = PartialAudit(collector, part.place).add(self._chunks(part, collector))
        return LeftOut.of(part).before(found.to_bytes())

    def _chunks(self, part: Part, collector: Collector) -> Iterator[Any]:
        for chunk in self.reader.chunks(part):
            collector.skipped = LeftOut.of(part).rows  # They have numbers, too.
            yield chunk if self.calibrator is None else self.calibrator.transform(chunk)


def _join(results: Sequence[bytes]) -> bytes:
    """Merge the collected sums of some parts."""
    return LeftOut.joined(results, _merge)


def _merge(parts: Sequence[bytes]) -> bytes:
    merge: Callable[[PartialAudit, PartialAudit], PartialAudit] = PartialAudit.merge
    whole = PartialAudit.from_bytes(parts[0])
    for data in parts[1:]:
        whole = merge(whole, PartialAudit.from_bytes(data))
    return whole.to_bytes()
