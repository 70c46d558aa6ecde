"""What a number of queries can show, and what it cannot: said before a claim is made that n does not carry."""

import math
from statistics import NormalDist

from benchmarks.statistics.intervals import CONFIDENCE, two_sided_z

ALPHA, POWER = 0.05, 0.8


def largest_provable_share(n: int, confidence: float = CONFIDENCE) -> float:
    """The largest share that n queries can support: the lower end of Wilson's interval if every one of them reaches it.

    1,000 queries support at most 0.9962, 100,000 at most 0.99996.
    """
    return n / (n + two_sided_z(confidence) ** 2)


def queries_to_prove(share: float, confidence: float = CONFIDENCE) -> int:
    """Fewest queries that could support a share, if every one of them reached it; the inverse of the above.

    Raises:
        ValueError: the share is not within [0, 1), so that no number could.
    """
    if not 0 <= share < 1:
        raise ValueError(f"no number of queries proves a share of {share:g}")
    return max(1, math.ceil(two_sided_z(confidence) ** 2 * share / (1 - share) - 1e-6))


def unsupported(share: float, n: int, confidence: float = CONFIDENCE) -> str | None:
    """One line that says that n queries cannot show a share, and how many could; None where they can."""
    limit = largest_provable_share(n, confidence)
    if share <= limit:
        return None
    if share >= 1:
        return f"{n:,} queries cannot show {share:g}, only more than {limit:.4g}"
    return (
        f"{n:,} queries cannot show {share:g}: if all of them reached it, they would show {limit:.4g}; "
        f"{queries_to_prove(share, confidence):,} or more could"
    )


def detectable_difference(n: int, square: float, alpha: float = ALPHA, power: float = POWER) -> float:
    """Smallest true difference of two paired means that a two-sided test of n pairs finds with this power.

    Args:
        n: pairs.
        square: mean of the squared differences of the pairs. Where values are 0 and 1 it is the share of pairs that
            differ, and this is Connor's formula for McNemar's test (Biometrics 43, 1987). At least the difference
            itself is taken for it: no smaller one can make a difference of whole queries.

    Returns:
        a difference in the unit of the values, at most 1.
    """
    normal = NormalDist()
    z_alpha, z_power = normal.inv_cdf(1 - alpha / 2), normal.inv_cdf(power)

    def found(difference: float) -> bool:
        spread = max(square, difference)
        return difference * math.sqrt(n) >= z_alpha * math.sqrt(spread) + z_power * math.sqrt(
            max(0.0, spread - difference**2)
        )

    low, high = 0.0, 1.0
    if not found(high):
        return 1.0
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (low, middle) if found(middle) else (middle, high)
    return high


def queries_to_detect(difference: float, square: float, alpha: float = ALPHA, power: float = POWER) -> int:
    """Fewest queries with which a true difference of this size is found; arguments as of `detectable_difference`.

    Raises:
        ValueError: the difference is not within (0, 1].
    """
    if not 0 < difference <= 1:
        raise ValueError(f"a difference to detect lies above 0 and is at most 1, not {difference:g}")
    normal = NormalDist()
    spread = max(square, difference)
    roots = normal.inv_cdf(1 - alpha / 2) * math.sqrt(spread) + normal.inv_cdf(power) * math.sqrt(
        max(0.0, spread - difference**2)
    )
    return math.ceil((roots / difference) ** 2 - 1e-6)
