"""One file over HTTP, in parallel ranges, that goes on where it was interrupted, however that happened.

The bytes grow in `data`, and `state.json` beside it says how many there are of each part; what it says is there was
synced before. A file that changes on the server between two requests is noticed, never mixed.
"""

import json
import os
import queue
import re
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from threading import Event, Thread

import requests

from benchmarks.errors import UserError
from benchmarks.files import naming, require_space
from benchmarks.progress import Progress, Task

BLOCK = 1 << 16
PART_BYTES = 64 << 20  # a range request asks for at most one part
STREAMS = 4  # range requests at a time
HEAD_BYTES = 4096  # of the first request, from which everything else is planned
TIMEOUT_SECONDS = 30  # without a single byte
ATTEMPTS = 3  # of a part, in a row without progress
PAUSE_SECONDS = 1.0  # before the second of them; then doubled
SAVE_SECONDS = 2.0  # between two states on disk: what a crash can cost
HEADERS = {"Accept-Encoding": "identity", "User-Agent": "robust-ann-benchmarks"}
PAGES = (b"<!doctype", b"<html", b"<?xml")  # how an error page begins


class Unavailable(UserError):
    """This address does not give the file; another may."""


class _Trouble(Exception):
    """The same, without the address."""


class _Changed(_Trouble):
    """The file on the server is not the one of which parts are here."""


@dataclass(frozen=True)
class Kept:
    """What is wanted of a file: bytes up to `end` (all if None), the first of them replaced by `head`."""

    end: int | None
    head: bytes = b""


Choose = Callable[[bytes, int | None], Kept]  # (first bytes, size of the whole if known) → what is wanted


@dataclass(frozen=True)
class _Remote:
    """By what a file on a server is known to be the same again."""

    total: int | None
    etag: str | None
    modified: str | None


def download(url: str, folder: Path, progress: Progress, choose: Choose = lambda head, total: Kept(total)) -> Path:
    """Fetch what `choose` wants of a file into `folder`; the same call goes on after an interruption.

    Args:
        url: http(s) address.
        folder: made if need be; the caller removes it once the file is taken out.
        progress: told of bytes.
        choose: by default everything is wanted.

    Returns:
        The complete file, inside `folder`.

    Raises:
        Unavailable: no answer, not a file, or it ends early. What can be gone on with is kept.
        UserError: the disk has too little space.
    """
    try:
        with requests.Session() as session:
            with _ask(session, url, 0, HEAD_BYTES - 1) as answer:
                if answer.status_code == 200:  # the server knows no ranges: this is the file
                    return _stream(url, answer, folder, progress, choose)
                if answer.status_code == 206:
                    remote = _Remote(_content_range(answer, 0), *_validators(answer))
                    kept = choose(_read_head(answer.iter_content(BLOCK)), remote.total)
                    if kept.end is not None:
                        return _in_ranges(url, folder, remote, kept, progress)
            with _ask(session, url) as answer:  # an empty file, or one of unknown size
                return _stream(url, answer, folder, progress, choose)
    except _Changed:
        shutil.rmtree(folder, ignore_errors=True)
        raise Unavailable(
            f"{url}: the file was replaced on the server while it was fetched; its parts do not go together and were "
            "thrown away, run again"
        ) from None
    except _Trouble as trouble:
        raise Unavailable(f"{url}: {trouble}") from None


def _finish(data: Path, head: bytes) -> Path:
    with naming(data), data.open("r+b") as file:
        file.write(head)
        file.flush()
        os.fsync(file.fileno())
    return data


# --- one request ----------------------------------------------------------------------------------------------------


