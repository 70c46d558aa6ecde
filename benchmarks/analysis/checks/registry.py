"""Kinds of checks: one function with a decorator each, found by the `kind` that a claim names.

A kind is a model of its parameters and a function (parameters, Measured) → Finding. A module of this package may add
one; nothing else is edited.
"""

import importlib
import pkgutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Literal

from pydantic import AfterValidator, create_model, field_validator, model_validator

from benchmarks.analysis.contrast import Estimate
from benchmarks.cards.values import Value
from benchmarks.errors import UserError
from benchmarks.metrics.registry import parse_metric
from benchmarks.statistics.intervals import CONFIDENCE
from benchmarks.statistics.paired import holm
from benchmarks.yamlfile import Strict


@dataclass(frozen=True)
class Lack:
    """A result that a check needs and that is not there; what can be run for it, where a run would help."""

    what: str
    dataset: str | None = None
    algorithm: str | None = None
    k: int | None = None
    recall: float | None = None
    settings: tuple[tuple[str, Value], ...] = ()
    like: str = ""  # options that make a run like what was measured of the data set


class Missing(Exception):
    """Raised where a check cannot go on for want of a result."""

    def __init__(self, *lacks: Lack):
        super().__init__("; ".join(lack.what for lack in lacks))
        self.lacks = lacks


@dataclass(frozen=True)
class Comparison:
    """One inequality of a claim, put so that the claim says that `estimate` is above 0.

    `shown` are the numbers that it is made of, by what they are. `holds` is True where it was shown, False where the
    opposite was, None where this n does not tell; `adjusted` is p after Holm over the comparisons of the claim. What is
    no mean over queries, such as a speed, has no p and comes with `holds`.
    """

    what: str
    shown: dict[str, float]
    estimate: Estimate
    unit: str = "1"
    adjusted: float | None = None
    holds: bool | None = None


@dataclass(frozen=True)
class Finding:
    """What a check found: comparisons, what it lacked, and where the numbers come from."""

    comparisons: Sequence[Comparison] = ()
    lacks: Sequence[Lack] = ()
    notes: Sequence[str] = ()
    stations: dict[str, str] = field(default_factory=dict)


def settle(comparisons: Sequence[Comparison], alpha: float = 1 - CONFIDENCE) -> list[Comparison]:
    """Which of them hold: decided where the interval leaves out 0 and p, by Holm over all of them, is below alpha."""
    tested = [item for item in comparisons if item.estimate.p is not None]
    adjusted = dict(zip(map(id, tested), holm([item.estimate.p for item in tested]), strict=True))
    settled = []
    for item in comparisons:
        p, estimate = adjusted.get(id(item)), item.estimate
        holds = item.holds
        if p is not None:
            right, wrong = estimate.low > 0 and p < alpha, estimate.high < 0 and p < alpha
            holds = True if right else False if wrong else None
        settled.append(Comparison(item.what, item.shown, estimate, item.unit, p, holds))
    return settled


def checked_metric(name: str) -> str:
    """The name of a metric that is a mean over queries.

    Raises:
        ValueError: there is no such metric, or it is no mean over queries.
    """
    try:
        metric = parse_metric(name)
    except UserError as error:
        raise ValueError(str(error)) from None
    if metric.definition.per_query is None:
        raise ValueError(f"'{name}' is no mean over queries; a check needs one, such as recall or robustness-0.1")
    return name


MetricName = Annotated[str, AfterValidator(checked_metric)]


class Where(Strict):
    """A place on an index's curve. What a part of a check does not say is that of the whole check.

    With `recall` it is the place of that average recall; with `speed_of` that of the speed at which another build of
    the index reaches a value; with neither, `settings` or `ratio` name one operating point.
    """

    dataset: str | None = None
    metric: MetricName | None = None
    k: int | None = None
    recall: float | None = None
    settings: dict[str, Value] | None = None
    ratio: "Ratio | None" = None
    speed_of: "SpeedOf | None" = None

    @field_validator("recall")
    @classmethod
    def _share(cls, value):
        if value is not None and not 0 < value <= 1:
            raise ValueError("an average recall is above 0 and at most 1")
        return value

    @field_validator("k")
    @classmethod
    def _positive(cls, value):
        if value is not None and value < 1:
            raise ValueError("K is a positive number")
        return value

    def over(self, *wider: "Where | None") -> "Where":
        """This place, what it leaves open taken from the next wider part, and so on."""
        names = Where.model_fields
        chosen = {}
        for part in (self, *wider):
            for name in names:
                if part is not None and chosen.get(name) is None:
                    chosen[name] = getattr(part, name)
        return Where.model_construct(**chosen)


class Ratio(Strict):
    """The operating point with the largest share of something: n_probe of n_list at most 0.001."""

    part: str
    whole: str
    at_most: float


class SpeedOf(Strict):
    """The speed at which the build with these settings reaches a value of a metric."""

    settings: dict[str, Value]
    metric: MetricName
    value: float


Where.model_rebuild()


class Side(Where):
    """Indexes by the paper's names, or `graph` or `partition` for a family; a list of names is enough."""

    indexes: list[str] = []

    @model_validator(mode="before")
    @classmethod
    def _names(cls, value):
        return {"indexes": [value] if isinstance(value, str) else value} if isinstance(value, (str, list)) else value


@dataclass(frozen=True)
class Kind:
    """A kind of check: its name, the model of its parameters, and what judges it."""

    name: str
    model: type[Strict]
    judge: Callable[..., Finding]
    meaning: str


_KINDS: dict[str, Kind] = {}


def check(name: str, model: type[Strict]):
    """Register a function (parameters, Measured) → Finding as what judges the checks of one kind."""

    def register(function):
        named = create_model(f"{model.__name__}Check", __base__=model, kind=(Literal[name], ...))
        _KINDS[name] = Kind(name, named, function, " ".join((model.__doc__ or "").split()))
        return function

    return register


def kinds() -> dict[str, Kind]:
    """Every kind of this package by name, whichever module it is in."""
    import benchmarks.analysis.checks as package

    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"{package.__name__}.{module.name}")
    return dict(sorted(_KINDS.items()))
