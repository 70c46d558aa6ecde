"""A web server on a real socket that misbehaves as it is told, and files that are too large to exist."""

import http.server
import re
import threading
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np

PATTERN = np.random.default_rng(7).bytes(999_983)  # of prime length, so that no two parts of a file look alike


@dataclass
class Served:
    """How one path answers."""

    read: Callable[[int, int], bytes]  # (first, count) → bytes
    total: int
    ranges: bool = True
    refuses: bool = False  # to answer a range request at all
    status: int | None = None  # instead of 200 and 206
    headers: dict[str, str] = field(default_factory=lambda: {"ETag": '"one"'})
    claimed: int | None = -1  # Content-Length; -1 the truth, None not stated
    ends_after: int | None = None  # bytes of every answer after which the connection is closed
    silent_after: int | None = None  # bytes of every answer after which nothing comes
    shift: int = 0  # a range is answered from this many bytes further on
    start: str | None = None  # Content-Range instead of the true one


def of_bytes(content: bytes, **how) -> Served:
    """A file as it is."""
    return Served(lambda first, count: content[first : first + count], len(content), **how)


def of_rows(rows: int, dimension: int, itemsize: int = 4, **how) -> Served:
    """A file of the big-ann family with so many rows; nothing of it exists before it is asked for."""
    header = np.array([rows, dimension], "<u4").tobytes()

    def read(first: int, count: int) -> bytes:
        if first < 8:
            return (header + PATTERN[: max(0, count - 8)])[first : first + count]
        at = (first - 8) % len(PATTERN)
        return (PATTERN[at:] + PATTERN * (count // len(PATTERN) + 1))[:count]

    return Served(read, 8 + rows * dimension * itemsize, **how)


def first_rows(rows: int, dimension: int, itemsize: int = 4) -> bytes:
    """What a crop of such a file must be."""
    size = rows * dimension * itemsize
    return np.array([rows, dimension], "<u4").tobytes() + (PATTERN * (size // len(PATTERN) + 1))[:size]


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        server: Server = self.server
        asked = self.headers.get("Range")
        server.asked.append((self.path, asked))
        served = server.files.get(self.path.split("?")[0]) or of_bytes(b"gone", status=404)
        span = re.fullmatch(r"bytes=(\d+)-(\d+)", asked or "") if served.ranges else None
        first, count, status = 0, served.total, 200
        if span:
            first, status = int(span[1]), 206
            count = min(int(span[2]) + 1, served.total) - first
            if count <= 0 or served.refuses:
                status, count = 416, 0
        self.send_response(served.status or status)
        claimed = count if served.claimed == -1 else served.claimed
        if claimed is not None:
            self.send_header("Content-Length", str(claimed))
        else:
            self.send_header("Connection", "close")
        if status == 206 and served.status in (None, 206):
            last = first + count - 1
            self.send_header("Content-Range", served.start or f"bytes {first}-{last}/{served.total}")
        for name, value in served.headers.items():
            self.send_header(name, value)
        self.end_headers()
        try:
            self.send_body(served, first + (served.shift if span else 0), count)
        except OSError:
            self.close_connection = True
        if claimed != count:
            self.close_connection = True

    def send_body(self, served: Served, first: int, count: int):
        server: Server = self.server
        sent = 0
        while sent < count:
            if served.ends_after is not None and sent >= served.ends_after:
                self.close_connection = True
                return
            if served.silent_after is not None and sent >= served.silent_after:
                server.released.wait()
                self.close_connection = True
                return
            limits = [limit - sent for limit in (count, served.ends_after, served.silent_after) if limit is not None]
            size = server.take(min(16384, *limits) if len(limits) > 1 else min(16384, limits[0]))
            if not size:
                self.close_connection = True
                return
            self.wfile.write(served.read(first + sent, size))
            sent += size

    def log_message(self, *arguments):
        pass


class Server(http.server.ThreadingHTTPServer):
    """`put(path, served)` offers a file and returns its address; `limit` is how many bytes go out in all."""

    daemon_threads = True
    block_on_close = False

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.files, self.asked, self.sent = {}, [], 0
        self.limit, self.lock = None, threading.Lock()
        self.reached, self.released = threading.Event(), threading.Event()

    def put(self, path: str, served: Served | bytes, **how) -> str:
        self.files[path] = of_bytes(served, **how) if isinstance(served, bytes) else served
        return f"http://127.0.0.1:{self.server_port}{path}"

    def stop_after(self, sent: int | None):
        """From now on let so many bytes of bodies out, then hold still; None lets everything out."""
        self.released.set()
        with self.lock:
            self.sent, self.limit = 0, sent
            self.reached, self.released = threading.Event(), threading.Event()

    def take(self, size: int) -> int:
        """How many of so many bytes may go out; 0 once the limit is lifted for the next try."""
        released = self.released
        with self.lock:
            size = size if self.limit is None else min(size, self.limit - self.sent)
            self.sent += size
        if not size:
            self.reached.set()
            released.wait()
        return size

    def handle_error(self, request, client_address):
        pass  # a client that hangs up


@contextmanager
def running():
    """A server that runs while the block does."""
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.released.set()
            server.shutdown()
            thread.join()
