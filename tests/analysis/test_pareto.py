import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.analysis.pareto import pareto_front

DIRECTIONS = st.sampled_from(["higher", "lower"])
NUMBERS = st.one_of(st.integers(-3, 3).map(float), st.floats(allow_nan=False))  # few values, so many ties


def dominates(a, b, x_better, y_better):
    """Whether `a` is at least as good as `b` on both axes and better on one; by comparison, so exact."""
    pairs = [(p, q) if better == "higher" else (q, p) for p, q, better in zip(a, b, (x_better, y_better), strict=True)]
    return all(p >= q for p, q in pairs) and any(p > q for p, q in pairs)


@given(st.lists(st.tuples(NUMBERS, NUMBERS), max_size=25), DIRECTIONS, DIRECTIONS)
def test_front_is_what_nothing_dominates(points, x_better, y_better):
    front = pareto_front([x for x, _ in points], [y for _, y in points], x_better, y_better)
    chosen = [points[index] for index in front]
    assert len(set(chosen)) == len(chosen)
    assert [x for x, _ in chosen] == sorted(x for x, _ in chosen)
    assert bool(points) == bool(front)
    for point in chosen:
        assert not any(dominates(other, point, x_better, y_better) for other in points)
    for index, point in enumerate(points):
        if index not in front:
            duplicate = point in points[:index]
            assert duplicate or any(dominates(other, point, x_better, y_better) for other in chosen)


def test_direction_decides():
    x, y = [1, 2, 3], [1, 2, 3]
    assert pareto_front(x, y, "higher", "higher") == [2]
    assert pareto_front(x, y, "lower", "lower") == [0]
    assert pareto_front(x, y, "lower", "higher") == [0, 1, 2]
    assert pareto_front(x, y, "higher", "lower") == [0, 1, 2]


def test_first_of_equal_points_is_kept():
    assert pareto_front([1, 1, 1], [2, 2, 1], "higher", "higher") == [0]


def test_bad_input_is_refused():
    with pytest.raises(ValueError, match="2 values and y has 1"):
        pareto_front([1, 2], [1], "higher", "higher")
    with pytest.raises(ValueError, match="without a value"):
        pareto_front([math.nan], [1], "higher", "higher")
    with pytest.raises(ValueError, match="'up'"):
        pareto_front([1], [1], "up", "higher")
