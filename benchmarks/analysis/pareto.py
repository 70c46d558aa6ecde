"""The points that no other point beats."""

from collections.abc import Sequence
from typing import Literal

import numpy as np

Better = Literal["higher", "lower"]


def pareto_front(x: Sequence[float], y: Sequence[float], x_better: Better, y_better: Better) -> list[int]:
    """Indices of the points that no other point dominates, by ascending x.

    A point dominates another if it is at least as good on both axes and better on one. Of points that are
    equal on both axes the first is kept.

    Raises:
        ValueError: x and y differ in length, hold NaN, or a direction is neither `higher` nor `lower`.
    """
    gain_x, gain_y = _gain(x, x_better), _gain(y, y_better)
    if len(gain_x) != len(gain_y):
        raise ValueError(f"x has {len(gain_x)} values and y has {len(gain_y)}")
    front, best = [], -np.inf
    for index in np.lexsort((-gain_y, -gain_x)):  # best x first, then best y; stable, so the first of equals
        if gain_y[index] > best or not front:
            front.append(int(index))
            best = gain_y[index]
    return front[::-1] if x_better == "higher" else front


def _gain(values: Sequence[float], better: Better) -> np.ndarray:
    """Values turned so that more is better."""
    if better not in ("higher", "lower"):
        raise ValueError(f"a direction is 'higher' or 'lower', not '{better}'")
    array = np.asarray(values, dtype=float)
    if np.isnan(array).any():
        raise ValueError("points without a value cannot be ranked")
    return array if better == "higher" else -array
