"""Axes: scale, range, ticks and label, from a metric and what is drawn along it."""

import math
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator

from benchmarks.metrics.registry import Measured, Metric

SMALLEST_SPAN = 0.02  # of a share's axis, lest noise fill the panel


def set_axis(
    panel: Axes, axis: str, metric: Metric, values: Sequence[Measured], k: int | None, scale: str, n: int
) -> None:
    """Label, scale, range and ticks of one axis, from the metric and what is drawn.

    Args:
        panel: the axes.
        axis: "x" or "y".
        metric: what it shows.
        values: all that is drawn along it.
        k: for the label; None where several are mixed.
        scale: of shares, `linear` or `tail`.
        n: queries; the tail scale tells 1 from 1 - 1/n.
    """
    ends = [end for item in values for end in (item.value, item.low, item.high) if end is not None]
    low, high = min(ends), max(ends)
    worse = "" if metric.definition.better == "higher" else " (lower is better)"
    panel.set(**{f"{axis}label": metric.title(k) + worse})
    if metric.definition.unit == "1" and scale == "tail":
        set_tail_axis(panel, axis, low, high, n)
    elif metric.definition.unit == "1":
        set_share_axis(panel, axis, low, high)
    elif metric.definition.axis == "log" and low > 0:
        pad = max(1.08, (high / low) ** 0.05)
        panel.set(**{f"{axis}scale": "log", f"{axis}lim": (low / pad, high * pad)})
        set_ticks(panel, axis, log_ticks(low / pad, high * pad), short)
    else:
        pad = (high - low or abs(high) or 1) * 0.06
        panel.set(**{f"{axis}lim": (low - pad, high + pad)})


def set_share_axis(panel: Axes, axis: str, low: float, high: float) -> None:
    """Zoom to the data, never narrower than `SMALLEST_SPAN`; room for marks beyond 1, but no ticks there."""
    if high - low < SMALLEST_SPAN:
        low, high = max(0.0, high - SMALLEST_SPAN), max(high, SMALLEST_SPAN)
    pad = 0.05 * (high - low)
    bottom, top = max(low - pad, -0.03), min(high + pad, 1 + pad)
    panel.set(**{f"{axis}lim": (bottom, top)})
    ticks = [
        tick
        for tick in MaxNLocator(7, steps=[1, 2, 2.5, 5, 10]).tick_values(bottom, top)
        if max(bottom, 0) - 1e-9 <= tick <= min(top, 1) + 1e-9
    ]
    digits = next((few for few in range(1, 6) if np.allclose(ticks, np.round(ticks, few), 0, 1e-9)), 6)
    set_ticks(panel, axis, ticks, lambda value: f"{value:.{digits}f}")


def set_tail_axis(panel: Axes, axis: str, low: float, high: float, n: int) -> None:
    """Logarithmic in the distance to 1, with 1 itself half a query beyond the last step."""
    half = 0.5 / n

    def forward(share):
        return -np.log10(np.maximum(1 - np.asarray(share, dtype=float) + half, half / 2))

    def inverse(place):
        return 1 + half - 10.0 ** -np.asarray(place, dtype=float)

    bottom, top = float(forward(low)), float(forward(high))
    pad = max(0.05 * (top - bottom), 0.02)
    (panel.set_xscale if axis == "x" else panel.set_yscale)("function", functions=(forward, inverse))
    panel.set(**{f"{axis}lim": (float(inverse(bottom - pad)), float(inverse(top + pad)))})
    decades = [10.0**-power for power in range(0, 1 + math.ceil(math.log10(n)))]
    steps = (1,) if top - bottom > 2 else (1, 0.5, 0.2)
    ticks = [1.0] + [1 - decade * step for decade in decades for step in steps if decade * step >= 1 / n]
    ticks = [tick for tick in ticks if bottom - pad <= forward(tick) <= top + pad]
    set_ticks(panel, axis, sorted(ticks), lambda value: f"{value:.6g}")


def log_ticks(low: float, high: float) -> list[float]:
    """Round numbers between two positive ends: powers of ten, or more where these are few."""
    powers = [10.0**power for power in range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)]
    for steps in ((1,), (1, 3), (1, 2, 5)):
        ticks = [step * power for power in powers for step in steps if low <= step * power <= high]
        if len(ticks) >= 3:
            return ticks if len(ticks) <= 8 else ticks[:: math.ceil(len(ticks) / 8)]
    return [float(tick) for tick in MaxNLocator(5).tick_values(low, high) if low <= tick <= high and tick > 0]


def short(value: float) -> str:
    """`1500` as 1.5k, `2e6` as 2M."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:.4g}{unit}"
    return f"{value:.4g}"


def set_ticks(panel: Axes, axis: str, ticks: Sequence[float], text) -> None:
    """Ticks at these places alone, written by `text`."""
    along = panel.xaxis if axis == "x" else panel.yaxis
    along.set_major_locator(FixedLocator(list(ticks)))
    along.set_minor_locator(NullLocator())
    along.set_major_formatter(FuncFormatter(lambda value, _: text(value)))


def round_down(value: float) -> float:
    """To one significant digit, towards zero: 3790 is 3000."""
    if value <= 0:
        return 0.0
    size = 10.0 ** math.floor(math.log10(value))
    return math.floor(value / size + 1e-9) * size
