"""The figures of the paper (arXiv 2507.00379) as values: what each shows, for any data set, index, K and δ.

A figure is a `kind`, which is a way of drawing, and what that is given. A new one is an entry in `FIGURES`.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from benchmarks.analysis.select import listed, measured_as, varying
from benchmarks.errors import UserError
from benchmarks.figures.axes import round_down
from benchmarks.figures.panels import Floor, Panel
from benchmarks.metrics.registry import Metric, parse_metric
from benchmarks.results.store import Result

Kind = Literal["tradeoff", "curve", "distribution", "deviation", "delta"]
DELTAS = ("0.1", "0.3", "0.5", "0.7", "0.9")  # of the paper's experiments (§5.1)
ANSWERS = "extractive-normalised"  # what `python -m benchmarks rag` writes if not told otherwise
AUTOMATIC = (1 / 3, 2 / 3)  # quantiles of a measured speed that thresholds are set to where none are given


@dataclass(frozen=True)
class PanelSpec:
    """A panel by the names of its metrics; one that names {delta} is there once for each δ.

    `floor` is a metric that a point must reach: all of `levels`, or where these are empty, some of what was measured.
    """

    x: str
    y: str
    floor: str | None = None
    levels: tuple[float, ...] = ()
    rest: bool = False
    together: bool = False  # the δ share one panel


@dataclass(frozen=True)
class Preset:
    """A figure before it meets results.

    Args:
        shows: what it shows, for its head and for --help.
        kind: how it is drawn.
        panels: of a trade-off.
        metrics: of a comparison.
        deltas: where a name has {delta}.
        ks: which K to show if none is named, of curves a panel each; empty for the one that there is.
        dataset: the paper's, which is taken if it was measured and none is named.
        algorithms: which to show if none are named: the first group that was measured whole; empty for all.
        at_least: how many algorithms it compares.
        recall: where it compares at equal average recall.
        vary: a parameter of which it must have several values: one of these names.
        sweep: it is of the parameters of an index.
        answers: it is of what an application answered.
        measure: options of run.py that measure what it needs.
    """

    shows: str
    kind: Kind
    panels: tuple[PanelSpec, ...] = ()
    metrics: tuple[str, ...] = ()
    deltas: tuple[str, ...] = ()
    ks: tuple[int, ...] = (10,)  # of the paper
    dataset: str | None = None
    algorithms: tuple[tuple[str, ...], ...] = ()
    at_least: int = 1
    recall: float = 0.9
    vary: tuple[str, ...] = ()
    sweep: bool = False
    answers: bool = False
    measure: str = ""


AGAINST_RECALL = (PanelSpec("recall", "robustness-{delta}", floor="recall", levels=(0.7,)),)
PLAIN = Preset("", "tradeoff", panels=(PanelSpec("recall", "robustness-{delta}"),), deltas=("0.1", "0.5", "0.9"), ks=())
CURVE = Preset("robustness against δ", "curve", ks=())
DISTRIBUTION = Preset("recall per query", "distribution", ks=())

FIGURES: Mapping[str, Preset] = {
    "1": Preset(
        "how recall is spread over the queries, two indexes at equal average recall",
        "distribution",
        algorithms=(("scann", "diskann"), ("faiss-ivfflat", "faiss-hnsw")),
        at_least=2,
        measure="--algorithm faiss-ivfflat --algorithm faiss-hnsw",
    ),
    "3": Preset(
        "metrics compared: deviation from the mean of the indexes, at equal average recall",
        "deviation",
        metrics=("map", "ndcg", "mrr", "robustness-{delta}"),
        deltas=("0.1", "0.9"),
        dataset="text2image-10M",
        at_least=2,
    ),
    "6": Preset("robustness against recall", "tradeoff", AGAINST_RECALL, deltas=DELTAS, dataset="text2image-10M"),
    "7": Preset("robustness against recall", "tradeoff", AGAINST_RECALL, deltas=DELTAS, dataset="msspacev-10M"),
    "8": Preset("robustness against recall", "tradeoff", AGAINST_RECALL, deltas=DELTAS, dataset="deep-10M"),
    "9": Preset(
        "robustness against δ for K = 10 and 100, at equal average recall",
        "curve",
        ks=(10, 100),
        dataset="text2image-10M",
    ),
    "10": Preset(
        "the three-way trade-off of throughput, recall and robustness",
        "tradeoff",
        (PanelSpec("recall", "qps"), PanelSpec("robustness-{delta}", "qps")),
        deltas=DELTAS,
        dataset="text2image-10M",
    ),
    "11": Preset(
        "one metric held above a threshold, the trade-off of the other two",
        "tradeoff",
        (
            PanelSpec("robustness-{delta}", "qps", floor="recall", levels=(0.85, 0.9)),
            PanelSpec("recall", "qps", floor="robustness-{delta}", levels=(0.95, 0.99)),
            PanelSpec("recall", "robustness-{delta}", floor="qps"),
        ),
        deltas=("0.3",),
        dataset="text2image-10M",
    ),
    "12": Preset(
        "accuracy of an application against recall and against robustness",
        "tradeoff",
        (PanelSpec("recall", f"accuracy-{ANSWERS}"), PanelSpec("robustness-{delta}", f"accuracy-{ANSWERS}")),
        deltas=("0.2",),
        ks=(),
        dataset="msmarco-passages",
        answers=True,
    ),
    "13": Preset(
        "HNSW by M and efSearch: robustness against throughput",
        "tradeoff",
        (PanelSpec("qps", "robustness-{delta}", floor="recall", levels=(0.9,), rest=True),),
        deltas=("0.3",),
        dataset="text2image-10M",
        algorithms=(("faiss-hnsw",), ("hnswlib",)),
        vary=("M",),
        sweep=True,
        measure="--algorithm faiss-hnsw --set faiss-hnsw.M=16,32,64,128 "
        "--set faiss-hnsw.efSearch=128,256,512,1024,2048,4096",
    ),
    "14": Preset(
        "IVFFlat by n_probe: robustness against throughput",
        "tradeoff",
        (PanelSpec("qps", "robustness-{delta}", floor="recall", levels=(0.9,), together=True),),
        deltas=("0.3", "0.9"),
        dataset="text2image-10M",
        algorithms=(("faiss-ivfflat",),),
        vary=("n_probe", "nprobe"),
        sweep=True,
        measure="--algorithm faiss-ivfflat --set faiss-ivfflat.n_probe=64,128,256,512,1024",
    ),
    "delta": Preset(
        "which δ an application asks for: accuracy by the recall of the query (§5.3)", "delta", ks=(), answers=True
    ),
}


def find_figure(name: str) -> Preset:
    """The figure of that number or name.

    Raises:
        UserError: there is none; says which there are.
    """
    if name not in FIGURES:
        raise UserError(f"there is no figure '{name}' to draw from results; known: {', '.join(FIGURES)}")
    return FIGURES[name]


def panels_of(
    preset: Preset, deltas: Sequence[str] = (), floors: Mapping[str, tuple[float, ...]] | None = None
) -> list[Panel]:
    """The panels of a trade-off.

    Args:
        preset: the figure.
        deltas: instead of the figure's.
        floors: thresholds by name of a metric: for the panels that have that metric's thresholds, and
            for those that have none.

    Raises:
        UserError: a metric is not known, or a threshold is for no panel, or is no value that its metric can have.
    """
    given = {}
    for name, levels in (floors or {}).items():
        metric = parse_metric(name)
        _require_possible(metric, levels)
        levels = tuple(sorted(levels, reverse=metric.definition.better == "lower"))
        given[metric.name] = Floor(metric, levels, asked=True)
    panels = [panel for spec in preset.panels for panel in _expand(spec, tuple(deltas or preset.deltas))]
    own = {panel.floor.metric.name for panel in panels if panel.floor}
    added = [floor for name, floor in given.items() if name not in own]
    if added and (len(added) > 1 or all(panel.floor for panel in panels)):
        takes = f"it has those of {listed(sorted(own))}" if own else "its panels take one metric's"
        raise UserError(f"this figure takes no threshold of '{added[-1].metric.name}' with --at-least; {takes}")
    done = []
    for panel in panels:
        floor = panel.floor
        if floor and floor.metric.name in given:
            floor = replace(floor, levels=given[floor.metric.name].levels, asked=True)
        done.append(replace(panel, floor=floor or (added[0] if added else None)))
    return done


def _require_possible(metric: Metric, levels: Sequence[float]) -> None:
    """Raises UserError where the metric never has such a value: shares end at 1, and none is negative."""
    share = metric.definition.unit == "1"
    wrong = [level for level in levels if level < 0 or (share and level > 1)]
    if wrong:
        known = "is from 0 to 1" if share else "is never negative"
        raise UserError(f"--at-least {metric.name}={wrong[0]:g}: there is no such value, {metric.name} {known}")


def _expand(spec: PanelSpec, deltas: Sequence[str]) -> list[Panel]:
    """One panel, or one for each δ."""

    def panel(ys: Sequence[str], delta: str) -> Panel:
        floor = Floor(parse_metric(spec.floor.format(delta=delta)), spec.levels, spec.rest) if spec.floor else None
        return Panel(parse_metric(spec.x.format(delta=delta)), tuple(map(parse_metric, ys)), floor)

    if spec.together:
        return [panel(_with_deltas(spec.y, deltas), deltas[0])]
    named = any("{delta}" in name for name in (spec.x, spec.y, spec.floor or ""))
    return [panel([spec.y.format(delta=delta)], delta) for delta in (deltas if named else [""])]


def _with_deltas(template: str, deltas: Sequence[str]) -> list[str]:
    """The name once for each δ if it has {delta}, else once."""
    return [template.format(delta=delta) for delta in deltas] if "{delta}" in template else [template]


def of_answers(preset: Preset, answers: str) -> Preset:
    """The figure of another file of answers."""
    panels = (replace(spec, y=spec.y.replace(ANSWERS, answers)) for spec in preset.panels)
    return replace(preset, panels=tuple(panels))


def with_levels(panels: Sequence[Panel], results: Sequence[Result]) -> list[Panel]:
    """Panels whose floor has no levels get a lower and an upper one from what was measured, rounded down."""
    done = []
    for panel in panels:
        if panel.floor and not panel.floor.levels:
            metric = panel.floor.metric
            values = sorted(value.value for each in results if (value := metric.compute(each)))
            levels = sorted({round_down(values[int(share * len(values))]) for share in AUTOMATIC}) if values else [0.0]
            panel = replace(panel, floor=replace(panel.floor, levels=tuple(levels)))
        done.append(panel)
    return done


def metrics_of_comparison(preset: Preset, deltas: Sequence[str] = ()) -> list[Metric]:
    """The metrics of a comparison, in order."""
    names = [name for template in preset.metrics for name in _with_deltas(template, deltas or preset.deltas)]
    return [parse_metric(name) for name in names]


def algorithms_of(preset: Preset, present: Collection[str], advice: str) -> tuple[str, ...]:
    """Which algorithms the figure shows where none are named; empty for all.

    Raises:
        UserError: none of its groups was measured whole.
    """
    for group in preset.algorithms:
        if set(group) <= set(present):
            return group
    if not preset.algorithms:
        return ()
    groups = ", or ".join(listed(group) for group in preset.algorithms)
    raise UserError(
        f"this figure shows {groups}; measured: {', '.join(sorted(present))}; name others with --algorithm, or {advice}"
    )


def require_ks(ks: Sequence[int], results: Sequence[Result], dataset: str) -> None:
    """Raises UserError where a K that is to be shown was not measured; says what to run."""
    present = {result.identity.k for result in results if result.ok}
    missing = [k for k in ks if k not in present]
    if missing:
        how = "".join(f" --algorithm {name}" for name in sorted({each.identity.algorithm for each in results}))
        how += measured_as(results)
        raise UserError(
            f"this figure shows K = {listed(ks)} and K = {listed(missing)} was not measured; run: "
            + " and ".join(f"python run.py --dataset {dataset} --k {k}{how}" for k in missing)
            + (f"; or choose with --k, measured: {listed(sorted(present))}" if present else "")
        )


def require_variety(preset: Preset, results: Sequence[Result], advice: str) -> None:
    """Raises UserError where the parameter that the figure is about has one value only; says what to run."""
    params = [{**each.identity.build_params, **each.identity.search_params} for each in results if each.ok]
    if preset.vary and params and not set(preset.vary) & set(varying(params)):
        name = next((name for name in preset.vary if name in params[0]), preset.vary[0])
        values = sorted({str(each.get(name, "none")) for each in params})
        raise UserError(f"this figure compares values of {name}, and there is one: {listed(values)}; {advice}")
