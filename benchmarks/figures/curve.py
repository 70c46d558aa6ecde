"""Robustness against δ: the whole curve of one operating point of each algorithm."""

from collections.abc import Sequence
from fractions import Fraction

from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from benchmarks.analysis.select import FIELDS, average_recall, describe, failures, varying
from benchmarks.figures.theme import Style, failure_handles, sheet, styles, themed
from benchmarks.figures.tradeoff import set_share_axis
from benchmarks.metrics.quality import robustness_of
from benchmarks.metrics.registry import Measured
from benchmarks.results.store import Result

MARKERS = 10  # on a curve, about
UNEVEN = 0.01  # distance in recall, of points or from what was asked, that is worth a caution


def curve_of(result: Result) -> list[Measured]:
    """Robustness-(j/K)@K for j = 1 … K with Wilson intervals; their mean is the average recall."""
    steps = result.record.denominator
    return [robustness_of(result.hits, Fraction(j, steps), steps) for j in range(1, steps + 1)]


def point_labels(points: Sequence[Result]) -> list[str]:
    """`faiss-hnsw M=8,efSearch=14 (recall 0.913)` for each; with what is unlike where results are mixed."""
    fields = {name: field.of for name, field in FIELDS.items() if not field.speed_only}
    kinds = [{name: of(result) for name, of in fields.items()} for result in points]
    unlike = varying(kinds)
    labels = []
    for result, kind in zip(points, kinds, strict=True):
        extra = "".join(f", {name} {str(kind[name])[:8]}" for name in unlike)
        identity = result.identity
        name = f"{identity.algorithm} {identity.label() if identity.build_params or identity.search_params else ''}"
        labels.append(f"{name.strip()} (recall {float(average_recall(result)):.3f}{extra})")
    return labels


def recall_note(points: Sequence[Result], recall: float) -> list[str]:
    """Which points these are, and a caution where their recalls are not alike."""
    found = [float(average_recall(result)) for result in points]
    note = f"The operating point of each algorithm whose recall is nearest to {recall:g}"
    if max(*found, recall) - min(*found, recall) > UNEVEN and len(found) > 1:
        note += f". They span recall {min(found):.3f} to {max(found):.3f}, which is part of any difference"
    return [f"{note}."]


@themed
def draw_curve(
    points: Sequence[Result],
    results: Sequence[Result],
    *,
    recall: float = 0.9,
    mixed: str | None = None,
    look: dict[str, Style] | None = None,
) -> Figure:
    """Robustness for every δ of one operating point of each algorithm.

    Args:
        points: what is drawn, from `nearest`.
        results: all that were selected; the failed ones among them are named.
        recall: what the points were chosen by.
        mixed: note for a figure of unlike results.
        look: style of each algorithm; by those that are drawn if not given.
    """
    look = look or styles(result.identity.algorithm for result in results)
    variants, labels = _variants(points), point_labels(points)
    figure, (panel,) = sheet(
        f"{points[0].identity.dataset}: robustness curve near recall {recall:g}",
        describe(points),
        alert=mixed,
        rows=1,
        columns=1,
        panel=(8.4, 4.6),
        legend=[
            Line2D([], [], label=label, **look[result.identity.algorithm].line(variant))
            for result, variant, label in zip(points, variants, labels, strict=True)
        ],
        failed=failure_handles(failures(results), look),
        notes=[
            *recall_note(points, recall),
            "The mean of a curve over δ = 1/K, 2/K, …, 1, which is the area under its steps down to 0, is "
            "its average recall. Bands: 95 % Wilson intervals of each δ.",
        ],
    )
    ends = []
    for result, variant, label in zip(points, variants, labels, strict=True):
        curve = curve_of(result)
        denominator = len(curve)
        deltas = [j / denominator for j in range(denominator + 1)]
        steps = [curve[0], *curve]
        values, low, high = ([getattr(item, name) for item in steps] for name in ("value", "low", "high"))
        style = look[result.identity.algorithm].line(variant)
        panel.fill_between(deltas, low, high, step="pre", color=style["color"], alpha=0.14, linewidth=0)
        every = max(1, denominator // MARKERS)
        panel.step(deltas, values, where="pre", markevery=(every, every), label=label, clip_on=False, zorder=3, **style)
        ends += low + high
    set_share_axis(panel, "y", min(ends), max(ends))
    panel.set(xlim=(0, 1.01), xticks=[tick / 10 for tick in range(11)], xlabel="δ")
    ks = {result.identity.k for result in points}
    panel.set_ylabel(f"Robustness-δ@{ks.pop() if len(ks) == 1 else 'K'}: share of queries with recall ≥ δ")
    return figure


def _variants(points: Sequence[Result]) -> list[int]:
    """Number of each point among those of its algorithm; above 0 only where unlike results are mixed."""
    seen: dict[str, int] = {}
    numbers = []
    for result in points:
        name = result.identity.algorithm
        numbers.append(seen.get(name, 0))
        seen[name] = numbers[-1] + 1
    return numbers
