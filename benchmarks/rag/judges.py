"""Whether an answer is right. Each judge is a function of what there is to judge; the model is one that is asked."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from benchmarks.data.answers import contains_answer, normalise


@dataclass(frozen=True)
class Case:
    """One answer, and what is known of its question."""

    answer: str
    right: tuple[str, ...]  # answers that are right
    retrieved: tuple[int, ...]  # base rows that the answerer saw
    gold: np.ndarray  # base rows that answer the question


def exact(case: Case) -> bool:
    """The answer is one of the right ones, letter for letter."""
    return case.answer.strip() in case.right


def normalised(case: Case) -> bool:
    """It is one of them, or contains one word for word, but for case, accents, punctuation and articles."""
    plain = normalise(case.answer)
    return any(plain == normalise(text) for text in case.right if plain) or contains_answer(case.answer, case.right)


def gold_document(case: Case) -> bool:
    """A document that answers the question was retrieved, whatever was made of it."""
    return bool(np.isin(case.retrieved, case.gold).any())


JUDGES: dict[str, Callable[[Case], bool]] = {
    "normalised": normalised,
    "exact": exact,
    "gold-document": gold_document,
}
MODEL = "model"  # asks a chat endpoint


def agreement(first: np.ndarray, second: np.ndarray) -> tuple[float, float | None]:
    """Share of verdicts that two judges share, and Cohen's kappa (Cohen 1960); None where both say the same always.

    Args:
        first, second: bool (n).
    """
    same = float((first == second).mean())
    chance = float(first.mean() * second.mean() + (1 - first.mean()) * (1 - second.mean()))
    return same, None if chance == 1 else (same - chance) / (1 - chance)
