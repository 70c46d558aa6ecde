"""How operating points and their numbers look in the tables at the end of a run."""

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from benchmarks.analysis.numbers import number
from benchmarks.cli.common import WIDE
from benchmarks.metrics.registry import Measured
from benchmarks.metrics.table import DELTAS
from benchmarks.plan import Request
from benchmarks.results.schema import Identity, label

METRICS = {"recall": "recall", **{f"robustness-{delta}": f"R-{delta}" for delta in DELTAS}, "qps": "QPS"}
FEW = {"recall": "recall", **{f"robustness-{delta}": f"R-{delta}" for delta in ("0.1", "0.5", "0.9")}, "qps": "QPS"}
SINGLE = {"latency-p50": "p50 ms", "latency-p99": "p99 ms"}
MEDIUM = 150  # columns that take an interval beneath its value; with fewer its ends stand beneath each other


def headings(mode: str, few: bool = False) -> dict[str, str]:
    """Metrics by name, and what stands above them; a few of them where other columns need the room."""
    return (FEW if few else METRICS) | (SINGLE if mode == "single" else {})


def layout(console: Console) -> tuple[str, str]:
    """What stands between a value and its interval, and between the ends of that, in a terminal of this width."""
    return (" ", "–") if console.width >= WIDE else ("\n", "–") if console.width >= MEDIUM else ("\n", "\n")


def make_table(request: Request, *columns: str) -> Table:
    """An empty table of numbers; the first column names the point."""
    title = f"{escape(request.data.name)}, k = {request.k}, mode {request.mode}, threads {request.threads}"
    table = Table(title=f"{title}, n = {request.data.nq:,} queries", title_justify="left", box=box.SIMPLE_HEAD)
    table.add_column(columns[0], overflow="fold")
    for heading in columns[1:]:
        table.add_column(heading, justify="right", no_wrap=True)
    return table


def describe_point(identity: Identity, untouched: dict[str, set[str]], seeds: bool, between: str) -> str:
    """Algorithm, search parameters and build parameters of a point, without those that no grid names."""
    hidden = untouched[identity.algorithm]
    seed = {"seed": identity.seed} if seeds else {}
    build, search = (
        "" if text == "default" else escape(text)
        for text in (label({**identity.build_params, **seed}, hidden), label(identity.search_params, hidden))
    )
    return f"[bold]{identity.algorithm}[/] {search}{between}[dim]{build}[/]".rstrip()


def cell(measured: Measured | None, unit: str, between: str, dash: str) -> str:
    """A value with its interval."""
    if measured is None:
        return ""
    if measured.low is None:
        return number(measured.value, unit)
    interval = f"{number(measured.low, unit)}{dash}{number(measured.high, unit)}"
    return f"{number(measured.value, unit)}{between}[dim]{interval}[/]"
