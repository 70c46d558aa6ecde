"""The search for a target recall, on simulated curves: monotone, noisy, with steps, too flat, too coarse."""

import math
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from benchmarks.analysis.target import Found, Reading, Span, Target, decide, find_span

QUERIES = 1000


def search(target, span, curve, start=(), most=200):
    """Follow the decisions to their end. `curve` is the recall at a value. Returns the end and all readings."""
    readings = []
    for _ in range(most):
        step = decide(target, span, readings, start)
        if isinstance(step, Found):
            return step, readings
        assert span.low <= step <= span.high and step not in [each.value for each in readings]
        assert isinstance(step, int) or not span.integer
        readings.append(Reading(step, curve(step)))
    raise AssertionError(f"no end after {most} points: {readings}")


def counted(recall: float) -> Fraction:
    """As the mean of so many queries at K = 10."""
    return Fraction(round(min(max(recall, 0.0), 1.0) * QUERIES * 10), QUERIES * 10)


def usual(steepness=0.8, half=20.0, most=1.0):
    """The shape of real curves: 1 - recall falls as a power of the parameter."""
    return lambda value: counted(most - most / (1 + (value / half) ** steepness))


targets = st.builds(Target, recall=st.sampled_from([0.5, 0.8, 0.85, 0.9, 0.95, 0.99]), tolerance=st.just(0.002))
spans = st.tuples(st.integers(1, 100), st.integers(0, 10**6)).map(lambda ends: Span(ends[0], sum(ends)))


@given(targets, spans, st.floats(0.3, 3), st.floats(1, 10**4), st.lists(st.integers(1, 10**6), max_size=8))
def test_a_usual_curve_is_met_or_bracketed_or_out_of_reach(target, span, steepness, half, start):
    curve = usual(steepness, half)
    found, readings = search(target, span, curve, sorted(start), most=40)
    values = [point.value for point in found.points]
    if found.outcome == "met":
        assert abs(found.points[0].recall - Fraction(str(target.recall))) <= Fraction("0.002")
    elif found.outcome == "bracketed":
        assert values[1] == values[0] + 1
        assert curve(values[0]) < target.recall <= curve(values[1])
    elif found.outcome == "above":
        assert values == [span.low] and curve(span.low) > target.recall
    elif found.outcome == "below":
        assert values == [span.high] and curve(span.high) < target.recall
    else:
        assert found.outcome == "flat" and curve(span.high) < 1
    best = min(readings, key=lambda each: abs(each.recall - Fraction(str(target.recall))))
    assert len(found.points) == 2 or found.outcome in ("above", "below", "flat") or found.points == (best,)


@settings(max_examples=200)
@given(
    targets,
    spans,
    st.integers(0, 2**32),
    st.floats(0, 0.03),
    st.floats(0.3, 3),
    st.floats(1, 10**4),
    st.floats(0.5, 1),
)
def test_noise_never_leads_astray(target, span, seed, noise, steepness, half, most):
    curve = usual(steepness, half, most)

    def noisy(value):
        return counted(float(curve(value)) + noise * math.sin(seed + 12.9898 * value))

    found, readings = search(target, span, noisy, most=60)
    wanted = Fraction(str(target.recall))
    recalls = {point.value: point.recall for point in readings}
    assert all(recalls[point.value] == point.recall for point in found.points)
    if found.outcome == "met":
        assert abs(found.points[0].recall - wanted) <= Fraction("0.002")
    elif found.outcome == "bracketed":
        lower, upper = found.points
        assert lower.recall < wanted <= upper.recall and upper.value == lower.value + 1
    elif found.outcome in ("below", "flat"):
        assert max(readings, key=lambda each: each.value).recall < wanted
    else:
        assert found.outcome == "above" and found.points[0].value == span.low


@given(st.lists(st.floats(0, 1), min_size=1, max_size=300), targets)
def test_any_curve_of_steps_comes_to_an_end(recalls, target):
    """However it jumps, up or down: the search ends, and what it says is so."""
    found, readings = search(target, Span(1, len(recalls)), lambda value: counted(recalls[value - 1]), most=40)
    if found.outcome == "bracketed":
        assert found.points[1].value - found.points[0].value == 1
    if found.outcome == "met":
        assert abs(found.points[0].recall - Fraction(str(target.recall))) <= Fraction("0.002")


