"""Answers that were given once are not asked for again: a file of (hash of all that decides an answer) → answer."""

import hashlib
import json
import sqlite3
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.endpoint import in_threads
from benchmarks.errors import UserError
from benchmarks.progress import Progress
from benchmarks.rag.answerers import Answerer

FILE = "answers.sqlite"
MOST_IN_A_ROW = 10  # questions without an answer, after which the server is taken to be down

Prompt = tuple[str, tuple[str, ...]]  # question and documents


class Memory:
    """Answers on disk; each is there as soon as it is given, whatever happens next."""

    def __init__(self, data_dir: Path):
        data_dir.mkdir(parents=True, exist_ok=True)
        self._path, self._lock, self._open = data_dir / FILE, threading.Lock(), True
        try:
            self._file = sqlite3.connect(self._path, check_same_thread=False, timeout=60)
            self._file.execute("CREATE TABLE IF NOT EXISTS answers (prompt TEXT PRIMARY KEY, answer TEXT NOT NULL)")
            self._file.commit()
        except sqlite3.Error as error:
            raise UserError(f"{self._path}: answers cannot be kept there ({error}); move it away") from None

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        with self._lock:  # threads may still be at it, where the run is given up
            self._file.close()
            self._open = False

    def known(self, prompt: Prompt, identity: str) -> str | None:
        """The answer, if it was given before.

        Raises:
            UserError: the file is damaged.
        """
        try:
            row = self._file.execute("SELECT answer FROM answers WHERE prompt = ?", (key(prompt, identity),)).fetchone()
        except sqlite3.Error as error:
            raise UserError(f"{self._path}: cannot be read ({error}); move it away, or free some space") from None
        return row[0] if row else None

    def keep(self, prompt: Prompt, identity: str, answer: str) -> None:
        """Write one answer down; it is on disk when this returns. One that comes after the end is let go.

        Raises:
            UserError: it cannot be written.
        """
        try:
            with self._lock:
                if not self._open:
                    return
                self._file.execute("INSERT OR REPLACE INTO answers VALUES (?, ?)", (key(prompt, identity), answer))
                self._file.commit()
        except sqlite3.Error as error:
            raise UserError(f"{self._path}: an answer cannot be kept ({error}); free some space") from None


def key(prompt: Prompt, identity: str) -> str:
    """Hash of the prompt and of who is asked."""
    return hashlib.sha256(json.dumps([identity, *prompt]).encode("utf-8", "surrogatepass")).hexdigest()


def answer_all(
    prompts: Sequence[Prompt],
    answerer: Answerer,
    memory: Memory | None,
    progress: Progress,
    confirm: Callable[[Answerer, int, int], None] = lambda answerer, prompts, tokens: None,
    what: str = "answering",
) -> tuple[list[str | None], dict[int, str]]:
    """An answer to every prompt: those that were given before from memory, the others asked for.

    A prompt without a usable answer does not end the others; several in a row do.

    Args:
        prompts: may be made where they are asked for, so that they need no memory.
        answerer: whom to ask.
        memory: where answers are kept; None asks anew each time.
        progress: shown while it asks.
        confirm: told of the answerer, and of number and tokens of the new prompts, before any is asked; raises to stop.
        what: is done, for progress.

    Returns:
        (answers, None where there is none; the reasons of these by place).

    Raises:
        UserError: the answerer seems to be out of order; what was answered is kept.
    """
    answers: list[str | None] = [None] * len(prompts)
    failed: dict[int, str] = {}
    if memory:
        answers = [memory.known(prompt, answerer.identity) for prompt in prompts]
    new = [place for place, answer in enumerate(answers) if answer is None]
    if answerer.remote and new:
        confirm(answerer, len(new), sum(answerer.count_tokens(*prompts[place]) for place in new))

    def ask(place: int) -> str | None:
        prompt = prompts[place]
        try:
            answer = answerer.answer(*prompt)
        except UserError as error:
            failed[place] = str(error)
            return None
        if memory:
            memory.keep(prompt, answerer.identity, answer)
        return answer

    in_a_row = 0
    with progress.task(what, len(new)) as task:
        for done, (number, answer) in enumerate(in_threads(ask, new, answerer.threads), 1):
            place = new[number]
            answers[place] = answer
            in_a_row = in_a_row + 1 if answer is None else 0
            if in_a_row == MOST_IN_A_ROW:
                raise UserError(f"{failed[place]}; {in_a_row} questions in a row had no answer")
            task.update(done)
    return answers, failed
