"""A metric: the type of its function, its row in the table, and the words for its numbers."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import (
    Any,
    Concatenate,
    Literal,
    ParamSpec,
    Protocol,
    TypeAlias,
    TypeVar,
    cast,
    overload,
)

from calibrant.arguments import takes_arrays
from calibrant.predictions import Predictions

__all__ = [
    "Kind",
    "Metric",
    "MetricFunction",
    "Spread",
    "metric_function",
    "percent",
    "percents",
    "plain_function",
    "points",
]

_Options = ParamSpec("_Options")
_State = TypeVar("_State", contravariant=True)


class MetricFunction(Protocol[_State, _Options]):
    """A function that returns a float for predictions; for a state with leading axes, an array."""

    __name__: str

    @overload
    def __call__(
        self, source: Predictions, /, *args: _Options.args, **options: _Options.kwargs
    ) -> float: ...
    @overload
    def __call__(
        self, source: _State, /, *args: _Options.args, **options: _Options.kwargs
    ) -> Any: ...


def metric_function(
    function: Callable[Concatenate[_State, _Options], Any],
) -> MetricFunction[_State, _Options]:
    """Declare what a metric returns, and let it take arrays (:func:`takes_arrays`)."""
    return cast("MetricFunction[_State, _Options]", takes_arrays(function))


Kind: TypeAlias = Literal["classes", "tags", "pixels", "binary", "labels"]
Spread: TypeAlias = Literal[
    "biased upwards", "proportion", "counted", "ranked", "kept", "positive", "maximum", "plain"
]


@dataclass(frozen=True)
class Metric:
    """A row of :data:`calibrant.metrics.METRICS`.

    ``source`` names the arguments of ``function``:

    ====================== =================================================================
    ``state``              the additive state of all examples, without tables per class
    ``classwise``          the same with these tables
    ``confidences``        every confidence, sorted
    ``scores``             the predictions themselves: an audit has it if they are few, and
                           records do not
    ``entity_counts``      right, predicted and gold entities
    ``token_counts``       right, predicted and gold tags other than O
    ``entities``           the state of predicted entities
    ``entity_confidences`` every confidence of an entity
    ``without_o``          the state of tokens whose gold or predicted tag is not O
    ``inside``, ``border`` the state of pixels away from and near borders
    ``image_errors``       the ECE of each image
    ``top``                the state of the most probable label of multi-label predictions
    ``positive``, with     the state and every score of the positive class of binary
    ``…_confidences``      predictions, and whether it is the true one
    ====================== =================================================================

    ``spread`` says how bootstrap replicates lie around the metric:

    - ``"biased upwards"``: a sum of absolute values, to which noise only adds.
    - ``"proportion"``: the spread shrinks towards 0 and 1. ``"counted"``: besides, the metric is 0
      or 1 if every group (of the share that ``coverage`` says) is all wrong or all right.
    - ``"ranked"``: a proportion that compares right examples with wrong ones, so it varies like a
      mean (or a sum) over as many as there are of the rarer kind.
    - ``"kept"``: the share of examples within a risk: of few kept ones, all can be right by luck.
    - ``"positive"``: skewed, like a logarithm. ``"plain"``: none of these.
    - ``"maximum"``: of small parts, of which no interval is good: an audit shows none.

    >>> from calibrant.metrics import METRICS
    >>> ece = METRICS["ece"]
    >>> ece.title, ece.paper
    ('ECE', 'Naeini et al. 2015')
    >>> print(ece.explain(0.05))
    Confidence misses accuracy by 5.0 points on average, bin by bin.
    """

    name: str
    title: str  # for people: "Maximum CE"
    short: str  # head of a column: "MCE"
    function: Callable[..., Any]
    source: tuple[str, ...]
    explain: Callable[[float], str]  # one plain sentence about a value
    kind: Kind = "classes"  # of the predictions that have it; all have classes
    better: Literal[1, -1, 0] = -1  # 1: more is better, −1: less is better, 0: neither
    digits: int = 4
    spread: Spread = "plain"
    most: float = 1.0  # the largest possible value; the smallest is 0
    quality: bool = False  # whether it measures the predictions rather than their confidence
    compared: bool = False  # whether 'calibrant compare' prints it
    audited: bool = True  # whether an audit shows it; records have it in any case
    weighted: bool = True  # whether sample weights have a meaning for it
    takes_bins: bool = False  # whether the function has an argument ``bins``
    like: tuple[Callable[..., Any], ...] = ()  # other functions with the same source and spread
    paper: str = "–"
    former: tuple[str, ...] = ()  # earlier names, which older files have

    def with_bins(self, bins: int) -> Callable[..., Any]:
        """Return the function with this number of bins, if it takes one."""
        return functools.partial(self.function, bins=bins) if self.takes_bins else self.function

    def applies(self, sources: Mapping[str, Any]) -> bool:
        """Whether its sources are there, without sample weights unless these mean something."""
        if not sources.keys() >= set(self.source):
            return False
        weighted = any(getattr(sources[name], "weighted", False) for name in self.source)
        return self.weighted or not weighted

    def computes(self, function: Callable[..., Any]) -> bool:
        """Whether this row is about ``function``, or about one with the same source and spread."""
        return function in (plain_function(self.function), *self.like)


def plain_function(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function of a partial."""
    return function.func if isinstance(function, functools.partial) else function


_FINEST = 6  # The most decimals of a percentage.
_ROUNDING = 1e-12


def percent(value: float, digits: int = 1) -> str:
    """Format a share, with more decimals where fewer would make nearly all of it all, or none.

    >>> percent(0.9125), percent(1.0), percent(0.99997), percent(0.0004)
    ('91.2 %', '100.0 %', '99.997 %', '0.04 %')
    """
    text = f"{100 * value:.{digits}f} %"
    if text.strip("-") not in (f"{0:.{digits}f} %", f"{100:.{digits}f} %"):
        return text
    if abs(value - round(value)) < _ROUNDING:
        return text
    if digits < _FINEST:
        return percent(value, digits + 1)
    return (
        f"< {10.0**-digits:.{digits}f} %"
        if value < 0.5
        else f"> {100 - 10.0**-digits:.{digits}f} %"
    )


def percents(*values: float) -> list[str]:
    """Format shares that are compared, all with the decimals that one of them needs.

    >>> percents(0.9993, 0.9995), percents(0.9, 0.8)
    (['99.93 %', '99.95 %'], ['90.0 %', '80.0 %'])
    """
    alone = (percent(value).removesuffix(" %").partition(".")[2] for value in values)
    digits = max(map(len, alone))
    return [percent(value, digits) for value in values]


def points(value: float) -> str:
    """Format a difference of two shares: 0.052 as '5.2 points', finer below one point.

    >>> points(0.052), points(0.0052), points(0.00001)
    ('5.2 points', '0.52 points', '0.001 points')
    """
    size = abs(100 * value)
    text = f"{size:.1f}" if size >= 0.95 else f"{size:.2f}"
    if float(text) == 0 and size > 10.0**-_FINEST:
        text = f"{size:.{-math.floor(math.log10(size))}f}"
    return f"{text} point" + ("" if text in ("1.0", "1.00") else "s")
