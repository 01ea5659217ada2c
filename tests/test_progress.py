"""The bar is tested with a clock and a terminal of our own."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable

import pytest

from calibrant.progress import Progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


Make = Callable[..., tuple[Progress, Clock, io.StringIO]]


@pytest.fixture
def make() -> Make:
    def build(
        total: int | None = 1000,
        width: int = 80,
        stream: io.StringIO | None = None,
        **options: bool,
    ) -> tuple[Progress, Clock, io.StringIO]:
        clock, stream = Clock(), Terminal() if stream is None else stream
        bar = Progress(total, "rows", stream=stream, clock=clock, width=lambda: width, **options)
        return bar, clock, stream

    return build


def shown(stream: io.StringIO) -> str:
    """What the terminal would show: the last line that was drawn."""
    return stream.getvalue().split("\r")[-1].rstrip()


def test_nothing_in_the_first_two_seconds(make: Make) -> None:
    bar, clock, stream = make()
    with bar:
        clock.now += 1.99
        bar.advance(999)
    assert stream.getvalue() == ""


def test_bar_rate_and_remaining_time(make: Make) -> None:
    bar, clock, stream = make()
    clock.now += 4
    bar.advance(250)
    assert shown(stream) == f"[{'#' * 7}{'-' * 23}]  25% 250 rows, 62.5/s, 12 s left"


def test_without_a_total_there_is_no_bar(make: Make) -> None:
    bar, clock, stream = make(total=None)
    clock.now += 4
    bar.advance(10_000)
    assert shown(stream) == "10.0k rows, 2.50k/s"


def test_it_is_wiped_out_at_the_end(make: Make) -> None:
    bar, clock, stream = make()
    with bar:
        clock.now += 4
        bar.advance(10)
        length = len(shown(stream))
    assert stream.getvalue().endswith("\r" + " " * length + "\r")


def test_it_is_wiped_out_when_the_work_fails(make: Make) -> None:
    bar, clock, stream = make()

    def fail() -> None:
        with bar:
            clock.now += 4
            bar.advance(10)
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert shown(stream) == ""


def test_a_shorter_line_leaves_nothing_of_a_longer_one(make: Make) -> None:
    bar, clock, stream = make(total=10_000)
    clock.now += 4000
    bar.advance(1)
    clock.now += 1
    bar.advance(9_999)
    *_, before, last = stream.getvalue().split("\r")
    assert len(before.rstrip()) > len(last.rstrip())
    assert len(last) >= len(before.rstrip())


@pytest.mark.parametrize("width", [0, 1, 5, 20, 40, 79])
def test_a_line_never_reaches_the_last_column(make: Make, width: int) -> None:
    bar, clock, stream = make(width=width)
    clock.now += 4
    bar.advance(250)
    assert all(len(line) < max(width, 1) for line in stream.getvalue().split("\r"))


def test_drawn_at_most_ten_times_a_second(make: Make) -> None:
    bar, clock, stream = make(total=10_000)
    clock.now += 2
    for _ in range(1000):
        clock.now += 0.001
        bar.advance()
    assert 9 <= stream.getvalue().count("\r") <= 11


def test_silent_where_there_is_no_terminal_unless_forced(make: Make) -> None:
    for force in (False, True):
        bar, clock, stream = make(stream=io.StringIO(), force=force)
        clock.now += 4
        bar.advance(10)
        assert bool(stream.getvalue()) is force


def test_more_than_the_total_stays_at_100_percent(make: Make) -> None:
    bar, clock, stream = make(total=10)
    clock.now += 4
    bar.advance(20)
    assert "100%" in shown(stream)
    assert "0 s left" in shown(stream)


def test_an_interpreter_without_standard_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    with Progress(3, "rows") as bar:
        bar.advance(3)
    assert bar.done == 3


def test_the_process_is_silent_when_its_standard_error_is_a_pipe(
    capfd: pytest.CaptureFixture[str],
) -> None:
    clock = Clock()
    with Progress(3, "rows", clock=clock) as bar:
        clock.now += 10
        bar.advance()
    assert capfd.readouterr() == ("", "")