@contextmanager
def _ask(session: requests.Session, url: str, first: int | None = None, last: int | None = None):
    """An answer with status 200, 206 or 416, never a web page; what breaks while it is read is a `_Trouble`."""
    headers = HEADERS if first is None else {**HEADERS, "Range": f"bytes={first}-{last}"}
    try:
        with session.get(url, stream=True, timeout=TIMEOUT_SECONDS, headers=headers) as answer:
            if answer.status_code not in ((200,) if first is None else (200, 206, 416)):
                raise _Trouble(f"the server answered {answer.status_code} {answer.reason}")
            if answer.headers.get("Content-Encoding", "identity") != "identity":
                raise _Trouble(f"the server sends it packed ({answer.headers['Content-Encoding']})")
            if answer.status_code != 416 and answer.headers.get("Content-Type", "").startswith("text/html"):
                raise _Trouble("the server sent a web page, not a file")
            yield answer
    except (requests.RequestException, UnicodeError) as error:
        if isinstance(error, requests.Timeout) or "timed out" in str(error):
            reason = f"nothing came for {TIMEOUT_SECONDS:g} s"
        elif isinstance(error, requests.exceptions.ChunkedEncodingError):
            reason = "the connection ended early"
        elif type(error) is requests.ConnectionError:
            reason = "no connection"
        else:
            reason = type(error).__name__
        raise _Trouble(f"cannot be fetched ({reason})") from None


def _read_head(blocks: Iterator[bytes]) -> bytes:
    """At least HEAD_BYTES, if there are so many."""
    head = b""
    while len(head) < HEAD_BYTES and (block := next(blocks, b"")):
        head += block
    if head.lstrip()[:9].lower().startswith(PAGES):
        raise _Trouble("the server sent a web page, not a file")
    return head


def _content_range(answer: requests.Response, first: int) -> int | None:
    """Size of the whole file of which a server sends a part, if it knows; the part must begin where it was asked to."""
    found = re.fullmatch(r"bytes (\d+)-\d+/(\d+|\*)", answer.headers.get("Content-Range", "").strip())
    if not found:
        raise _Trouble("the server does not say which part of the file it sends")
    if int(found[1]) != first:
        raise _Trouble(f"the server sends from byte {found[1]} on, not from {first}")
    return None if found[2] == "*" else int(found[2])


def _validators(answer: requests.Response) -> tuple[str | None, str | None]:
    return answer.headers.get("ETag"), answer.headers.get("Last-Modified")


# --- without ranges -------------------------------------------------------------------------------------------------


def _stream(url: str, answer: requests.Response, folder: Path, progress: Progress, choose: Choose) -> Path:
    """Take a file as it comes, no further than is wanted; of this nothing is left by an interruption."""
    length = answer.headers.get("Content-Length", "")
    blocks = answer.iter_content(BLOCK)
    head = _read_head(blocks)
    kept = choose(head, int(length) if length.isdigit() else None)
    data, size = folder / "data", 0
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        require_space(folder, kept.end or 0, url)
        with naming(data), data.open("wb") as file, _bar(progress, url, kept.end) as task:
            block = head
            while block and size != kept.end:
                size += file.write(block if kept.end is None else block[: kept.end - size])
                task.update(size)
                block = b"" if size == kept.end else next(blocks, b"")
        if kept.end is not None and size != kept.end:
            raise _Trouble(f"{size} of {kept.end} bytes arrived; run again")
        return _finish(data, kept.head)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _bar(progress: Progress, url: str, total: int | None, done: int = 0):
    name = url.split("?")[0].rsplit("/", 1)[-1]
    return progress.task(f"fetching {name}", total, unit="bytes", done=done)


# --- in ranges ------------------------------------------------------------------------------------------------------


def _in_ranges(url: str, folder: Path, remote: _Remote, kept: Kept, progress: Progress) -> Path:
    data = folder / "data"
    with naming(data):
        done = _resume(folder, remote, kept.end)
        require_space(folder, kept.end - sum(done), url)
        with _bar(progress, url, kept.end, sum(done)) as task:
            _Transfer(url, folder, remote, kept.end, done).run(task)
    return _finish(data, kept.head)


def _sizes(end: int) -> list[int]:
    """Bytes of each part."""
    return [min(PART_BYTES, end - first) for first in range(0, end, PART_BYTES)]


