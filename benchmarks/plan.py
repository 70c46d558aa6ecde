"""The plan: a pure value made of cards, sweep and what is known of the data; execution only consumes it."""

import hashlib
import itertools
import json
import re
from collections.abc import Iterable, Sequence
from fractions import Fraction

from benchmarks.analysis.target import find_span
from benchmarks.cards.algorithms import Algorithm, Grid
from benchmarks.cards.values import Value
from benchmarks.constraints import holds
from benchmarks.results.schema import Identity
from benchmarks.seek import Seek
from benchmarks.sweeps import Mode
from benchmarks.yamlfile import Strict

UNKNOWN_ROWS = 10**9  # of a base that is not here yet; no parameter is sought beyond the rows of the base


class DataFacts(Strict):
    """What the plan needs to know of a data set; hashes are empty and numbers None before it is prepared."""

    name: str
    distance: str
    dtype: str | None = None
    n: int | None = None
    nq: int | None = None
    dimension: int | None = None
    base_sha256: str = ""
    queries_sha256: str = ""


class Request(Strict):
    """What the user wants measured."""

    data: DataFacts
    k: int
    mode: Mode
    repeats: int
    threads: int
    seeds: list[int]
    algorithms: list[tuple[Algorithm, list[Grid]]]
    unavailable: dict[str, str] = {}  # algorithm → what the user has not brought


class BuildJob(Strict):
    """One index to build, and the points to search it at."""

    algorithm: Algorithm
    build_params: dict[str, Value]
    seed: int
    points: list[Identity]

    def hash(self) -> str:
        """Names the built index: data, distance, algorithm, its code, build parameters, seed, threads."""
        identity = self.points[0].model_dump(exclude={"dataset", "queries_sha256", "search_params", "k", "mode"})
        content = json.dumps([identity, self.algorithm.code_hash()], sort_keys=True)
        return hashlib.sha256(content.encode()).hexdigest()[:16]


class Skip(Strict):
    """Something that will not be measured, and why."""

    algorithm: str
    params: dict[str, Value]
    reason: str


class Plan(Strict):
    """Everything that a run will do, in order."""

    request: Request
    jobs: list[BuildJob]
    skips: list[Skip]
    complete: list[Identity]
    seeks: list[Seek] = []  # searches for target recalls; the jobs hold the points that they begin with

    @property
    def points(self) -> int:
        return sum(len(job.points) for job in self.jobs)


def make_plan(
    request: Request, complete: frozenset[str] = frozenset(), known: Sequence[tuple[Identity, Fraction]] = ()
) -> Plan:
    """Expand grids into build jobs.

    Args:
        request: what is wanted.
        complete: hashes of the points that need not be measured again.
        known: average recall of complete points, for the searches for a target recall.

    Returns:
        the plan; combinations that break a constraint, and algorithms that cannot do this data set, are skips.
    """
    jobs, skips, done, seeks = [], [], [], []
    for algorithm, grids in request.algorithms:
        reason = request.unavailable.get(algorithm.name) or _unfit(algorithm, request.data)
        if reason:
            skips.append(Skip(algorithm=algorithm.name, params={}, reason=reason))
            continue
        if algorithm.offer.monotone is None and any(grid.target for grid in grids):
            reason = "has no parameter that searches more as it grows, so that no target recall can be sought"
            skips.append(Skip(algorithm=algorithm.name, params={}, reason=reason))
            grids = [grid for grid in grids if not grid.target]
        builds: dict[str, tuple[dict, dict[str, dict], list[Grid]]] = {}
        for grid in grids:
            for build in _combinations(algorithm, "build", grid.build):
                _, searches, sought = builds.setdefault(json.dumps(build), (build, {}, []))
                if grid.target:
                    sought.append(grid)
                    continue
                for item in _combinations(algorithm, "search", grid.search):
                    searches.setdefault(json.dumps(item), item)
        for build, searches, sought in builds.values():
            allowed = []
            for search in searches.values():
                broken = _broken(algorithm, {**build, **search}, request)
                if broken:
                    skips.append(Skip(algorithm=algorithm.name, params={**build, **search}, reason=broken))
                else:
                    allowed.append(search)
            for seed in dict.fromkeys(request.seeds):
                identities = [_identity(request, algorithm, build, search, seed) for search in allowed]
                lines = [seek for grid in sought for seek in _seeks(request, algorithm, grid, build, seed, skips)]
                seeks += lines
                todo = [identity for identity in identities if identity.hash() not in complete]
                done += [identity for identity in identities if identity.hash() in complete]
                first = [identity for seek in lines for identity in seek.wanted(seek.readings(known))]
                todo = list({identity.hash(): identity for identity in [*todo, *first]}.values())
                if todo:
                    jobs.append(BuildJob(algorithm=algorithm, build_params=build, seed=seed, points=todo))
    return Plan(request=request, jobs=jobs, skips=skips, complete=done, seeks=seeks)


