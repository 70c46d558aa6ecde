"""Answers and judgments from any server with OpenAI's `chat/completions`: OpenAI, Gemini, vLLM, llama.cpp, Ollama.

ROBUST_ANN_CHAT_URL    base address such as http://127.0.0.1:8080/v1
ROBUST_ANN_CHAT_MODEL  name of the model
ROBUST_ANN_CHAT_KEY    sent as bearer token; never written down
"""

import os
import re
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
    "You compare an answer to a question with references, which are right answers or passages that hold one. Reply "
    "with the one word yes if the answer agrees with one of them, in whatever words, else with the one word no."
)


class Chat:
    """One model on one server, with one instruction."""

    instruction = ""
    remote, threads = True, THREADS

    def __init__(self, environment: Mapping[str, str] = os.environ):
        self.model = environment.get(f"{PREFIX}_MODEL")
        if not self.model:
            raise UserError(f"no model is named: set {PREFIX}_MODEL (and {PREFIX}_URL, {PREFIX}_KEY)")
        self.endpoint = Endpoint.of_environment(PREFIX, environment=environment)

    @property
    def name(self) -> str:
        """Of the model, as part of a file's name."""
        return "openai-" + re.sub(r"[^A-Za-z0-9._]+", "_", self.model).strip("._")

    @property
    def identity(self) -> str:
        """Model, server and instruction: what two servers call the same need not be the same."""
        return f"openai {self.model} {self.endpoint.shown} {self.instruction}"

    def write(self, question: str, documents: Sequence[str]) -> str:
        """The message that is sent after the instruction."""
        raise NotImplementedError

    def reply(self, question: str, documents: Sequence[str]) -> str:
        """What the model says; a server that repeats the key is not repeated.

        Raises:
            UserError: the server refuses, or gave no usable answer in all attempts.
        """
        message = self.write(question, documents)
        content = {
            "model": self.model,
            "messages": [{"role": "system", "content": self.instruction}, {"role": "user", "content": message}],
            "temperature": 0,
            "max_tokens": MOST_ANSWER_TOKENS,
        }
        text = self.endpoint.ask("chat/completions", content, text_of).strip()
        return text.replace(self.endpoint.key, "…") if self.endpoint.key else text

    def count_tokens(self, question: str, documents: Sequence[str]) -> int:
        """Of one prompt, about."""
        return (len(self.instruction) + len(self.write(question, documents))) // LETTERS_PER_TOKEN


class ChatAnswerer(Chat):
    """Answers from the documents alone, as it is told to."""

    instruction = ANSWER

    def write(self, question: str, documents: Sequence[str]) -> str:
        """The documents by number, then the question."""
        listed = "\n".join(f"[{place}] {text}" for place, text in enumerate(documents, 1)) or "(none)"
        return f"Documents:\n{listed}\n\nQuestion: {question}"

    def answer(self, question: str, documents: Sequence[str]) -> str:
        reply = self.reply(question, documents)
        return "" if _word(reply) == UNKNOWN else reply


class ChatJudge(Chat):
    """Says whether an answer means the same as one that is right.

    `documents` are the answer, then the references; the answer is "yes" or "no".
    """

    instruction = JUDGE

    def write(self, question: str, documents: Sequence[str]) -> str:
        """The question, the references, and the answer to judge."""
        given, *right = documents
        references = "\n".join(f"- {text}" for text in right)
        return f"Question: {question}\n\nReferences:\n{references}\n\nAnswer: {given}"

    def answer(self, question: str, documents: Sequence[str]) -> str:
        return "yes" if re.match(r"yes\b", _word(self.reply(question, documents))) else "no"


def _word(reply: str) -> str:
    return reply.strip(" \n.\"'*").lower()


def text_of(answer: dict) -> str:
    """The text of an answer.

    Raises:
        Malformed: there is none.
        UserError: there is none because the model may not say more.
    """
    try:
        choice = answer["choices"][0]
        text, end = choice["message"]["content"], choice.get("finish_reason")
    except (KeyError, IndexError, TypeError, AttributeError):
        text = end = None
    if end == "length" and not text:
        raise UserError(f"the model used up its {MOST_ANSWER_TOKENS} tokens before it said anything; take another")
    if not isinstance(text, str):
        raise Malformed("its answer holds no text")
    return text
