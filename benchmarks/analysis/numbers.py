"""Measured numbers as text, the same in every table."""

from benchmarks.metrics.registry import Measured


def number(value: float | None, unit: str = "1") -> str:
    """Shares to four places, all else to three digits and from 1,000 on as whole numbers; empty for None."""
    if value is None:
        return ""
    if unit == "1":
        return f"{value:.4f}"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def measured_text(measured: Measured | None, unit: str = "1") -> str:
    """`0.9510 [0.9350, 0.9630]`, without an interval where there is none; `-` for None."""
    if measured is None:
        return "-"
    value, low, high = (number(each, unit) for each in (measured.value, measured.low, measured.high))
    return f"{value} [{low}, {high}]" if low and high else value
