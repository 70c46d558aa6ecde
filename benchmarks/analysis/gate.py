"""Whether a new result is worse than the base by more than a margin: pass, fail, or n too small to tell. Pure.

Quality is a test of non-inferiority. A rule passes where the whole interval of the loss lies within the margin, fails
where the whole of it lies beyond, and is inconclusive between. To pass, every point must pass, so that no point's
interval needs adjusting for the others; one point is enough to fail, so there the interval is Bonferroni's.

Speed is screened first, on the repeats that are stored, which can clear but never condemn: they are of one session,
and what else the machine did then is in them. What the screen finds suspicious is measured again, in pairs of fresh
runs that alternate, and these alone decide.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np
from pydantic import Field, field_validator

from benchmarks.errors import UserError
from benchmarks.metrics.registry import parse_metric
from benchmarks.statistics.intervals import CONFIDENCE
from benchmarks.yamlfile import Strict

Outcome = Literal["pass", "fail", "inconclusive"]
EXIT_CODES = {"pass": 0, "fail": 1, "inconclusive": 3}
SUSPICIOUS = 0.5  # of the margin: a loss in the stored repeats beyond which fresh runs have to decide
FEWEST_ROUNDS = 3
ROUNDING = 1e-12  # of a difference of means: what is nearer to the margin is at it


@dataclass(frozen=True)
class Margin:
    """How much worse is still good enough: in the metric's unit, or relative to the base."""

    value: float
    relative: bool

    def of(self, base: float) -> float:
        """In the metric's unit."""
        return self.value * abs(base) if self.relative else self.value

    def __str__(self) -> str:
        return f"{100 * self.value:g}%" if self.relative else f"{self.value:g}"


def parse_margin(text: str | float) -> Margin:
    """`0.002` or `10%`.

    Raises:
        ValueError: neither, or not a number from 0 on; 100 % or more of a loss is no margin.
    """
    written = str(text).strip()
    relative = written.endswith("%")
    try:
        value = float(Fraction(written.removesuffix("%").strip())) / (100 if relative else 1)
    except (ValueError, ZeroDivisionError):
        value = -1.0
    if not 0 <= value < math.inf or (relative and value >= 1):
        raise ValueError(f"a drop is a number such as 0.002, or a part of the base such as 10%, not '{text}'")
    return Margin(value, relative)


class Rule(Strict):
    """One line of a gate."""

    metric: str
    max_drop: float | str = Field(description="how much worse it may be; for what is better lower, a rise")
    algorithms: list[str] = Field([], description="only these; all if empty")

    @field_validator("metric")
    @classmethod
    def _known(cls, value):
        try:
            parse_metric(value)
        except UserError as error:
            raise ValueError(str(error)) from None
        return value

    @field_validator("max_drop", mode="before")
    @classmethod
    def _margin(cls, value):
        if isinstance(value, bool):
            raise ValueError("a number or a percentage is expected")
        parse_margin(value)
        return value

    @property
    def margin(self) -> Margin:
        return parse_margin(self.max_drop)

    def __str__(self) -> str:
        return f"{self.metric}={self.margin}"


class Gate(Strict):
    """`gate.yml`: the rules, all of which must pass."""

    confidence: float = Field(CONFIDENCE, gt=0.5, lt=1)
    rules: list[Rule] = Field(min_length=1)


def parse_rule(text: str) -> Rule:
    """`robustness-0.1@10=0.002` as on the command line.

    Raises:
        UserError: not of that form, or no metric of that name.
    """
    metric, equals, margin = text.partition("=")
    if not (metric and equals and margin):
        raise UserError(f"--max-drop {text}: the form is metric=drop, such as robustness-0.1@10=0.002 or qps=10%")
    parse_metric(metric)
    try:
        parse_margin(margin)
    except ValueError as error:
        raise UserError(f"--max-drop {text}: {error}") from None
    return Rule(metric=metric, max_drop=margin)