@given(st.floats(0.3, 3), st.floats(0.001, 0.999), st.floats(-10, 10), st.floats(0.5, 1000), targets)
def test_a_parameter_with_fractions(steepness, place, low, width, target):
    span = Span(low, low + width, integer=False)
    middle = low + place * width

    def curve(value):
        return counted(1 / (1 + math.exp(-steepness * 20 * (value - middle) / width)))

    found, readings = search(target, span, curve, most=60)
    if found.outcome == "bracketed":  # nothing between them has four digits
        lower, upper = (point.value for point in found.points)
        assert upper - lower <= 2e-3 * max(abs(lower), abs(upper), 1e-9) + 1e-12
    else:
        assert found.outcome == "met" or curve(low) > target.recall or curve(low + width) < target.recall


def test_few_points_are_needed():
    """A wide range, typical curves, no hint: a handful of points each, where plain halving takes twice as many."""
    numbers = []
    for steepness in (0.5, 0.8, 1.2):
        for half in (3, 10, 40, 200):
            for recall in (0.8, 0.9, 0.95):
                span = Span(10, 390_000)
                found, readings = search(Target(recall=recall), span, usual(steepness, half), start=[10, 32, 64, 128])
                assert found.outcome in ("met", "bracketed", "above")
                numbers.append(len(readings))
    assert sum(numbers) / len(numbers) <= 5 and max(numbers) <= 9, numbers


def test_what_was_measured_before_is_used():
    target, span = Target(recall=0.9), Span(1, 1000)
    assert decide(target, span, [Reading(7, Fraction("0.9015"))]).outcome == "met"
    step = decide(target, span, [Reading(10, Fraction("0.85")), Reading(20, Fraction("0.93"))])
    assert 10 < step < 20
    ends = decide(target, span, [Reading(10, Fraction("0.85")), Reading(11, Fraction("0.93"))])
    assert ends.outcome == "bracketed" and [point.value for point in ends.points] == [10, 11]


def test_the_tolerance_is_exact():
    """0.902 - 0.9 is more than 0.002 in binary fractions, and is not here."""
    span = Span(1, 2)
    assert decide(Target(recall=0.9), span, [Reading(1, Fraction(902, 1000))]).outcome == "met"
    assert decide(Target(recall=0.9), span, [Reading(1, Fraction(90201, 100000))]).outcome == "above"
    assert decide(Target(recall=0.9, tolerance=0), span, [Reading(1, Fraction(9, 10))]).outcome == "met"


def test_of_two_points_that_will_do_the_nearer_one():
    readings = [Reading(5, Fraction("0.8985")), Reading(6, Fraction("0.9005"))]
    assert decide(Target(recall=0.9), Span(1, 9), readings).points == (readings[1],)


def test_recall_that_stops_to_grow_ends_the_search():
    found, readings = search(Target(recall=0.99), Span(10, 10**7), usual(most=0.93))
    assert found.outcome == "flat" and len(readings) < 12 and readings[-1].value < 10**6


def test_a_failure_ends_the_search_with_what_there_is():
    target, span = Target(recall=0.9), Span(1, 1000)
    assert decide(target, span, [], failed=True) == Found("failed", (), target)
    around = [Reading(10, Fraction("0.8")), Reading(100, Fraction("0.95")), Reading(1, Fraction("0.1"))]
    found = decide(target, span, around, failed=True)
    assert [point.value for point in found.points] == [10, 100]


@pytest.mark.parametrize("fields", [{"recall": 0}, {"recall": 1.1}, {"recall": 0.9, "tolerance": -1}, {"tolerance": 0}])
def test_a_target_that_is_none(fields):
    with pytest.raises(ValidationError):
        Target(**fields)


@given(st.integers(1, 50), st.integers(0, 10**6), st.integers(1, 10**6), st.lists(st.integers(1, 10**6), max_size=4))
def test_the_span_is_what_constraints_leave(low, width, most, known):
    high = low + width
    span = find_span(lambda value: low <= value <= high, [*known, low], least=1, most=most)
    if low > most:
        assert span is None
    else:
        assert span == Span(low, min(high, most))
        assert isinstance(span.low, int) and isinstance(span.high, int)


def test_the_span_of_the_cards_constraints():
    assert find_span(lambda value: value >= 1.5 * 10, [64], least=1.0, most=390_000.0) == Span(15, 390_000)
    assert find_span(lambda value: value > 10, [64], least=1, most=10**9) == Span(11, 10**9)
    assert find_span(lambda value: value <= 1024, [], least=1, most=10**9) == Span(1, 1024)
    assert find_span(lambda value: False, [5], least=1, most=10) is None
    odd = find_span(lambda value: value >= 0.25, [0.5], least=0.0, most=1.0, integer=False)
    assert odd.low == pytest.approx(0.25) and odd.high == 1.0
