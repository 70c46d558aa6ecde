import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from statsmodels.stats.inter_rater import cohens_kappa

from benchmarks.rag.judges import JUDGES, Case, agreement


def judged(name, answer, right=("Paris", "the City of Light"), retrieved=(), gold=()):
    return JUDGES[name](Case(answer, right, tuple(retrieved), np.array(gold, int)))


@pytest.mark.parametrize(
    ("answer", "verdicts"),  # normalised, same, exact
    [
        ("Paris", (True, True, True)),
        (" Paris\n", (True, True, True)),
        ("paris!", (True, True, False)),
        ("City of light", (True, True, False)),
        ("It is Paris, in France.", (True, False, False)),
        ("parisian", (False, False, False)),
        ("Lyon", (False, False, False)),
        ("", (False, False, False)),
        ("...", (False, False, False)),
    ],
)
def test_what_is_right(answer, verdicts):
    assert tuple(judged(name, answer) for name in ("normalised", "same", "exact")) == verdicts


def test_a_right_answer_of_two_letters_is_the_same_but_not_looked_for():
    assert judged("normalised", "No. 7", right=("no 7",)) and not judged("normalised", "it is 7 here", right=("7",))
    assert judged("same", "7", right=("7",)) and not judged("same", "", right=("...",))


def test_gold_documents_count_whatever_was_answered():
    assert judged("gold-document", "", retrieved=(4, 7), gold=(7, 9)) is True
    assert judged("gold-document", "Paris", retrieved=(4,), gold=(7, 9)) is False


def test_where_nothing_is_known_nothing_is_judged():
    assert [judged(name, "Paris", right=()) for name in ("normalised", "same", "exact")] == [None] * 3
    assert judged("gold-document", "Paris", retrieved=(1,)) is None


@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=60))
def test_kappa_is_that_of_statsmodels(pairs):
    first, second = np.array(pairs, bool).T
    same, kappa = agreement(first, second)
    table = np.array([[np.sum((first == a) & (second == b)) for b in (False, True)] for a in (False, True)])
    assert same == pytest.approx(np.trace(table) / len(pairs))
    with np.errstate(all="ignore"):
        expected = cohens_kappa(table, return_results=False)
    assert kappa is None if np.isnan(expected) else kappa == pytest.approx(expected)
