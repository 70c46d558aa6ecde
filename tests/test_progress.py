import io

import pytest
from rich.console import Console

from benchmarks import progress as module
from benchmarks.progress import Progress


@pytest.fixture
def clock(monkeypatch):
    """A clock that the test sets forward."""
    now = [0.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    return now


def test_without_a_terminal_a_line_now_and_then(capsys, clock):
    with Progress(Console(file=io.StringIO())).task("fetching a", 200_000_000, unit="bytes", done=100_000_000) as task:
        clock[0] = 10
        task.advance(20_000_000)
        clock[0] = 20
        task.advance(20_000_000)
        clock[0] = 21
        task.advance(20_000_000)
    assert capsys.readouterr().err.splitlines() == [
        "fetching a",
        "fetching a: 70% of 200 MB after 20 s at 2.0 MB/s (30 s left)",  # what was there before is not of this rate
    ]


def test_a_total_that_is_not_known(capsys, clock):
    with Progress(Console(file=io.StringIO())).task("fetching a", None, unit="bytes") as task:
        clock[0] = 20
        task.advance(40_000_000)
    assert capsys.readouterr().err.splitlines()[1] == "fetching a: 40 MB after 20 s at 2.0 MB/s"


def test_other_units(capsys, clock):
    with Progress(Console(file=io.StringIO())).task("checking", None) as task:
        clock[0] = 20
        task.update(0, 100)
        clock[0] = 40
        task.update(50, 100)
    assert capsys.readouterr().err.splitlines()[1:] == [
        "checking: 0% after 20 s",
        "checking: 50% after 40 s (40 s left)",
    ]


@pytest.mark.parametrize("unit", ["bytes", ""])
def test_in_a_terminal_a_bar(unit):
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=120)
    with Progress(console).task("fetching a", 100, unit=unit, done=50) as task:
        task.advance(25)
    assert "fetching a" in screen.getvalue() and "75%" in screen.getvalue()
    assert ("75/100 bytes" in screen.getvalue()) == (unit == "bytes")
