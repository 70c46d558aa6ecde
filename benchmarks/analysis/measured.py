"""The results that checks of claims ask for, under the paper's names of data sets and indexes."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial

from pydantic import Field

from benchmarks.analysis.checks.registry import Lack, Missing, Where
from benchmarks.analysis.contrast import Term
from benchmarks.analysis.select import (
    average_recall,
    choose,
    failures,
    listed,
    measured_as,
    of_newest_code,
    require_alike,
)
from benchmarks.analysis.series import series
from benchmarks.analysis.stations import (
    TOLERANCE,
    Station,
    lowest_seed,
    recall_axis,
    speed_axis,
    station_at,
    with_settings,
)
from benchmarks.cards.algorithms import Algorithm
from benchmarks.cards.values import Value
from benchmarks.errors import UserError, unknown_name
from benchmarks.metrics.registry import parse_metric
from benchmarks.results.schema import label
from benchmarks.results.store import Result, Store
from benchmarks.yamlfile import Strict

FAMILIES = ("graph", "partition")


class Scale(Strict):
    """What stands for the paper's data sets and indexes at one scale."""

    title: str = ""
    datasets: dict[str, str | None] = Field(description="of the paper → of ours; null where nothing stands for it")
    indexes: dict[str, str] = Field(description="of the paper → algorithm")
    settings: dict[str, dict[str, dict[str, Value]]] = Field(
        {}, description="our data set → algorithm → build and search values, where several were measured"
    )
    run: str | None = Field(None, description="command that measures all of it")


