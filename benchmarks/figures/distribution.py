"""How recall is spread over queries, in the manner of the paper's Figure 1."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Patch

from benchmarks.analysis.equal import Matches, names_of
from benchmarks.analysis.select import describe, failures
from benchmarks.analysis.stations import Station
from benchmarks.figures.drawing import Drawing, all_rows, operating_columns
from benchmarks.figures.theme import ALERT, GREY, TEXT, Style, failure_handles, sheet, styles, themed
from benchmarks.metrics.registry import Measured
from benchmarks.results.store import Result
from benchmarks.statistics.intervals import wilson

TOGETHER = 3  # up to this many points stand side by side in one panel
FINE = 20  # up to this K every recall has its own bar
ROOM = 1.3  # times the height of a bar that has its value written on it
CUT = 0.84  # of the axis: where a bar that does not fit ends, with room for its value


@dataclass(frozen=True)
class Spread:
    """Share of queries per bin with its interval; the first bin is recall 0 and the last is recall 1, alone."""

    labels: list[str]
    shares: np.ndarray
    low: np.ndarray
    high: np.ndarray


def bins_of(hits: np.ndarray, denominator: int) -> tuple[list[str], np.ndarray]:
    """Queries per recall: each value if K is small, else tenths with recall 0 and recall 1 apart."""
    counts = np.bincount(hits, minlength=denominator + 1)
    if denominator <= FINE:
        return [f"{j / denominator:.3g}" for j in range(denominator + 1)], counts
    tenths = np.arange(1, denominator) * 10 // denominator  # integers: 0.3 is in [0.3, 0.4) and nowhere else
    inner = np.bincount(tenths, weights=counts[1:-1], minlength=10).astype(int)
    labels = ["0", *(f"{tenth / 10:g}–{(tenth + 1) / 10:g}" for tenth in range(10)), "1"]
    return labels, np.concatenate([counts[:1], inner, counts[-1:]])


def spread_of(point: Station) -> Spread:
    """The distribution of recall at an operating point, with Wilson intervals."""
    denominator = point.result.record.denominator
    labels = bins_of(point.result.hits, denominator)[0]

    def share(result: Result, place: int) -> Measured:
        counts = bins_of(result.hits, denominator)[1]
        n = int(counts.sum())
        return Measured(int(counts[place]) / n, *wilson(int(counts[place]), n), n)

    bins = [point.combine(lambda result, place=place: share(result, place)) for place in range(len(labels))]
    return Spread(labels, *(np.array([getattr(each, name) for each in bins]) for name in ("value", "low", "high")))


@themed
def draw_distribution(
    matches: Matches,
    results: Sequence[Result],
    *,
    mixed: str | None = None,
    look: dict[str, Style] | None = None,
) -> Drawing:
    """Share of queries at each recall, for one operating point of each algorithm.

    Args:
        matches: what is drawn, from `match`.
        results: all that were selected; the failed ones among them are named.
        mixed: note for a figure of unlike results.
        look: style of each algorithm; by those that are drawn if not given.
    """
    look = look or styles(result.identity.algorithm for result in results)
    points, names = matches.found, names_of(matches.found, results)
    spreads = [spread_of(point) for point in points]
    together = len(points) <= TOGETHER and len({len(spread.labels) for spread in spreads}) == 1
    columns = 1 if together else min(len(points), 2 if len(points) in (2, 4) else 3)
    binned = any(
        len(spread.labels) != point.result.record.denominator + 1 for spread, point in zip(spreads, points, strict=True)
    )
    top, cut = _range(spreads)
    count = 1 if together else len(points)
    figure, panels = sheet(
        f"{points[0].result.identity.dataset}: recall per query at average recall {matches.recall:g}",
        describe([point.result for point in points]),
        alert=mixed,
        rows=math.ceil(count / columns),
        columns=columns,
        used=count,
        panel=(9.6, 4.0) if together else (5.2, 3.0) if columns == 2 else (4.6, 3.0),
        legend=[
            Patch(label=name, **_bar_look(look[point.result.identity.algorithm], point.interpolated))
            for point, name in zip(points, names, strict=True)
        ],
        failed=failure_handles(failures(results), look),
        notes=[
            *matches.note(),
            "Red frame: queries that got none of their true neighbours. Whiskers: 95 % Wilson intervals."
            + (" A bar with a gap is cut off, its share written above." if cut < top else "")
            + (" A bin a–b holds a ≤ recall < b; 0 and 1 stand alone." if binned else ""),
        ],
    )
    ks = {point.result.identity.k for point in points}
    for place, (point, spread) in enumerate(zip(points, spreads, strict=True)):
        panel = panels[0 if together else place]
        width = 0.84 / len(points) if together else 0.8
        shift = (place - (len(points) - 1) / 2) * width if together else 0
        upright = together and len(points) > 1
        bars = _bar_look(look[point.result.identity.algorithm], point.interpolated)
        _draw_bars(panel, spread, bars, shift, width, cut, upright)
    for place, panel in enumerate(panels):
        labels = spreads[place].labels
        crowded = not together and len(labels[1]) > 4
        tilt = {"rotation": 45, "ha": "right", "rotation_mode": "anchor"} if crowded else {}
        panel.set_xticks(range(len(labels)), labels, **tilt)
        panel.set(
            xlim=(-0.6, len(labels) - 0.4),
            ylim=(0, top),
            xlabel=f"Recall@{next(iter(ks)) if len(ks) == 1 else 'K'} of a query",
            ylabel="" if place % columns else "Share of queries [%]",
        )
        panel.set_yticks([tick for tick in panel.get_yticks() if tick <= min(100, cut, top)])
        panel.grid(False, axis="x")
        panel.tick_params(axis="x", length=0)
    if not together:
        for panel, point in zip(panels, points, strict=True):
            kind = f" K={point.result.identity.k}" if len(ks) > 1 else ""
            panel.set_title(point.result.identity.algorithm + kind, fontsize=TEXT, loc="left")
    return Drawing(
        figure, all_rows([row for pair in zip(points, spreads, strict=True) for row in _rows(*pair)], results)
    )


def _rows(point: Station, spread: Spread) -> list[dict]:
    """The table's rows of one operating point, one for each bin."""
    columns = zip(spread.labels, spread.shares, spread.low, spread.high, strict=True)
    return [
        {**operating_columns(point), "bin": name, "share": share, "share_low": low, "share_high": high}
        for name, share, low, high in columns
    ]


