"""From a question and retrieved documents to an answer.

An answerer offers

    identity                       str, all that decides its answers
    answer(question, documents)    str; documents are texts, best first; "" where it has no answer
    threads                        how many questions at a time are worth it
"""

import math
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Protocol

from benchmarks.data.answers import words_of


class Answerer(Protocol):
    """See the module."""

    identity: str
    threads: int

    def answer(self, question: str, documents: Sequence[str]) -> str: ...


class Extractive:
    """The retrieved document that shares the most telling words with the question; deterministic, needs no model.

    A word tells more, the fewer of the retrieved documents have it: log(1 + documents / those with the word). Of
    documents that share equally much the one retrieved earlier is the answer; where none shares a word, the first.
    """

    identity = "extractive 1"
    threads = 1

    def answer(self, question: str, documents: Sequence[str]) -> str:
        asked = set(words_of(question))
        shared = [asked & _words(text) for text in documents]
        having = Counter(word for words in shared for word in words)
        weights = {word: math.log(1 + len(documents) / count) for word, count in having.items()}
        scores = [sum(sorted(weights[word] for word in words)) for words in shared]
        return documents[scores.index(max(scores))] if documents else ""


@lru_cache(maxsize=500_000)
def _words(text: str) -> frozenset[str]:
    return frozenset(words_of(text))


def make_answerer(name: str, environment: Mapping[str, str] = os.environ) -> Answerer:
    """The answerer of a name on the command line.

    Raises:
        UserError: what it needs is not set.
    """
    if name == "extractive":
        return Extractive()
    from benchmarks.rag.chat import ChatAnswerer

    return ChatAnswerer(environment)


NAMES = ("extractive", "openai")