class Measured:
    """Results of one folder at one scale; reads a data set once, when it is first asked for."""

    def __init__(
        self,
        store: Store,
        scale: Scale,
        algorithms: Mapping[str, Algorithm],
        *,
        tolerance: float = TOLERANCE,
        selection: Mapping[str, object] | None = None,
        warn: Callable[[str], None] = lambda line: None,
    ):
        self.store, self.scale, self.algorithms = store, scale, algorithms
        self.tolerance, self.selection, self.warn = tolerance, selection or {}, warn
        self.results = cache(self._results)

    def members(self, names: Sequence[str]) -> list[str]:
        """The indexes that are named, families replaced by those of their cards that belong to them."""
        found = []
        for name in names:
            if name in FAMILIES:
                found += [index for index in self.scale.indexes if self._family(index) == name]
            else:
                self.algorithm(name)
                found.append(name)
        return list(dict.fromkeys(found))

    def algorithm(self, index: str) -> str:
        """Our name of an index.

        Raises:
            UserError: the scale has none.
        """
        if index not in self.scale.indexes:
            known = [*self.scale.indexes, *FAMILIES]
            raise unknown_name("index", index, known, f"the scale has {listed(known)}")
        return self.scale.indexes[index]

    def _family(self, index: str) -> str | None:
        algorithm = self.algorithms.get(self.algorithm(index))
        return algorithm.offer.family if algorithm else None

    def dataset(self, where: Where) -> str:
        """Our name of the data set.

        Raises:
            Missing: nothing stands for it at this scale.
            UserError: the check names none, or one that the scale lacks.
        """
        if where.dataset is None:
            raise UserError(f"the check names no dataset; the scale has {listed(self.scale.datasets)}")
        if where.dataset not in self.scale.datasets:
            raise unknown_name(
                "data set", where.dataset, list(self.scale.datasets), f"known: {listed(self.scale.datasets)}"
            )
        name = self.scale.datasets[where.dataset]
        if name is None:
            raise Missing(Lack(f"nothing stands for {where.dataset} at this scale"))
        return name

    def _results(self, dataset: str) -> list[Result]:
        """Usable results of a data set: of the newest code, alike in all but K."""
        results = list(self.store.results(dataset, self.warn))
        if not results:
            return []
        results, old = of_newest_code(choose(results, **self.selection))
        if old:
            names = listed(sorted({result.identity.algorithm for result in old}))
            self.warn(f"{dataset}: {len(old)} points of {names} were measured with older code and are left out")
        wanted = set(self.scale.indexes.values())
        results = [result for result in results if result.identity.algorithm in wanted]
        for k in sorted({result.identity.k for result in results}):
            try:
                require_alike([result for result in results if result.identity.k == k], speed=False)
            except UserError as error:
                raise UserError(f"{dataset}: {str(error).removesuffix(', or show them together with --mix')}") from None
        for line in failures(results).values():
            self.warn(f"{dataset}: {line}")
        return [result for result in results if result.ok]

    def points(self, index: str, where: Where) -> list[Result]:
        """Operating points of an index with the settings that the scale and the place name.

        Raises:
            Missing: there are none.
        """
        dataset, algorithm, k = self.dataset(where), self.algorithm(index), where.k or 10
        own = [r for r in self.results(dataset) if r.identity.algorithm == algorithm and r.identity.k == k]
        pinned = self.scale.settings.get(dataset, {}).get(algorithm, {})
        own = with_settings(own, {**pinned, **(where.settings or {})})
        if not own:
            raise Missing(self.lack(index, where))
        return own

    def line(self, index: str, where: Where, low: float = 0.0, high: float = 1.0) -> list[Result]:
        """Points of an index by ascending recall, from `low` to `high`: of several lines the one that spans most of it.

        May be empty.
        """
        lines = self._lines(index, where)
        seed = lowest_seed(line[0] for line in lines)
        lines = [
            [point for point in line if low <= recall_axis(point) <= high]
            for line in lines
            if line[0].identity.seed == seed
        ]
        return max(lines, key=lambda line: (recall_axis(line[-1]) - recall_axis(line[0]) if line else -1, len(line)))

    def name(self, point: Result, params: Mapping[str, Value] | None = None) -> str:
        """Parameters of a point for people, or those given, without what the algorithm's card has as default."""
        identity = point.identity
        params = {**identity.build_params, **identity.search_params} if params is None else params
        algorithm = self.algorithms.get(identity.algorithm)
        offered = algorithm.offer.parameters if algorithm else {}
        hidden = [name for name, value in params.items() if name in offered and offered[name].default == value]
        return label(params, hidden)

    def _lines(self, index: str, where: Where) -> list[list[Result]]:
        own = series(self.points(index, where), self.algorithms)
        return [sorted(each.points, key=average_recall) for each in own]

    def station(self, index: str, where: Where) -> Station:
        """The index at the place.

        Raises:
            Missing: it was not measured there.
            UserError: the place names several points, or none can be meant.
        """
        if where.recall is not None:
            found = station_at(self._lines(index, where), where.recall, recall_axis, self.tolerance)
            if found is None:
                recalls = [recall_axis(point) for point in self.points(index, where)]
                raise Missing(self.lack(index, where, there=f"{min(recalls):.3f} to {max(recalls):.3f}"))
            return found
        if where.speed_of is not None:
            return self._at_speed(index, where)
        if where.ratio is not None:
            return Station((self._at_ratio(index, where),))
        points = self.points(index, where)
        if len(points) > 1:
            raise UserError(
                f"{index}: {len(points)} operating points have the settings {label(where.settings or {})}; name more "
                "settings, or a recall"
            )
        return Station((points[0],))

    def _at_ratio(self, index: str, where: Where) -> Result:
        ratio, best = where.ratio, None
        for point in self.points(index, where):
            values = {**point.identity.build_params, **point.identity.search_params}
            part, whole = values.get(ratio.part), values.get(ratio.whole)
            if not (isinstance(part, (int, float)) and isinstance(whole, (int, float)) and whole):
                continue
            share = part / whole
            if share <= ratio.at_most and (best is None or share > best[0]):
                best = share, point
        if best is None:
            raise Missing(self.lack(index, where, f"{ratio.part} / {ratio.whole} ≤ {ratio.at_most:g}"))
        return best[1]

    def _at_speed(self, index: str, where: Where) -> Station:
        speed_of, metric = where.speed_of, parse_metric(where.speed_of.metric)
        reference = Where(settings=speed_of.settings).over(where)
        self.require_one_machine([*self.points(index, reference), *self.points(index, where)])
        reached = station_at(
            self._lines(index, reference), speed_of.value, lambda point: metric.compute(point).value, self.tolerance
        )
        what = f"{speed_of.metric} = {speed_of.value:g}"
        if reached is None:
            raise Missing(self.lack(index, reference, what))
        weighted = zip(reached.points, reached.weights, strict=True)
        speed = sum(weight * speed_axis(point) for point, weight in weighted)
        found = station_at(self._lines(index, where), speed, speed_axis, self.tolerance)
        if found is None:
            raise Missing(self.lack(index, where, f"the speed at which {label(speed_of.settings)} has {what}"))
        return found

    def term(self, index: str, where: Where, times: float, stations: dict[str, str]) -> Term:
        """The metric of an index at a place, and in `stations` which points it comes from."""
        station = self.station(index, where)
        metric = parse_metric(where.metric or "recall")
        values = station.values(metric)
        if values is None:
            raise Missing(self.lack(index, where, f"{metric.name} (the results lack what it needs)"))
        name = f"{index} on {self.dataset(where)}"
        place = f" at recall {where.recall:g}" if where.recall is not None else ""
        place += f" with {label(where.settings)}" if where.settings else ""
        stations.setdefault(name + place, station.describe(partial(self.name, station.result)))
        k = station.result.identity.k
        what = f"{name}: {metric.name.split('@')[0]}@{k}{place}"
        return Term(what, values, station.error(metric.compute), station.result.identity.queries_sha256, times)

    def point_term(self, index: str, point: Result, metric: str, times: float) -> Term:
        """The metric of one operating point."""
        values = parse_metric(metric).per_query(point)
        if values is None:
            raise Missing(Lack(f"{metric} of {index} (the results lack what it needs)"))
        identity = point.identity
        name = f"{index} on {identity.dataset}: {metric}@{identity.k} with {self.name(point, identity.search_params)}"
        return Term(name, values, 0.0, identity.queries_sha256, times)

    def lack(self, index: str, where: Where, what: str | None = None, there: str | None = None) -> Lack:
        """What is missing of an index at a place, in words and for a command."""
        dataset, algorithm, k = self.dataset(where), self.algorithm(index), where.k or 10
        settings = where.settings or {}
        parts = [f"{index} ({algorithm}) on {dataset}"]
        parts += [f"with {label(settings)}"] if settings else []
        parts += [f"at recall@{k} = {where.recall:g}"] if where.recall is not None else [f"K = {k}"] if k != 10 else []
        parts += [f": {what}"] if what else []
        parts += [f"(there: {there})"] if there else []
        text, like = " ".join(parts).replace(" :", ":"), measured_as(self.results(dataset))
        ours = algorithm if algorithm in self.algorithms else None  # what was imported no run of ours measures
        return Lack(text, dataset, ours, k, where.recall, tuple(settings.items()), like)

    def require_one_machine(self, points: Sequence[Result]) -> None:
        """Raises Missing where the speeds of the points cannot be compared."""
        try:
            require_alike(points, speed=True)
        except UserError as error:
            raise Missing(Lack(f"speeds that can be compared ({str(error).split(';')[0]})")) from None