def _bar_look(style: Style, interpolated: bool) -> dict:
    """Colour, paler where interpolated, and a hatch that tells bars apart in grey."""
    return style.bar() | ({"alpha": 0.55} if interpolated else {})


def _range(spreads: Sequence[Spread]) -> tuple[float, float]:
    """End of the vertical axis and where bars of recall 1 are cut, in per cent.

    They are cut where they would flatten the others; else the second is infinite.
    """
    highest = 100 * np.max([spread.high[[0, -1]] for spread in spreads], axis=0)
    inner = 100 * max(float(spread.high[1:-1].max(initial=0)) for spread in spreads)
    rest = max(inner, highest[0])
    if highest[1] > ROOM * rest:
        top = max(2.0, ROOM * rest)
        return top, CUT * top
    return max(1.08 * inner, ROOM * highest.max()), math.inf


def _draw_bars(panel: Axes, spread: Spread, look: dict, shift: float, width: float, cut: float, upright: bool) -> None:
    """Bars of one operating point; those beyond `cut` end there with a gap; both ends have their value."""
    places = np.arange(len(spread.shares)) + shift
    shares, low, high = 100 * spread.shares, 100 * spread.low, 100 * spread.high
    clipped = shares > cut
    panel.bar(places, np.minimum(shares, cut), width * 0.94, **look)
    shown = ~clipped & (spread.shares > 0)
    panel.errorbar(
        places[shown],
        shares[shown],
        yerr=np.array([shares - low, high - shares])[:, shown],
        fmt="none",
        ecolor=GREY,
        elinewidth=0.9,
    )
    panel.bar(
        places[:1],
        np.minimum(shares, cut)[:1],
        width * 0.94,
        facecolor="none",
        edgecolor=ALERT,
        linewidth=1.8,
        zorder=4,
    )
    for index in (0, len(shares) - 1):
        at = cut if clipped[index] else high[index] if spread.shares[index] else 0
        panel.annotate(
            _percent(shares[index]),
            (places[index], at),
            xytext=(0, 3),
            textcoords="offset points",
            ha="center",
            va="bottom",
            fontsize=9,
            rotation=90 if upright else 0,
            color=ALERT if index == 0 else "black",
        )
    for index in np.flatnonzero(clipped):  # a gap in the bar says that it goes on
        left, right = places[index] - width / 2, places[index] + width / 2
        panel.plot([left, right], [0.91 * cut, 0.94 * cut], color="white", linewidth=3, zorder=5, solid_capstyle="butt")


def _percent(value: float) -> str:
    return f"{value:.1f}%" if value == 0 or value >= 0.1 else f"{value:.2g}%"
