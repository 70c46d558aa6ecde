"""Progress of long work: a bar with rate and time left in a terminal, a line now and then elsewhere."""

import sys
import time
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, SpinnerColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as Bars

LINE_EVERY_SECONDS = 15


class Task:
    """One piece of work; `advance` or `update` as it is done."""

    def __init__(self, report):
        self._report, self.done, self.total = report, 0, None

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
    def task(self, title: str, total: int | None):
        """Show `title` while the block runs; `total` in any unit, None if unknown."""
        if self.console.is_terminal:
            columns = (
                SpinnerColumn(),
                TextColumn("{task.description}", markup=False),
                BarColumn(),
                TextColumn("{task.percentage:>3.0f}%"),
                TimeElapsedColumn(),
                TextColumn("left"),
                TimeRemainingColumn(),
            )
            with Bars(*columns, console=self.console, transient=True) as bars:
                bar = bars.add_task(title, total=total)
                yield Task(lambda task: bars.update(bar, completed=task.done, total=task.total or total))
        else:
            start = last = time.monotonic()

            def report(task):
                nonlocal last
                now = time.monotonic()
                if now - last >= LINE_EVERY_SECONDS:
                    last = now
                    of = task.total or total
                    share = f" {100 * task.done / of:.0f}%" if of else ""
                    print(f"{title}:{share} after {now - start:.0f} s", file=sys.stderr, flush=True)

            print(title, file=sys.stderr, flush=True)
            yield Task(report)
        # What stays on the screen is what the caller prints.
