"""Answers as words: when two are the same, and which documents contain one.

The rules are those that question answering is scored by: case, accents, punctuation and articles do not count, and an
answer is found where its words stand one after the other (Karpukhin et al., Dense Passage Retrieval, EMNLP 2020).

    normalise("The Café!") == normalise("cafe") == "cafe"
    gold = find_containing(documents, answers)          # base rows for every question, ascending
    contains_answer("She was born in Paris.", ["paris"])
"""

import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence

ARTICLES = {"a", "an", "the"}
LEAST_LETTERS = 3  # of an answer that is looked for in documents: shorter ones are found by chance
WORDS = re.compile(r"[^\W_]+")


def words_of(text: str) -> list[str]:
    """The words of a text, in lower case, without accents, punctuation and articles."""
    plain = text.lower() if text.isascii() else _plain(text)
    return [word for word in WORDS.findall(plain) if word not in ARTICLES]


def _plain(text: str) -> str:
    """Letters without case and accents; what is one sign for several letters becomes these."""
    text = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", text).casefold())
    return "".join(letter for letter in text if not unicodedata.combining(letter))


def normalise(text: str) -> str:
    """The same as one string; two answers are the same where these are equal."""
    return " ".join(words_of(text))


def contains_answer(text: str, answers: Iterable[str]) -> bool:
    """Whether one of the answers stands in the text, word for word."""
    return bool(_found(_tree([answers]), text))


def find_containing(
    documents: Sequence[str], answers: Sequence[Iterable[str]], advance: Callable[[int], None] = lambda amount: None
) -> list[list[int]]:
    """Rows of the documents that contain an answer of a question, for every question, ascending.

    Args:
        documents: texts.
        answers: of every question; those of fewer than three letters are not looked for.
        advance: told of documents.
    """
    tree = _tree(answers)
    found: list[list[int]] = [[] for _ in answers]
    for row, text in enumerate(documents):
        for question in _found(tree, text):
            found[question].append(row)
        advance(1)
    return found


def _tree(answers: Sequence[Iterable[str]]) -> dict:
    """Words under words; under "" are the numbers of the questions whose answer ends there."""
    tree: dict = {}
    for question, texts in enumerate(answers):
        for text in texts:
            words = words_of(text)
            if sum(map(len, words)) < LEAST_LETTERS:
                continue
            branch = tree
            for word in words:
                branch = branch.setdefault(word, {})
            branch.setdefault("", set()).add(question)
    return tree


def _found(tree: dict, text: str) -> set[int]:
    """Numbers of the questions of which an answer stands in the text."""
    words, found = words_of(text), set()
    for start, word in enumerate(words):
        branch, end = tree.get(word), start + 1
        while branch is not None:
            found |= branch.get("", set())
            branch = branch.get(words[end]) if end < len(words) else None
            end += 1
    return found
