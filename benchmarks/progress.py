"""Progress of long work: a bar with rate and time left in a terminal, a line now and then elsewhere."""

import sys
import time
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)
from rich.progress import Progress as Bars

LINE_EVERY_SECONDS = 15


class Task:
    """One piece of work; `advance` or `update` as it is done."""

    def __init__(self, report, done: int = 0):
        self._report, self.done, self.total = report, done, None

    def advance(self, amount: int) -> None:
        self.update(self.done + amount, self.total)

    def update(self, done: int, total: int | None = None) -> None:
        self.done, self.total = done, total if total is not None else self.total
        self._report(self)


class Progress:
    """Writes to standard error, so that standard output stays clean for pipes."""

    def __init__(self, console: Console | None = None):
        self.console = console or Console(stderr=True)

    @contextmanager
    def task(self, title: str, total: int | None, unit: str = "", done: int = 0):
        """Show `title` while the block runs; `total` in any unit, None if unknown; of "bytes" the rate is shown.

        `done` is what was there before: it counts for the share, not for the rate.
        """
        if self.console.is_terminal:
            columns = (
                SpinnerColumn(),
                TextColumn("{task.description}", markup=False),
                BarColumn(),
                TextColumn("{task.percentage:>3.0f}%"),
                *((DownloadColumn(), TransferSpeedColumn()) if unit == "bytes" else ()),
                TimeElapsedColumn(),
                TextColumn("left"),
                TimeRemainingColumn(),
            )
            with Bars(*columns, console=self.console, transient=True) as bars:
                bar = bars.add_task(title, total=total, completed=done)
                yield Task(lambda task: bars.update(bar, completed=task.done, total=task.total or total), done)
        else:
            start = last = time.monotonic()

            def report(task):
                nonlocal last
                now = time.monotonic()
                if now - last >= LINE_EVERY_SECONDS:
                    last = now
                    rate = (task.done - done) / (now - start)
                    print(
                        _line(title, task.done, task.total or total, unit, now - start, rate),
                        file=sys.stderr,
                        flush=True,
                    )

            print(title, file=sys.stderr, flush=True)
            yield Task(report, done)
        # What stays on the screen is what the caller prints.


def _line(title: str, done: int, total: int | None, unit: str, seconds: float, rate: float) -> str:
    """What is written now and then where there is no terminal."""
    parts = [f"{title}:"]
    if total:
        parts.append(f"{100 * done / total:.0f}%" + (f" of {total / 1e6:,.0f} MB" if unit == "bytes" else ""))
    elif unit == "bytes":
        parts.append(f"{done / 1e6:,.0f} MB")
    parts.append(f"after {seconds:.0f} s")
    if unit == "bytes":
        parts.append(f"at {rate / 1e6:.1f} MB/s")
    if total and rate > 0:
        parts.append(f"({max(0, total - done) / rate:.0f} s left)")
    return " ".join(parts)
