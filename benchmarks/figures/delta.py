"""Which δ an application asks for: accuracy by the recall of the query, and the metrics that foretell accuracy."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from benchmarks.analysis.select import describe, failures
from benchmarks.figures.drawing import Drawing, all_rows
from benchmarks.figures.theme import GREY, PALETTE, SMALL, TEXT, failure_handles, sheet, styles, themed
from benchmarks.rag.delta import FEWEST_POINTS, KEPT, MOST_EVEN, Analysis, ChangePoint, Predictor
from benchmarks.results.store import Result

BLUE, RED, GREEN = PALETTE[0], PALETTE[1], PALETTE[2]
MOST_NUMBERS = 12  # levels whose n is written beneath them


@themed
def draw_delta(found: Analysis, results: Sequence[Result], *, mixed: str | None = None) -> Drawing:
    """Relative accuracy of each recall level with its interval and n, and rank correlations for each δ.

    Args:
        found: of `analyse_points`.
        results: all that were selected; the failed ones among them are named.
        mixed: note for a figure of unlike results.
    """
    change = found.change
    figure, axes = sheet(
        f"{results[0].identity.dataset}: which δ the application asks for",
        f"{found.points} operating points · {describe(results)}",
        alert=mixed,
        rows=1,
        columns=2,
        panel=(5.8, 4.2),
        legend=[
            Line2D([], [], color=BLUE, marker="o", label="accuracy of queries of this recall / with exact neighbours"),
            *([Patch(color=RED, alpha=0.2, label=_change_text(change))] if change else []),
            Line2D([], [], color=GREEN, marker="s", label="robustness-δ"),
            Patch(facecolor=GREY, alpha=0.25, label="average recall"),
        ],
        failed=failure_handles(failures(results), styles(result.identity.algorithm for result in results)),
        notes=[
            "Bars and bands: 95 % intervals, of queries drawn anew with all their points. Numbers: pairs of a query "
            "and an operating point. Those of (b) lie low, since what is drawn anew is noisier than what was measured.",
            *_verdict(found),
        ],
    )
    for axis, letter in zip(axes, "ab", strict=True):
        axis.set_title(f"({letter})", loc="left", fontsize=TEXT)
    _draw_levels(axes[0], found)
    _draw_predictors(axes[1], found.predictors)
    return Drawing(figure, all_rows(_rows(found), results))


def _change_text(change: ChangePoint) -> str:
    kind = "δ" if change.clear else "break, not clear:"
    return f"{kind} {change.delta:g} [{change.low:g}, {change.high:g}]"


def _verdict(found: Analysis) -> list[str]:
    """What the figure does not let one conclude."""
    change, notes = found.change, []
    if change is None or not change.clear:
        notes.append("No clear break of accuracy is found at this n.")
        if change and change.even > MOST_EVEN:
            notes[0] = "There is no break: a straight line fits as well as a step."
    if found.kept_from is not None:
        notes.append(
            f"Queries keep {KEPT:g} of their accuracy with exact neighbours from recall {found.kept_from:g} on."
        )
    if found.predictors and not found.can_rank:
        notes.append(f"With {found.points} points, fewer than {FEWEST_POINTS}, an order may be chance.")
    return notes


def _draw_levels(axis: Axes, found: Analysis) -> None:
    """Relative accuracy against recall, with the change point and the step that it stands for."""
    levels = [level for level in found.levels if level.relative is not None]
    recalls, values = [level.recall for level in levels], [level.relative for level in levels]
    change = found.change
    if change:
        half = 0.5 * min(0.1, 1 / found.k)  # δ is reached from the level on; the break lies before it
        axis.axvspan(change.low - half, change.high - half, color=RED, alpha=0.12, linewidth=0)
        axis.axvline(change.delta - half, color=RED, linewidth=1.4)
        heights = [change.below, change.below, change.above, change.above]
        ends = [-0.03, change.delta - half, change.delta - half, 1.03]
        axis.plot(ends, heights, color=RED, linewidth=1, linestyle=(0, (1.5, 1.5)), zorder=1)
    known = [level for level in levels if level.low is not None]
    axis.errorbar(
        [level.recall for level in known],
        [level.relative for level in known],
        yerr=[
            [max(0.0, level.relative - level.low) for level in known],
            [max(0.0, level.high - level.relative) for level in known],
        ],
        fmt="none",
        ecolor=BLUE,
        elinewidth=1.1,
        capsize=2.5,
    )
    axis.plot(recalls, values, color=BLUE, marker="o", zorder=3)
    top = max([1.0, *(level.high for level in known)]) * 1.04
    axis.set(xlim=(-0.04, 1.04), ylim=(-0.1, top), xticks=[tick / 10 for tick in range(11)])
    axis.set(xlabel=f"Recall@{found.k} of the query", ylabel="Relative accuracy")
    if len(levels) <= MOST_NUMBERS:
        for level in levels:
            axis.annotate(
                _short(level.pairs),
                (level.recall, 0),
                xycoords=("data", "axes fraction"),
                xytext=(0, 3),
                textcoords="offset points",
                ha="center",
                va="bottom",
                fontsize=SMALL - 1.5,
                color=GREY,
            )


def _short(count: int) -> str:
    return f"{count:,}" if count < 10_000 else f"{count / 1000:.0f}k"


def _draw_predictors(axis: Axes, predictors: Sequence[Predictor]) -> None:
    """Rank correlation of each robustness with accuracy, beside that of average recall."""
    axis.set(xlabel="δ", ylabel="Rank correlation with accuracy (Spearman)", xlim=(-0.02, 1.04))
    axis.set_xticks([tick / 10 for tick in range(11)])
    known = [item for item in predictors if item.delta is not None and item.correlation is not None]
    if not known:
        axis.set(yticks=[])
        reason = "too few points," if not predictors else "all points are"
        axis.text(0.5, 0.5, f"{reason}\nor all equally right", ha="center", color=GREY, transform=axis.transAxes)
        return
    recall = predictors[0]
    if recall.low is not None:
        axis.axhspan(recall.low, recall.high, color=GREY, alpha=0.15, linewidth=0)
    if recall.correlation is not None:
        axis.axhline(recall.correlation, color=GREY, linewidth=1.3, linestyle=(0, (4, 2)))
    deltas, values = [item.delta for item in known], [item.correlation for item in known]
    barred = [item for item in known if item.low is not None]
    axis.vlines(
        [item.delta for item in barred],
        [item.low for item in barred],
        [item.high for item in barred],
        color=GREEN,
        linewidth=1.1,
    )
    axis.plot(deltas, values, color=GREEN, marker="s", markersize=6 if len(known) <= 20 else 3, zorder=3)


def _rows(found: Analysis) -> list[dict]:
    """The table's rows of both panels, then the change point."""
    rows = [
        {
            "panel": "a",
            "recall": level.recall,
            "relative_accuracy": level.relative,
            "relative_accuracy_low": level.low,
            "relative_accuracy_high": level.high,
            "accuracy": level.accuracy,
            "exact_accuracy": level.exact_accuracy,
            "pairs": level.pairs,
            "queries": level.queries,
        }
        for level in found.levels
    ]
    rows += [
        {
            "panel": "b",
            "metric": item.name,
            "delta": item.delta,
            "correlation": item.correlation,
            "correlation_low": item.low,
            "correlation_high": item.high,
            "gain_over_recall": item.gain,
            "gain_over_recall_low": item.gain_low,
            "gain_over_recall_high": item.gain_high,
        }
        for item in found.predictors
    ]
    if change := found.change:
        rows.append(
            {"panel": "a", "metric": "change point", "delta": change.delta, "delta_low": change.low}
            | {
                "delta_high": change.high,
                "below": change.below,
                "above": change.above,
                "clear": change.clear,
                "even": change.even,
            }
        )
    return rows
