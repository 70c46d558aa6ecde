import numpy as np
import pytest
from scipy import stats

from benchmarks.rag.delta import analyse, spearman

K = 10


def simulate(relative, points=8, nq=3000, exact_share=0.8, seed=0):
    """Hits and right answers: at h hits the accuracy is `relative(h / K)` of that with the exact neighbours."""
    rng = np.random.default_rng(seed)
    exact = rng.random(nq) < exact_share
    tail = np.linspace(0.02, 0.3, points)[:, None]
    hits = np.where(
        rng.random((points, nq)) < tail, rng.integers(0, 4, (points, nq)), rng.binomial(K, 0.9, (points, nq))
    )
    kept = rng.random((points, nq)) < relative(hits / K)
    return hits, kept & exact, exact


def test_levels_by_hand():
    hits = np.array([[0, 10, 10, 5], [0, 10, 5, 5]])
    correct = np.array([[0, 1, 1, 1], [0, 1, 0, 0]], bool)
    found = analyse(hits, correct, np.array([1, 1, 1, 0], bool), K)
    levels = {level.hits: level for level in found.levels}
    assert set(levels) == {0, 5, 10}
    assert (levels[0].pairs, levels[0].queries, levels[0].relative) == (2, 1, 0)
    assert (levels[5].pairs, levels[5].queries, levels[5].accuracy) == (3, 2, pytest.approx(1 / 3))
    assert levels[5].exact_accuracy == pytest.approx(1 / 3) and levels[5].relative == pytest.approx(1)
    assert levels[10].relative == pytest.approx(1)


def test_the_papers_shape_gives_the_papers_delta():
    """Relative accuracy of 0.4 at recall 0.1, 0.7 at 0.2 and above 0.91 from 0.4 on (paper, section 5.3)."""
    steps = np.array([0.05, 0.4, 0.7, 0.85, 0.92, 0.94, 0.96, 0.98, 1, 1, 1])
    found = analyse(*simulate(lambda recall: steps[np.rint(recall * K).astype(int)]), K)
    assert found.change.delta == pytest.approx(0.2) and found.change.clear
    assert found.change.low <= 0.2 <= found.change.high
    assert {level.hits: level.relative for level in found.levels}[1] == pytest.approx(0.4, abs=0.06)


def test_no_change_is_not_called_one():
    found = analyse(*simulate(lambda recall: np.full_like(recall, 0.9)), K)
    assert not found.change.clear


def test_an_even_rise_is_not_called_a_break():
    found = analyse(*simulate(lambda recall: recall, nq=20_000), K)
    assert found.change.even > 0.9 and not found.change.clear
    assert found.kept_from in (pytest.approx(0.7), pytest.approx(0.8))


def test_delta_does_not_depend_on_which_points_were_measured():
    def relative(recall):
        return np.where(recall < 0.4, 0.3, 1.0)

    hits, correct, exact = simulate(relative, points=12, nq=4000)
    few, all_of_them = analyse(hits[:3], correct[:3], exact, K).change, analyse(hits, correct, exact, K).change
    assert few.delta == all_of_them.delta == pytest.approx(0.4) and few.clear and all_of_them.clear


def test_levels_of_a_large_k_are_tenths():
    hits = np.array([[0, 9, 10, 55, 99, 100]])
    found = analyse(hits, np.ones((1, 6), bool), np.ones(6, bool), 100)
    assert [(level.recall, level.pairs, level.hits) for level in found.levels] == [
        (0, 2, 0),
        (0.1, 1, 10),
        (0.5, 1, 50),
        (0.9, 1, 90),
        (1, 1, 100),
    ]
    odd = analyse(np.array([[2, 3]]), np.ones((1, 2), bool), np.ones(2, bool), 25)
    assert [(level.recall, level.hits) for level in odd.levels] == [(0, 0), (0.1, 3)]


def test_intervals_hold_the_truth():
    inside = total = 0
    for seed in range(30):
        found = analyse(*simulate(lambda recall: 0.2 + 0.8 * recall, nq=800, seed=seed), K, seed=seed)
        for level in found.levels:
            if level.pairs > 200:
                total += 1
                inside += level.low <= 0.2 + 0.8 * level.recall <= level.high
    assert total > 100 and 0.9 < inside / total < 0.99


def test_robustness_foretells_accuracy_where_only_the_tail_matters():
    hits, correct, exact = simulate(lambda recall: (recall >= 0.4).astype(float), points=12, nq=4000)
    rng = np.random.default_rng(5)  # average recall is moved by what does not matter
    for row in range(0, 12, 2):
        hits[row] = np.where(hits[row] >= 4, rng.integers(4, 8, 4000), hits[row])
    found = {item.name: item for item in analyse(hits, correct, exact, K).predictors}
    best = found["robustness-4/10"]
    assert best.correlation > 0.95 and best.gain > 0.1 and best.gain_low > 0
    assert found["recall"].gain is None and best.low <= best.correlation <= best.high


def test_rank_correlation_is_scipys():
    rng = np.random.default_rng(0)
    values, others = rng.integers(0, 5, (20, 9)), rng.integers(0, 5, (20, 9))
    expected = [stats.spearmanr(a, b).statistic for a, b in zip(values, others, strict=True)]
    assert spearman(values, others) == pytest.approx(expected)
    assert np.isnan(spearman(np.ones((1, 4)), np.arange(4)[None]))


def test_too_little_to_say():
    found = analyse(np.full((2, 5), 10), np.ones((2, 5), bool), np.ones(5, bool), K)
    assert found.change is None and found.predictors == [] and not found.can_rank
    nothing = analyse(np.array([[0, 10]]), np.zeros((1, 2), bool), np.zeros(2, bool), K)
    assert nothing.levels[0].relative is None and nothing.change is None


@pytest.mark.parametrize(
    ("hits", "correct", "exact"),
    [([[11]], [[True]], [True]), ([[1, 2]], [[True]], [True]), ([[-1]], [[True]], [True]), ([[]], [[]], [])],
)
def test_nonsense_is_refused(hits, correct, exact):
    with pytest.raises(ValueError):
        analyse(np.array(hits), np.array(correct), np.array(exact), K)
