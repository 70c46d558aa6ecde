"""A server with OpenAI's protocol, whoever runs it: asked with patience, by a few threads, and no key in any message.

    endpoint = Endpoint.of_environment("ROBUST_ANN_EMBEDDINGS", url=card_url)   # …_URL and …_KEY
    answer = endpoint.ask("embeddings", {"model": …, "input": […]}, check)      # a dict that `check` takes
    for place, value in in_threads(function, items, threads=4): …               # as they are done

What passes (429, 5xx, a timeout, a lost connection, an answer that is no JSON or that `check` does not take) is tried
again after a pause that doubles, or after what the server says in Retry-After; what does not (400, 401, 404) ends in
one line. Keys go into the header of a request and nowhere else.
"""

import os
import queue
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import requests

from benchmarks.errors import UserError

ATTEMPTS = 7  # of one request
PAUSE_SECONDS = 1.0  # before the second of them; then doubled
LONGEST_PAUSE_SECONDS = 60.0
TIMEOUT_SECONDS = 120.0  # without a byte
PASSING = {408, 409, 425, 429}  # and 500 to 599
SHOWN = 200  # letters of what a server says


class Malformed(Exception):
    """An answer that is not what was asked for; raised by a `check`."""


@dataclass(frozen=True)
class Endpoint:
    """Where requests go; `repr` and messages show neither the key nor a password in the address."""

    url: str = field(repr=False)
    key: str | None = field(default=None, repr=False)
    stopped: threading.Event = field(default_factory=threading.Event, repr=False, compare=False)

    @classmethod
    def of_environment(cls, prefix: str, url: str | None = None, environment: Mapping[str, str] = os.environ):
        """From `<prefix>_URL` (else `url`) and `<prefix>_KEY`; a server of one's own may need no key.

        Raises:
            UserError: no address is given, or it is none.
        """
        url = environment.get(f"{prefix}_URL") or url
        if not url:
            raise UserError(f"no endpoint is known: set {prefix}_URL, such as http://127.0.0.1:8080/v1")
        try:
            parts = urlsplit(url)
            valid = parts.scheme in ("http", "https") and bool(parts.hostname)
        except ValueError:
            valid = False
        if not valid:
            raise UserError(f"{prefix}_URL: is no http(s) address")
        key = environment.get(f"{prefix}_KEY") or None
        if key is not None and not (key.isascii() and key.isprintable()):
            raise UserError(f"{prefix}_KEY: holds letters that a key cannot have, or a line break")
        return cls(url, key)

    @property
    def shown(self) -> str:
        """The address without user, password and query."""
        parts = urlsplit(self.url)
        return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path.rstrip("/"), "", ""))

    def ask(self, path: str, content: dict, check: Callable[[dict], Any] = lambda answer: answer) -> Any:
        """POST `content` as JSON; what `check` makes of the answer.

        Raises:
            UserError: the server refuses it, or did not give a usable answer in all attempts.
        """
        trouble, pause = "", 0.0
        for attempt in range(ATTEMPTS):
            if attempt:
                self._wait(pause)
            pause = min(PAUSE_SECONDS * 2**attempt, LONGEST_PAUSE_SECONDS)
            try:
                answer = self._post(path, content)
            except requests.RequestException as error:
                trouble = f"no answer for {TIMEOUT_SECONDS:g} s" if _timed_out(error) else "no connection"
                continue
            if answer.status_code in PASSING or answer.status_code >= 500:
                trouble = f"it answers {answer.status_code} {answer.reason}"
                pause = _asked_pause(answer, pause)
                continue
            if answer.status_code != 200:
                said = self._said(answer)
                raise UserError(f"{self.shown}/{path}: answers {answer.status_code} {answer.reason}{said}")
            try:
                return check(_json(answer))
            except Malformed as error:
                trouble = str(error)
        raise UserError(f"{self.shown}/{path}: {trouble}, {ATTEMPTS} times; run again when it does, nothing is lost")

    def _post(self, path: str, content: dict) -> requests.Response:
        parts = urlsplit(self.url)
        url = urlunsplit(parts._replace(path=f"{parts.path.rstrip('/')}/{path}"))
        return requests.post(url, json=content, auth=self._sign, timeout=TIMEOUT_SECONDS, allow_redirects=False)

    def _sign(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        # Not as a header of the call: a .netrc of the user would take its place.
        if self.key:
            request.headers["Authorization"] = f"Bearer {self.key}"
        return request

    def _wait(self, seconds: float) -> None:
        if self.stopped.wait(seconds):
            raise UserError(f"{self.shown}: was given up")

    def _said(self, answer: requests.Response) -> str:
        """What the server says, in part; a server that repeats the key is not repeated."""
        text = " ".join(answer.text.split())
        if self.key:
            text = text.replace(self.key, "…")
        return f" ({text[:SHOWN]})" if text else ""


def _timed_out(error: Exception) -> bool:
    return isinstance(error, requests.Timeout) or "timed out" in str(error)


def _asked_pause(answer: requests.Response, pause: float) -> float:
    """Seconds that the server asks for, where it does and they are not too many."""
    try:
        return min(max(0.0, float(answer.headers["Retry-After"])), LONGEST_PAUSE_SECONDS)
    except (KeyError, ValueError):
        return pause


def _json(answer: requests.Response) -> dict:
    try:
        content = answer.json()
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict):
        raise Malformed("its answer is no JSON object")
    return content


def in_threads(function: Callable, items: Iterable, threads: int, stopped: threading.Event | None = None) -> Iterator:
    """(place of the item, its value) as soon as each is done, by so many threads at a time.

    After an error, Ctrl-C, or when the caller takes no more, no further item is begun and `stopped` is set.

    Raises:
        what the function raises first.
    """
    todo, done = iter(enumerate(items)), queue.Queue()
    stopped, lock = stopped or threading.Event(), threading.Lock()

    def work():
        while not stopped.is_set():
            with lock:
                item = next(todo, None)
            if item is None:
                break
            try:
                done.put((item[0], function(item[1]), None))
            except BaseException as error:
                done.put((item[0], None, error))
                break
        done.put(None)

    # They are daemons, so that Ctrl-C does not wait for a server.
    for _ in range(threads):
        threading.Thread(target=work, daemon=True).start()
    left = threads
    try:
        while left:
            try:
                item = done.get(timeout=0.2)  # a wait without end is not ended by Ctrl-C
            except queue.Empty:
                continue
            if item is None:
                left -= 1
            elif item[2] is not None:
                raise item[2]
            else:
                yield item[:2]
    finally:
        stopped.set()
