"""What a person sees before and while it runs: the plan, and a live table."""

import time
from collections import Counter

from rich.console import Console
from rich.live import Live
from rich.markup import escape
from rich.table import Table

from benchmarks.cards.values import Value
from benchmarks.hardware import Placement
from benchmarks.plan import BuildJob, Plan
from benchmarks.results.schema import ResultRecord, label
from benchmarks.runner.execute import Observer
from benchmarks.seek import Seek


def untouched_parameters(plan: Plan) -> dict[str, set[str]]:
    """For each algorithm the parameters that no grid names, which stay at their default: not worth a word."""
    untouched = {}
    for algorithm, grids in plan.request.algorithms:
        named = {name for grid in grids for name in (*grid.build, *grid.search)}
        named |= {algorithm.offer.monotone for grid in grids if grid.target}
        untouched[algorithm.name] = set(algorithm.offer.parameters) - named
    return untouched


def print_plan(console: Console, plan: Plan, origins: dict[str, str], placement: Placement | None = None) -> None:
    """What will be measured, where, what is complete, what is skipped and why."""
    request, data = plan.request, plan.request.data
    size = f"{data.n:,} × {data.dimension}" if data.n and data.dimension else "size known when prepared"
    queries = f", {data.nq:,} queries" if data.nq else ""
    console.print(
        f"[bold]{escape(data.name)}[/]: {size} {data.dtype or ''}, {data.distance}{queries}; k = {request.k}, "
        f"mode {request.mode}, {request.threads} thread{'s' * (request.threads > 1)}, "
        f"{request.repeats} repeat{'s' * (request.repeats > 1)}",
        highlight=False,
        soft_wrap=True,
    )
    if placement:
        console.print(f"  {placement.describe()}", highlight=False, soft_wrap=True, markup=False)
        for note in placement.notes:
            console.print(f"  {note}", highlight=False, soft_wrap=True, markup=False, style="yellow")
    untouched = untouched_parameters(plan)
    complete = Counter(identity.algorithm for identity in plan.complete)
    for algorithm, _ in request.algorithms:
        jobs = [job for job in plan.jobs if job.algorithm.name == algorithm.name]
        seeks = [seek for seek in plan.seeks if seek.template.algorithm == algorithm.name]
        notes = f", {complete[algorithm.name]} complete already" if complete[algorithm.name] else ""
        notes += ", and those that the search leads to" if seeks and jobs else ""
        points = sum(len(job.points) for job in jobs)
        console.print(
            f"  {algorithm.name}: {points} operating point{'s' * (points != 1)} on {len(jobs)} "
            f"build{'s' * (len(jobs) != 1)}{notes} ({origins[algorithm.name]})",
            highlight=False,
        )
        hidden = untouched[algorithm.name]
        for job in jobs:
            seed = f" seed={job.seed}" if len(request.seeds) > 1 else ""
            searches = " ".join(escape(label(point.search_params, hidden)) for point in job.points)
            console.print(
                f"    {escape(label(job.build_params, hidden))}{seed}: {searches}",
                highlight=False,
                soft_wrap=True,
                style="dim",
            )
        for seek in seeks:
            build = escape(label(seek.template.build_params, hidden))
            seed = f" seed={seek.template.seed}" if len(request.seeds) > 1 else ""
            console.print(
                f"    {build}{seed}: sought: {escape(describe_seek(seek, hidden))}",
                highlight=False,
                soft_wrap=True,
                style="dim",
            )
    for skip in plan.skips:
        params = f" {escape(label(skip.params, untouched[skip.algorithm]))}" if skip.params else ""
        console.print(
            f"  skipped: {skip.algorithm}{params} {escape(skip.reason)}",
            highlight=False,
            soft_wrap=True,
            style="yellow",
        )


def describe_seek(seek: Seek, hidden: set[str]) -> str:
    """`efSearch from 10 to 390,000 for recall 0.9 ± 0.002`, with what else is set for the search."""
    others = {name: value for name, value in seek.template.search_params.items() if name not in hidden}
    fixed = "".join(f", {name}={value}" for name, value in others.items() if name != seek.parameter)
    wanted = " and ".join(target.describe() for target in seek.targets)
    return f"{seek.parameter} from {seek.span.low:,} to {seek.span.high:,}{fixed}, for {wanted}"


class LiveTable(Observer):
    """Done, running, left and time per algorithm; in a log, one line per point instead."""

    def __init__(self, console: Console, plan: Plan):
        self.console, self.start, self.left = console, time.monotonic(), plan.points
        self.total = plan.points
        self.untouched = untouched_parameters(plan)
        self.planned = Counter(point.algorithm for job in plan.jobs for point in job.points)
        self.done: Counter = Counter()
        self.failed: Counter = Counter()
        self.busy: Counter = Counter()
        self.now = ""
        self.current: str | None = None
        self.since = self.start
        self.live = Live(get_renderable=self._table, console=console, refresh_per_second=2, transient=True)

    def __enter__(self):
        if self.console.is_terminal and self.total:
            self.live.start()
        return self

    def __exit__(self, *exception):
        self.live.stop()

    def cleared(self, line: str) -> None:
        self._line(escape(line))

    def job_started(self, job: BuildJob) -> None:
        self.current, self.since = job.algorithm.name, time.monotonic()

    def environment_failed(self, job: BuildJob, reason: str) -> None:
        self._line(f"[red]{escape(reason)}[/]")

    def doing(self, job: BuildJob, what: str, params: dict[str, Value] | None = None) -> None:
        shown = "" if params is None else " " + label(params, self.untouched[job.algorithm.name])
        self.now = what + shown
        if not self.console.is_terminal and what.startswith("building"):
            self._line(f"{job.algorithm.name}: {escape(self.now)}")

    def point_ended(self, job: BuildJob, record: ResultRecord, found: str) -> None:
        name = job.algorithm.name
        self.left -= 1
        self.done[name] += 1
        now = time.monotonic()
        self.busy[name] += now - self.since
        self.since = now
        if record.status != "ok":
            self.failed[name] += 1
        identity = record.identity
        what = label({**identity.build_params, **identity.search_params}, self.untouched[name])
        if record.status != "ok":
            self._line(f"[red]{name} {escape(what)}: {record.status} ({escape(record.reason or '')})[/]")
        elif not self.console.is_terminal:
            done = self.total - self.left
            self._line(f"{name} {escape(what)}: {found} ({done} of {self.total}, {now - self.start:.0f} s so far)")

    def points_added(self, job: BuildJob, count: int) -> None:
        self.left += count
        self.total += count
        self.planned[job.algorithm.name] += count

    def _line(self, text: str) -> None:
        self.console.print(text, highlight=False, soft_wrap=True)

    def _table(self) -> Table:
        elapsed = time.monotonic() - self.start
        done = self.total - self.left
        estimate = f", about {_duration(elapsed / done * self.left)} left" if done else ""
        table = Table(title=f"{done} of {self.total} points, {_duration(elapsed)}{estimate}", title_justify="left")
        for heading in ("algorithm", "done", "left", "failed", "time", "now"):
            table.add_column(
                heading,
                justify="left" if heading in ("algorithm", "now") else "right",
                min_width=36 if heading == "now" else None,
            )
        for name, planned in self.planned.items():
            running = name == self.current and self.done[name] < planned
            busy = self.busy[name] + (time.monotonic() - self.since if running else 0)
            table.add_row(
                name,
                str(self.done[name]),
                str(planned - self.done[name]),
                str(self.failed[name] or ""),
                _duration(busy) if busy else "",
                escape(self.now) if running else "",
                style="bold" if running else "",
            )
        return table


def _duration(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