def _seeks(
    request: Request, algorithm: Algorithm, grid: Grid, build: dict, seed: int, skips: list[Skip]
) -> Iterable[Seek]:
    """The searches of one grid on one build: one for each combination of the search parameters beside the monotone."""
    name = algorithm.offer.monotone
    parameter = algorithm.offer.parameters[name]
    rows = request.data.n or UNKNOWN_ROWS
    start = sorted(parameter.check(name, value) for value in grid.search.get(name, []))
    for search in _combinations(algorithm, "search", {**grid.search, name: [parameter.default]}):

        def broken(value, search=search) -> str | None:
            return _broken(algorithm, {**build, **search, name: value}, request)

        span = find_span(
            lambda value, broken=broken: broken(value) is None,
            [*start, parameter.default, request.k],
            least=parameter.min,
            most=rows if parameter.max is None else parameter.max,
            integer=parameter.type == "int",
        )
        if span is None:
            skip = Skip(algorithm=algorithm.name, params={**build, **search}, reason=broken(parameter.default))
            skips += [skip] if skip not in skips else []
            continue
        yield Seek(
            template=_identity(request, algorithm, build, search, seed),
            parameter=name,
            span=span,
            start=start,
            targets=grid.target,
        )


def _unfit(algorithm: Algorithm, data: DataFacts) -> str | None:
    offer = algorithm.offer
    if data.distance not in offer.distances:
        return f"has no distance {data.distance}, only {', '.join(offer.distances)}"
    if data.dtype is not None and data.dtype not in offer.dtypes:
        return f"takes no {data.dtype}, only {', '.join(offer.dtypes)}"
    return None


def _combinations(algorithm: Algorithm, stage: str, grid: dict[str, list[Value]]) -> Iterable[dict[str, Value]]:
    """Every combination of one stage, in the card's order, with defaults for what the grid does not name."""
    parameters = {name: item for name, item in algorithm.offer.parameters.items() if item.stage == stage}
    values = [
        [item.check(name, value) for value in grid.get(name, [item.default])] for name, item in parameters.items()
    ]
    for combination in itertools.product(*values):
        yield dict(zip(parameters, combination, strict=True))


def _broken(algorithm: Algorithm, params: dict[str, Value], request: Request) -> str | None:
    data = request.data
    facts = {"k": request.k, "n": data.n, "dimension": data.dimension, "distance": data.distance, "dtype": data.dtype}
    values = {**params, **facts}
    for constraint in algorithm.offer.constraints:
        if not holds(constraint, values):
            known = ", ".join(
                f"{name} = {value}"
                for name, value in values.items()
                if re.search(rf"\b{re.escape(name)}\b", constraint)
            )
            return f"breaks {constraint} ({known})"
    return None


def _identity(request: Request, algorithm: Algorithm, build: dict, search: dict, seed: int) -> Identity:
    data = request.data
    return Identity(
        dataset=data.name,
        base_sha256=data.base_sha256,
        queries_sha256=data.queries_sha256,
        distance=data.distance,
        algorithm=algorithm.name,
        build_params=build,
        search_params=search,
        seed=seed,
        k=request.k,
        mode=request.mode,
        threads=request.threads,
    )
