"""Checks of what an application answered with what was retrieved, from the verdicts of `python -m benchmarks rag`."""

import numpy as np
from pydantic import Field, field_validator, model_validator

from benchmarks.analysis.checks.order import compared
from benchmarks.analysis.checks.registry import Comparison, Finding, Lack, Missing, check, settle
from benchmarks.analysis.contrast import Estimate, Term, against
from benchmarks.metrics.accuracy import parse_answers, verdicts_of
from benchmarks.metrics.quality import parse_delta
from benchmarks.rag.delta import FEWEST_POINTS, Analysis
from benchmarks.rag.study import analyse_points
from benchmarks.rag.table import CONTROLS, Verdicts
from benchmarks.results.store import Result
from benchmarks.yamlfile import Strict


class Answers(Strict):
    """Where the verdicts are."""

    dataset: str
    answers: str = Field("extractive-normalised", description="file of results/<dataset>/rag, without .csv")
    k: int = Field(10, gt=0)

    @field_validator("answers")
    @classmethod
    def _plain(cls, value):
        return parse_answers(value)


class Controls(Answers):
    """Answers with one control as documents are right more often than with another, or at most so often."""

    higher: str | None = None
    lower: str
    at_most: float | None = Field(None, gt=0, lt=1, description="instead of a higher control")

    @model_validator(mode="after")
    def _known(self):
        if (self.higher is None) == (self.at_most is None):
            raise ValueError("either higher or at_most is needed")
        for name in (self.higher, self.lower):
            if name is not None and name not in CONTROLS:
                raise ValueError(f"'{name}' is no control; there are {', '.join(CONTROLS)}")
        return self


@check("controls", Controls)
def judge_controls(controls: Controls, measured) -> Finding:
    """Paired by question; against a bound by Wilson's interval."""
    points, verdicts = _verdicts(controls, measured)
    name, queries = points[0].identity.dataset, points[0].identity.queries_sha256
    wanted = [control for control in (controls.higher, controls.lower) if control]
    for control in wanted:
        if control not in verdicts.of:
            raise Missing(Lack(f"answers with {control} documents on {name}"))
    known = verdicts.complete(wanted)
    terms = [
        Term(f"{control} documents on {name}: accuracy", verdicts.of[control][known], 0.0, queries, times)
        for control, times in zip(wanted, (1, -1), strict=False)
    ]
    if controls.higher:
        return Finding(settle([compared(f"{terms[0].label} above {terms[1].label}", terms)]))
    (term,) = terms
    estimate = against(term, controls.at_most).negative()
    return Finding(
        settle([Comparison(f"{term.label} at most {controls.at_most:g}", {term.label: term.mean}, estimate)])
    )


class Foretells(Answers):
    """Robustness orders the operating points by accuracy better than average recall does."""

    delta: str

    @field_validator("delta")
    @classmethod
    def _share(cls, value):
        parse_delta(value)
        return value


@check("foretells", Foretells)
def judge_foretells(foretells: Foretells, measured) -> Finding:
    """Difference of rank correlations; its interval is of queries that are drawn anew with all points."""
    points, verdicts = _verdicts(foretells, measured)
    found, name = analyse_points(points, verdicts), points[0].identity.dataset
    if not found.can_rank:
        raise Missing(Lack(f"{FEWEST_POINTS} operating points with answers on {name} (there: {found.points})"))
    needed = -(-parse_delta(foretells.delta) * found.k // 1)  # hits
    recall, item = found.predictors[0], found.predictors[int(needed)]
    if item.gain is None or item.gain_low is None:
        raise Missing(Lack(f"operating points of different accuracy on {name}"))
    shown = {
        f"robustness-{foretells.delta} on {name}: rank correlation with accuracy": item.correlation,
        f"average recall on {name}: rank correlation with accuracy": recall.correlation,
    }
    estimate = Estimate(item.gain, item.gain_low, item.gain_high, None, found.queries)
    return Finding([_decided(" above ".join(shown), shown, estimate)], (), [_points_note(found)])


class AtRecall(Answers):
    """Accuracy of the queries of one recall, relative to that with their exact neighbours, within bounds."""

    recall: float = Field(ge=0, le=1)
    at_least: float | None = None
    at_most: float | None = None

    @model_validator(mode="after")
    def _bounded(self):
        if self.at_least is None and self.at_most is None:
            raise ValueError("at_least or at_most is needed")
        return self


@check("at-recall", AtRecall)
def judge_at_recall(at: AtRecall, measured) -> Finding:
    """Over all operating points; the interval is of queries that are drawn anew with all points."""
    points, verdicts = _verdicts(at, measured)
    found, name = analyse_points(points, verdicts), points[0].identity.dataset
    level = next((level for level in found.levels if np.isclose(level.recall, at.recall)), None)
    if level is None or level.low is None:
        raise Missing(Lack(f"answers to queries of recall {at.recall:g} on {name}"))
    label = f"queries of recall {at.recall:g} on {name}: relative accuracy"
    estimate, comparisons = Estimate(level.relative, level.low, level.high, None, level.queries), []
    for bound, words, sign in ((at.at_least, "at least", 1), (at.at_most, "at most", -1)):
        if bound is not None:
            moved = Estimate(estimate.value - bound, estimate.low - bound, estimate.high - bound, None, estimate.n)
            moved = moved if sign > 0 else moved.negative()
            comparisons.append(_decided(f"{label} {words} {bound:g}", {label: level.relative}, moved))
    return Finding(comparisons, (), [_points_note(found)])


def _decided(what: str, shown: dict[str, float], estimate: Estimate) -> Comparison:
    """By the interval alone: there is no p."""
    holds = True if estimate.low > 0 else False if estimate.high < 0 else None
    return Comparison(what, shown, estimate, holds=holds)


def _points_note(found: Analysis) -> str:
    return f"over {found.points} operating points and {found.queries:,} questions"


def _verdicts(answers: Answers, measured) -> tuple[list[Result], Verdicts]:
    """The points of the data set that have verdicts, and these.

    Raises:
        Missing: there are none.
    """
    dataset = measured.dataset(answers)
    command = f"python -m benchmarks rag --dataset {dataset}"
    points = [point for point in measured.results(dataset) if point.identity.k == answers.k]
    if not points:
        raise Missing(Lack(f"operating points of K = {answers.k} on {dataset}, and then {command}"))
    verdicts = verdicts_of(points[0].path.parent.parent, answers.answers, points[0].record.nq)
    if verdicts is None:
        raise Missing(Lack(f"answers {answers.answers} on {dataset}: {command}"))
    points = [point for point in points if point.identity.hash() in verdicts.of]
    if not points:
        raise Missing(Lack(f"answers {answers.answers} of the points on {dataset}: {command}"))
    return points, verdicts