@dataclass(frozen=True)
class Loss:
    """How much worse the new one is, more than 0 if it is: in the metric's unit, or for speed relative to the base.

    `low` and `high` are the interval of this point; `sure` is its lower end with the confidence that all points
    together need before one of them may fail.
    """

    value: float
    low: float
    high: float
    sure: float
    n: int  # queries, or rounds


@dataclass(frozen=True)
class Decision:
    """What one rule says of one point, and why, in one line."""

    outcome: Outcome
    reason: str


def decide(loss: Loss, margin: float, counted: str = "queries") -> Decision:
    """Non-inferiority: is the loss below the margin, above it, or can these n not tell?"""
    found = f"loss {loss.value:.4g} [{loss.low:.4g}, {loss.high:.4g}], n = {loss.n:,} {counted}"
    if loss.high <= margin:
        return Decision("pass", f"{found}; within {margin:.4g}")
    if loss.sure > margin:
        return Decision("fail", f"{found}; {margin:.4g} is allowed")
    if margin - loss.value < ROUNDING:
        return Decision("inconclusive", f"{found}; on neither side of {margin:.4g} for sure")
    # The interval narrows with n at best, and with its root where queries differ.
    needed = math.ceil(loss.n * (loss.high - loss.value) / (margin - loss.value))
    return Decision("inconclusive", f"{found}; to show {margin:.4g} takes {needed:,} {counted} or more")


def decide_exact(value: float, margin: float) -> Decision:
    """For what is known without an interval, such as the size of an index."""
    return Decision("pass" if value <= margin else "fail", f"loss {value:.4g}; {margin:.4g} is allowed")


def suspicious(loss: float, margin: float) -> bool:
    """Whether stored repeats look so slow that fresh runs are needed; argument relative, as the margin."""
    return loss > SUSPICIOUS * margin


def screen(loss: float, margin: float) -> Decision:
    """The verdict on speed where nothing was measured anew; it is never a failure."""
    found = (
        f"slower by {loss:.1%} in the stored repeats" if loss > 0 else f"faster by {-loss:.1%} in the stored repeats"
    )
    if suspicious(loss, margin):
        return Decision(
            "inconclusive", f"{found}, {margin:.1%} is allowed; --confirm measures again before it may fail"
        )
    return Decision("pass", f"{found}; below half of the {margin:.1%} allowed")


def fresh_loss(losses: Sequence[float], confidence: float, tests: int, better: str = "higher") -> Loss:
    """Loss of speed from rounds of fresh runs, one of each side per round.

    Args:
        losses: for each round the logarithm of how many times worse the new one is; what both of a round share cancels.
        confidence: of the interval.
        tests: how many points may fail, for Bonferroni.
        better: the direction of the metric.

    Returns:
        the loss relative to the base (1 − new / base of a speed, new / base − 1 of a time), from the mean of the
        logarithms and Student's t.

    Raises:
        ValueError: fewer than three rounds.
    """
    from scipy.special import stdtrit

    if len(losses) < FEWEST_ROUNDS:
        raise ValueError(f"at least {FEWEST_ROUNDS} rounds are needed")
    values = np.asarray(losses, dtype=float)
    error = values.std(ddof=1) / math.sqrt(len(values))
    half, sure = (stdtrit(len(values) - 1, 1 - tail / 2) * error for tail in _tails(confidence, tests))
    mean = values.mean()
    sign = -1 if better == "higher" else 1
    ends = [float(sign * np.expm1(sign * end)) for end in (mean, mean - half, mean + half, mean - sure)]
    return Loss(*ends, len(values))


def sure_confidence(confidence: float, tests: int) -> float:
    """Bonferroni: the confidence of each interval so that all of them hold together."""
    return 1 - _tails(confidence, tests)[1]


def _tails(confidence: float, tests: int) -> tuple[float, float]:
    return 1 - confidence, (1 - confidence) / max(1, tests)


def overall(outcomes: Sequence[Outcome]) -> Outcome:
    """Fail if any failed, else inconclusive if any is, else pass."""
    for outcome in ("fail", "inconclusive"):
        if outcome in outcomes:
            return outcome
    return "pass"
