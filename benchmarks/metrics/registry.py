"""Metrics: one function with a decorator each, found by the name that a person types.

A name is parsed as `<metric>[-<argument>][@K]`: `robustness-0.1`, `robustness-0.1@10`, `latency-p99`, `qps`.
"""

import difflib
import importlib
import pkgutil
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Literal

import numpy as np

from benchmarks.errors import UserError
from benchmarks.results.store import Missing, Result
from benchmarks.statistics.intervals import bootstrap_mean, wilson

Kind = Literal["quality", "relevance", "speed", "cost"]


@dataclass(frozen=True)
class Measured:
    """A value with the interval that n allows; the interval is None where none can be given."""

    value: float
    low: float | None = None
    high: float | None = None
    n: int | None = None


def measure_mean(values: np.ndarray | None) -> Measured | None:
    """Mean over the queries (nq) with its interval: Wilson's for bool, the bootstrap's for floats."""
    if values is None:
        return None
    n = len(values)
    if values.dtype == bool:
        reached = int(np.count_nonzero(values))
        return Measured(reached / n, *wilson(reached, n), n)
    return Measured(float(values.sum()) / n, *bootstrap_mean(values), n)


@dataclass(frozen=True)
class Definition:
    """What a metric is. `template` holds its arguments in braces: `robustness-{delta}`.

    `per_query` is None where the metric is no mean over queries; with `share` its values are 0 and 1.
    """

    template: str
    title: str
    unit: str
    better: Literal["higher", "lower"]
    kind: Kind
    meaning: str
    compute: Callable[..., Measured | None]
    arguments: dict[str, Callable[[str], object]]
    axis: Literal["linear", "log"]
    interval: bool
    per_query: Callable[..., np.ndarray | None] | None = None
    share: bool = False


@dataclass(frozen=True)
class Metric:
    """A definition with its arguments filled in: something that can be computed from a result."""

    name: str
    definition: Definition
    values: tuple
    k: int | None

    def compute(self, result: Result) -> Measured | None:
        """The value for one result; None for a failed point, another K, or where it was not measured."""
        return self._of(self.definition.compute, result)

    def per_query(self, result: Result) -> np.ndarray | None:
        """float64 (nq) whose mean is the metric's value; None as for `compute`, or where it is no mean over queries."""
        values = self._of(self.definition.per_query, result) if self.definition.per_query else None
        return None if values is None else np.asarray(values, float)

    def _of(self, function: Callable, result: Result):
        if not result.ok or (self.k is not None and self.k != result.identity.k):
            return None
        try:
            return function(result, *self.values)
        except Missing:
            if result.record.provenance.imported is None:
                raise
            return None  # the other harness does not say

    def title(self, k: int | None = None) -> str:
        """For axes and headings, such as `Robustness-0.1@10` or `QPS [1/s]`."""
        arguments = re.fullmatch(_pattern(self.definition.template), self.name.split("@")[0]).groupdict()
        title = self.definition.title.format(**arguments)
        k = self.k or k
        if k and self.definition.kind in ("quality", "relevance"):
            title = f"{title}@{k}"
        return title if self.definition.unit == "1" else f"{title} [{self.definition.unit}]"


def _pattern(template: str) -> str:
    """Regular expression of the names that a template takes; `-` and `_` are the same."""
    parts = re.split(r"\{(\w+)\}", template)
    return "".join(
        f"(?P<{part}>.+)" if number % 2 else re.sub("[-_]", "[-_]", part) for number, part in enumerate(parts)
    )


_DEFINITIONS: dict[str, Definition] = {}


def metric(
    template: str,
    *,
    title: str,
    unit: str,
    better: Literal["higher", "lower"],
    kind: Kind,
    axis: Literal["linear", "log"] = "linear",
    interval: bool = False,
    per_query: Callable[..., np.ndarray | None] | None = None,
    share: bool = False,
    **arguments: Callable[[str], object],
):
    """Register a function (Result, *arguments) → Measured | None; its docstring is the definition that users read.

    Args:
        template: name on the command line, `{argument}` where an argument stands.
        title: name on axes and in headings, with the same arguments.
        unit: unit of the value, "1" for a share.
        better: which direction is better.
        kind: quality is of answers against the exact ones, relevance of answers against what people judged; speed
            depends on the machine and is not compared across machines, cost is none of them.
        axis: scale of a plot's axis.
        interval: whether the value comes with one.
        per_query: function (Result, *arguments) → float64 (nq) whose mean is the value, or None; none for what is no
            mean over queries.
        share: whether the values per query are 0 and 1, so that their mean is a share of the queries.
        **arguments: parser of each argument, raising ValueError with what is wrong.
    """

    def register(function):
        _DEFINITIONS[template] = Definition(
            template,
            title,
            unit,
            better,
            kind,
            " ".join((function.__doc__ or "").split()),
            function,
            arguments,
            axis,
            interval,
            per_query,
            share,
        )
        return function

    return register


def definitions() -> list[Definition]:
    """Every metric of this package, whichever module it is in."""
    _import_all()
    return list(_DEFINITIONS.values())


@cache
def _import_all() -> None:
    import benchmarks.metrics as package

    for module in pkgutil.iter_modules(package.__path__):
        if module.name == "kernels":  # has none, and takes as long to import as all the others
            continue
        importlib.import_module(f"{package.__name__}.{module.name}")


def _least_open_first(definition: Definition) -> int:
    """Sort key: `recall-min` and `recall-p{x}` are tried before `recall-{n}`, which would take their names."""
    return -len(re.sub(r"\{\w+\}", "", definition.template))


def parse_metric(name: str) -> Metric:
    """The metric that a name means; `-` and `_` between words are the same.

    Raises:
        UserError: no metric has that name, or its argument is wrong.
    """
    body, _, suffix = name.strip().partition("@")
    if "@" in name and not (suffix.isdecimal() and int(suffix) > 0):
        raise UserError(f"metric '{name}': after @ comes K, a positive number")
    k = int(suffix) if suffix else None
    for definition in sorted(definitions(), key=_least_open_first):
        match = re.fullmatch(_pattern(definition.template), body)
        if match is None:
            continue
        values = []
        for argument, text in match.groupdict().items():
            try:
                values.append(definition.arguments[argument](text))
            except ValueError as error:
                raise UserError(f"metric '{name}': {error}") from None
        canonical = definition.template
        for argument, text in match.groupdict().items():
            canonical = canonical.replace("{" + argument + "}", text)
        return Metric(canonical + (f"@{k}" if k else ""), definition, tuple(values), k)
    known = [definition.template.replace("{", "<").replace("}", ">") for definition in definitions()]
    close = difflib.get_close_matches(body, known, n=1)
    hint = f"did you mean {close[0]}? " if close else ""
    raise UserError(f"unknown metric '{name}'; {hint}known: {', '.join(known)}")