def _resume(folder: Path, remote: _Remote, end: int) -> list[int]:
    """Bytes that are there of each part; `data` has its full size afterwards, with holes."""
    data, sizes = folder / "data", _sizes(end)
    try:
        state = json.loads((folder / "state.json").read_text())
        before, done = _Remote(**state["remote"]), state["done"]
        if state["end"] == data.stat().st_size and len(done) == len(_sizes(state["end"])):
            if (before, state["end"]) != (remote, end):
                raise _Changed
            if all(0 <= there <= size for there, size in zip(done, sizes, strict=True)):
                return done
    except (OSError, ValueError, TypeError, KeyError):
        pass  # nothing is there, or nothing that can be trusted
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "state.json").unlink(missing_ok=True)
    with data.open("wb") as file:
        file.truncate(end)
    return [0] * len(sizes)


class _Transfer:
    """Some threads, each with a range request of its own, and the caller, who keeps the books."""

    def __init__(self, url: str, folder: Path, remote: _Remote, end: int, done: list[int]):
        self.url, self.folder, self.remote, self.end, self.done = url, folder, remote, end, done
        self.data, self.sizes = folder / "data", _sizes(end)
        self.stopped, self.failure = Event(), None
        self.todo: queue.SimpleQueue[int] = queue.SimpleQueue()
        for part, size in enumerate(self.sizes):
            if done[part] < size:
                self.todo.put(part)
        # Daemons: one that waits for a silent server must not keep the process from ending.
        self.threads = [Thread(target=self._work, daemon=True) for _ in range(min(STREAMS, self.todo.qsize()))]

    def run(self, task: Task) -> None:
        """Return when everything is there; raise what stopped it."""
        try:
            saved = time.monotonic()
            for thread in self.threads:
                thread.start()
            while not self.failure and (running := [thread for thread in self.threads if thread.is_alive()]):
                running[0].join(0.1)
                task.update(sum(self.done))
                if time.monotonic() - saved > SAVE_SECONDS:
                    self._save()
                    saved = time.monotonic()
        finally:
            self.stopped.set()
            for thread in self.threads:
                thread.join(0.5)
            self._save()
        if self.failure:
            raise self.failure

    def _save(self) -> None:
        done = list(self.done)  # before the sync: what is written meanwhile does not count
        with self.data.open("r+b") as file:
            os.fsync(file.fileno())
        partial = self.folder / "state.partial"
        with partial.open("w") as file:
            json.dump({"remote": asdict(self.remote), "end": self.end, "done": done}, file)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(self.folder / "state.json")

    def _work(self) -> None:
        try:
            with requests.Session() as session, self.data.open("r+b") as file:
                while not self.stopped.is_set():
                    self._fetch(session, file, self.todo.get_nowait())
        except queue.Empty:
            pass
        except BaseException as error:
            self.failure = self.failure or error
            self.stopped.set()

    def _fetch(self, session: requests.Session, file, part: int) -> None:
        """One part, in as many requests as it takes, as long as they bring something."""
        failures, size, first = 0, self.sizes[part], part * PART_BYTES
        while self.done[part] < size and not self.stopped.is_set():
            before, trouble = self.done[part], "the connection ended early"
            try:
                self._receive(session, file, part)
            except _Changed:
                raise
            except _Trouble as error:
                trouble = str(error)
            if self.done[part] == size or self.stopped.is_set():
                return
            failures = 0 if self.done[part] - before >= BLOCK else failures + 1
            if failures == ATTEMPTS:
                raise _Trouble(
                    f"{trouble}, at byte {first + self.done[part]} of {self.end}; what has arrived is kept, "
                    "run again to go on"
                )
            self.stopped.wait(PAUSE_SECONDS * failures)

    def _receive(self, session: requests.Session, file, part: int) -> None:
        size, first = self.sizes[part], part * PART_BYTES
        with _ask(session, self.url, first + self.done[part], first + size - 1) as answer:
            if answer.status_code == 416:
                raise _Changed
            if answer.status_code == 200:
                raise _Trouble("the server sends the whole file where a part is asked for")
            if _Remote(_content_range(answer, first + self.done[part]), *_validators(answer)) != self.remote:
                raise _Changed
            for block in answer.iter_content(BLOCK):
                block = block[: size - self.done[part]]
                file.seek(first + self.done[part])
                file.write(block)
                file.flush()
                self.done[part] += len(block)
                if self.done[part] == size or self.stopped.is_set():
                    return
