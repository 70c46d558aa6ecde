"""From a question and retrieved documents to an answer.

An answerer offers

    name                            str, part of the name of the file of verdicts
    identity                        str, all that decides its answers
    remote                          bool, whether a server is asked: its answers are kept, its prompts counted first
    threads                         int, how many questions at a time are worth it
    answer(question, documents)     str; documents are texts, best first; "" where it has no answer
    count_tokens(question, documents)   int, about, of what it sends; 0 where nothing is sent
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

    name: str
    identity: str
    remote: bool
    threads: int

    def answer(self, question: str, documents: Sequence[str]) -> str: ...

    def count_tokens(self, question: str, documents: Sequence[str]) -> int: ...


class Extractive:
    """The retrieved document that shares the most telling words with the question; deterministic, needs no model.

    A word tells more, the fewer of the retrieved documents have it: log(1 + documents / those with the word). Of
    documents that share equally much the one retrieved earlier is the answer; where none shares a word, the first.
    """

    name = "extractive"
    identity = "extractive 1"
    remote, threads = False, 1

    def answer(self, question: str, documents: Sequence[str]) -> str:
        asked = set(words_of(question))
        shared = [asked & _words(text) for text in documents]
        having = Counter(word for words in shared for word in words)
        weights = {word: math.log(1 + len(documents) / count) for word, count in having.items()}
        scores = [math.fsum(weights[word] for word in words) for words in shared]
        return documents[scores.index(max(scores))] if documents else ""

    def count_tokens(self, question: str, documents: Sequence[str]) -> int:
        return 0


class Title(Extractive):
    """The title alone of the document that `Extractive` takes: what stands before its first ": "."""

    name = "title"
    identity = "title 1"

    def answer(self, question: str, documents: Sequence[str]) -> str:
        title, colon, _ = super().answer(question, documents).partition(": ")
        return title if colon else ""


@lru_cache(maxsize=10_000)  # the documents of a few questions: these come one after the other
def _words(text: str) -> frozenset[str]:
    return frozenset(words_of(text))


OFFLINE = {answerer.name: answerer for answerer in (Extractive, Title)}
NAMES = (*OFFLINE, "openai")


def make_answerer(name: str, environment: Mapping[str, str] = os.environ) -> Answerer:
    """The answerer of a name on the command line.

    Raises:
        UserError: what it needs is not set.
    """
    if name in OFFLINE:
        return OFFLINE[name]()
    from benchmarks.rag.chat import ChatAnswerer

    return ChatAnswerer(environment)
