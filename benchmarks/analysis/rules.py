"""A gate applied to two sets of results: one verdict for each rule and operating point."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from benchmarks.analysis.compare import PAIRED, Change, Matched, Pair, change, difference
from benchmarks.analysis.gate import (
    Decision,
    Gate,
    Loss,
    Outcome,
    Rule,
    decide,
    decide_exact,
    fresh_loss,
    overall,
    screen,
    sure_confidence,
    suspicious,
)
from benchmarks.errors import UserError
from benchmarks.metrics.registry import Metric, parse_metric

# Fresh values of (pair, metric) in rounds, as (base, new) of each round; for a gate that may measure.
Confirm = Callable[[Sequence[tuple[Pair, Metric]]], list[list[tuple[float, float]]]]


@dataclass(frozen=True)
class Verdict:
    """What a rule says of an operating point."""

    rule: str
    point: str
    outcome: Outcome
    reason: str
    base: float | None = None
    new: float | None = None
    loss: float | None = None  # as the margin: in the metric's unit, or relative
    low: float | None = None
    high: float | None = None
    margin: float | None = None
    n: int | None = None


@dataclass(frozen=True)
class _Case:
    """A rule, a pair, and what changed between its sides."""

    rule: Rule
    metric: Metric
    change: Change

    @property
    def margin(self) -> float:
        """In the unit of the change: of the metric, or relative to the base."""
        margin = self.rule.margin
        if self.change.relative:
            return margin.value if margin.relative else margin.value / abs(self.change.base)
        return margin.of(self.change.base)

    @property
    def better(self) -> str:
        return self.metric.definition.better

    @property
    def kind(self) -> str:
        return self.metric.definition.kind


def judge(matched: Matched, gate: Gate, confirm: Confirm | None = None) -> list[Verdict]:
    """Apply every rule to every pair.

    A point that BASE has and that failed in NEW is a failure; one that is not in NEW is inconclusive.

    Args:
        matched: of `compare.match`.
        gate: the rules.
        confirm: measures the points anew whose stored repeats look slow; without it they are inconclusive.

    Raises:
        UserError: a rule applies to no point, or is about a metric that cannot be gated.
    """
    cases = [case for rule in gate.rules for case in _cases(rule, matched.pairs)]
    quality = sum(case.kind in PAIRED for case in cases)
    slow = [case for case in cases if case.kind == "speed" and confirm and suspicious(case.change.loss, case.margin)]
    fresh: dict[int, list[float]] = {}
    if slow and confirm:
        rounds = confirm([(case.change.pair, case.metric) for case in slow])
        fresh = {
            id(case): [_times_worse(base, new, case.better) for base, new in values]
            for case, values in zip(slow, rounds, strict=True)
        }
    verdicts = []
    for case in cases:
        loss = None
        if case.kind in PAIRED:
            loss = _loss(case, gate.confidence, quality)
            decision = decide(loss, case.margin)
        elif id(case) in fresh:
            loss = fresh_loss(fresh[id(case)], gate.confidence, len(slow), case.better)
            decision = decide(loss, case.margin, "rounds of fresh runs")
        elif case.kind == "speed":
            decision = screen(case.change.loss, case.margin)
        else:
            decision = decide_exact(case.change.loss, case.margin)
        verdicts.append(_verdict(case, loss, decision))
    verdicts += [
        Verdict("measured", name, "fail", f"measured in BASE, failed in NEW: {why}") for name, why in matched.failed
    ]
    verdicts += [
        Verdict("measured", name, "inconclusive", "measured in BASE, not in NEW") for name in matched.only_base
    ]
    return verdicts


def outcome(verdicts: Sequence[Verdict]) -> Outcome:
    """Of the whole gate."""
    return overall([verdict.outcome for verdict in verdicts])


def _cases(rule: Rule, pairs: Sequence[Pair]) -> list[_Case]:
    metric = parse_metric(rule.metric)
    chosen = [pair for pair in pairs if not rule.algorithms or pair.algorithms & set(rule.algorithms)]
    if not chosen and pairs:
        known = sorted({name for pair in pairs for name in pair.algorithms})
        raise UserError(f"rule {rule}: there is no point of {', '.join(rule.algorithms)}, only of {', '.join(known)}")
    found = [_Case(rule, metric, item) for pair in chosen if (item := change(pair, metric))]
    if chosen and not found:
        ks = ", ".join(sorted({str(pair.base[0].identity.k) for pair in chosen}))
        raise UserError(f"rule {rule}: none of the points has this metric on both sides (their K: {ks})")
    if found and metric.definition.kind in PAIRED and found[0].change.low is None:
        raise UserError(f"rule {rule}: {metric.name} is no mean over queries, so no interval of its loss is known")
    return found


def _loss(case: _Case, confidence: float, tests: int) -> Loss:
    """The paired loss with both intervals."""
    found = [
        difference(case.change.pair, case.metric, level) for level in (confidence, sure_confidence(confidence, tests))
    ]
    if case.better == "higher":
        return Loss(0.0 - found[0].difference, -found[0].high, -found[0].low, -found[1].high, found[0].n)
    return Loss(found[0].difference, found[0].low, found[0].high, found[1].low, found[0].n)


def _times_worse(base: float, new: float, better: str) -> float:
    return math.log(base / new) if better == "higher" else math.log(new / base)


def _verdict(case: _Case, loss: Loss | None, decision: Decision) -> Verdict:
    change = case.change
    return Verdict(
        str(case.rule),
        change.pair.name,
        decision.outcome,
        decision.reason,
        change.base,
        change.new,
        loss.value if loss else change.loss,
        loss.low if loss else None,
        loss.high if loss else None,
        case.margin,
        loss.n if loss else change.n,
    )
