"""Answers and judgments from any server with OpenAI's `chat/completions`: OpenAI, Gemini, vLLM, llama.cpp, Ollama.

ROBUST_ANN_CHAT_URL    base address such as http://127.0.0.1:8080/v1
ROBUST_ANN_CHAT_MODEL  name of the model
ROBUST_ANN_CHAT_KEY    sent as bearer token; never written down
"""

import os
from collections.abc import Mapping, Sequence

from benchmarks.endpoint import Endpoint, Malformed
from benchmarks.errors import UserError

PREFIX = "ROBUST_ANN_CHAT"
THREADS = 8  # requests at a time
UNKNOWN = "unknown"
MOST_ANSWER_TOKENS = 200
LETTERS_PER_TOKEN = 4  # of English, about; for the estimate before anything is asked

ANSWER = (
    "Answer the question from the documents below and from nothing else. What you know yourself does not count. "
    f"If they do not answer it, or there are none, reply with the one word {UNKNOWN}. "
    "Reply with the answer alone, as short as it can be."
)
JUDGE = (
    "You compare an answer to a question with reference answers. Reply with the one word yes if the answer says the "
    "same as one of them, in whatever words, and with the one word no otherwise."
)


class Chat:
    """One model on one server."""

    threads = THREADS

    def __init__(self, environment: Mapping[str, str] = os.environ):
        self.model = environment.get(f"{PREFIX}_MODEL")
        if not self.model:
            raise UserError(f"no model is named: set {PREFIX}_MODEL (and {PREFIX}_URL, {PREFIX}_KEY)")
        self.endpoint = Endpoint.of_environment(PREFIX, environment=environment)

    def reply(self, instruction: str, text: str) -> str:
        """What the model says.

        Raises:
            UserError: the server refuses, or gave no usable answer in all attempts.
        """
        content = {
            "model": self.model,
            "messages": [{"role": "system", "content": instruction}, {"role": "user", "content": text}],
            "temperature": 0,
            "max_tokens": MOST_ANSWER_TOKENS,
        }
        return self.endpoint.ask("chat/completions", content, text_of)

    def identity_of(self, instruction: str) -> str:
        """Model, server and instruction: what two servers call the same need not be the same."""
        return f"openai {self.model} {self.endpoint.shown} {instruction}"


class ChatAnswerer(Chat):
    """Answers from the documents alone, as it is told to."""

    @property
    def identity(self) -> str:
        return self.identity_of(ANSWER)

    def answer(self, question: str, documents: Sequence[str]) -> str:
        reply = self.reply(ANSWER, prompt_of(question, documents))
        return "" if reply.strip().strip(".").lower() == UNKNOWN else reply.strip()


class ChatJudge(Chat):
    """Says whether an answer means the same as one that is right."""

    @property
    def identity(self) -> str:
        return self.identity_of(JUDGE)

    def answer(self, question: str, documents: Sequence[str]) -> str:
        """`documents` are the answer, then those that are right; "yes" or "no"."""
        given, *right = documents
        references = "\n".join(f"- {text}" for text in right)
        reply = self.reply(JUDGE, f"Question: {question}\n\nReference answers:\n{references}\n\nAnswer: {given}")
        word = reply.strip().strip(".").lower()
        return "yes" if word.startswith("yes") else "no"


def prompt_of(question: str, documents: Sequence[str]) -> str:
    """The documents by number, then the question."""
    listed = "\n".join(f"[{place}] {text}" for place, text in enumerate(documents, 1)) or "(none)"
    return f"Documents:\n{listed}\n\nQuestion: {question}"


def estimate_tokens(question: str, documents: Sequence[str]) -> int:
    """Of one prompt, about."""
    return (len(ANSWER) + len(prompt_of(question, documents))) // LETTERS_PER_TOKEN


def text_of(answer: dict) -> str:
    """The text of an answer.

    Raises:
        Malformed: there is none.
    """
    try:
        text = answer["choices"][0]["message"]["content"]
    except (KeyError, IndexError, TypeError):
        text = None
    if not isinstance(text, str):
        raise Malformed("its answer holds no text")
    return text
