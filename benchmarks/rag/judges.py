"""Whether an answer is right. Each judge is a function of what there is to judge; the model is one that is asked.

A judge gives None where it has nothing to judge by: no right answer of the question is known, or no gold document.
"""

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


def exact(case: Case) -> bool | None:
    """The answer is one of the right ones, letter for letter."""
    return case.answer.strip() in case.right if case.right else None


def normalised(case: Case) -> bool | None:
    """It is one of them, or contains one word for word, but for case, accents, punctuation and articles."""
    if not case.right:
        return None
    plain = normalise(case.answer)
    return (bool(plain) and plain in map(normalise, case.right)) or contains_answer(case.answer, case.right)


def same(case: Case) -> bool | None:
    """It is one of them, but for case, accents, punctuation and articles."""
    return bool(plain := normalise(case.answer)) and plain in map(normalise, case.right) if case.right else None


def gold_document(case: Case) -> bool | None:
    """A document that answers the question was retrieved, whatever was made of it."""
    return bool(np.isin(case.retrieved, case.gold).any()) if len(case.gold) else None


JUDGES: dict[str, Callable[[Case], bool | None]] = {
    "normalised": normalised,
    "same": same,
    "exact": exact,
    "gold-document": gold_document,
}
NEEDS_NO_ANSWER = ("gold-document",)
MODEL = "model"  # asks a chat endpoint


def agreement(first: np.ndarray, second: np.ndarray) -> tuple[float, float | None]:
    """Share of verdicts that two judges share, and Cohen's kappa (Cohen 1960); None where both say the same always.

    Args:
        first, second: bool (n).
    """
    same = float((first == second).mean())
    chance = float(first.mean() * second.mean() + (1 - first.mean()) * (1 - second.mean()))
    return same, None if chance == 1 else (same - chance) / (1 - chance)
