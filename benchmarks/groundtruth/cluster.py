"""Exact ground truth by the workers of a Dask cluster, bit for bit that of one machine.

Each task finds the exact neighbours among some rows of the base, which every worker reads from a file system that it
shares with this machine. The lists are merged in a tree, on the workers too. What a lost worker had is computed again.
"""

import hashlib
import logging
import pickle
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from time import monotonic, sleep
from urllib.parse import urlsplit

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.data.vectors import VectorFile
from benchmarks.errors import UserError
from benchmarks.groundtruth.exact import Truth, exact_neighbors

SHARDS, LEAST_ROWS = 8, 1 << 16  # shards a thread of the cluster, unless they would be smaller than that
SHARD_WORK = 1 << 39  # products in a shard, at most: some ten seconds, that being what goes on after Ctrl-C
SHARD_BYTES = 1 << 30  # of the base in a shard, at most: what a worker maps of it counts against its memory limit
FAN_IN = 4  # lists that are merged at a time
CONNECT_SECONDS = 10
NO_WORKER_SECONDS = 30  # a worker that died may be started again
RESULT_SECONDS = 600
SAMPLE_BLOCKS, SAMPLE_BYTES = 64, 4096
INSTALL = ".venv/bin/python -m pip install -e '.[cluster]'"


@dataclass(frozen=True)
class Job:
    """What all tasks of a run have in common."""

    base: VectorFile
    queries: VectorFile
    distance: str
    depth: int
    files: dict[Path, tuple[int, int, str]]  # as `look` saw them here
    engine: str


def cluster_neighbors(
    address: str,
    base: VectorFile,
    queries: VectorFile,
    distance: str,
    depth: int,
    progress: Callable[[int, int], None] | None = None,
) -> Truth:
    """`exact_neighbors` of two files by the workers of the Dask scheduler at `address`, such as tcp://host:8786.

    `progress(done, total)` is called in the caller's thread, in comparisons of a query with a row, as shards end.

    Raises:
        UserError: Dask is not installed here, the scheduler cannot be reached or is lost, there is no worker for
            `NO_WORKER_SECONDS`, a worker lacks this package or has another version of it, or does not see the files.
    """
    job = Job(base, queries, distance, depth, {file.path: look(file.path) for file in (base, queries)}, engine())
    with _connected(address) as client:
        waited = _Waited(client)
        while not waited.threads():
            sleep(0.2)
        rows = split(base, queries, waited.threads())
        task, merged = _tasks()
        sent = pickle.dumps(job)
        shards = {client.submit(task, sent, some, pure=False): len(some) for some in rows}
        lists = list(shards)
        while len(lists) > 1:  # merges go first: they free memory
            groups = [lists[at : at + FAN_IN] for at in range(0, len(lists), FAN_IN)]
            lists = [client.submit(merged, group, depth, pure=False, priority=1) for group in groups]
        (last,) = lists
        del lists  # a list that is merged is no longer wanted: were its worker lost, it need not be computed again
        done = 0
        while not last.done():
            for shard in [shard for shard in shards if shard.status == "finished"]:
                done += shards.pop(shard) * queries.rows
            if progress is not None:
                progress(done, base.rows * queries.rows)
            waited.threads()
            sleep(0.2)
        if last.status == "error":
            raise _explained(last.exception()) from None
        return Truth(**last.result(timeout=RESULT_SECONDS))


def split(base: VectorFile, queries: VectorFile, threads: int) -> list[range]:
    """Rows of the base, cut into shards of nearly the same size."""
    most = min(
        -(-base.rows // (SHARDS * threads)),
        SHARD_WORK // (queries.rows * base.dimension),
        SHARD_BYTES // (base.dimension * np.dtype(base.dtype).itemsize),
    )
    count = -(-base.rows // max(LEAST_ROWS, most))
    ends = [base.rows * i // count for i in range(count + 1)]
    return [range(start, stop) for start, stop in zip(ends, ends[1:], strict=False)]


def _tasks() -> tuple[Callable, Callable]:
    """Functions that Dask sends by value, as they are local, and whose arguments and results are of numpy or builtin.

    A worker without this package then fails in the task; if it could not read the task it would end, without a word.
    """

    def shard(job: bytes, rows: range) -> dict[str, np.ndarray]:
        import pickle

        from benchmarks.groundtruth.cluster import shard_truth

        return vars(shard_truth(pickle.loads(job), rows))

    def merged(lists: list[dict[str, np.ndarray]], depth: int) -> dict[str, np.ndarray]:
        from benchmarks.groundtruth.exact import Truth, merge

        return vars(merge([Truth(**arrays) for arrays in lists], depth))

    return shard, merged


def shard_truth(job: Job, rows: range) -> Truth:
    """What a worker does: the exact neighbours among some rows, with one thread.

    Raises:
        UserError: program or files are not those of the machine that asks.
    """
    if engine() != job.engine:
        raise UserError(f"the worker on {socket.gethostname()} has another version of this package, or of numpy")
    _require_same(job)
    # For good: were it undone at the end of a task, BLAS would take all CPUs for the worker's other tasks.
    threadpool_limits(1, user_api="blas")
    truth = exact_neighbors(job.base, job.queries, job.distance, job.depth, rows=rows)
    _require_same(job)
    return truth


@cache
def engine() -> str:
    """What decides the distances to the last bit: this folder's code, and numpy."""
    code = sorted(Path(__file__).parent.glob("*.py"))
    return hashlib.sha256(b"".join(file.read_bytes() for file in code) + np.__version__.encode()).hexdigest()


def look(path: Path) -> tuple[int, int, str]:
    """Size, time of modification (ns), and a hash of blocks that are evenly spread over the file."""
    stat, digest = path.stat(), hashlib.sha256()
    with path.open("rb", buffering=0) as file:
        for i in range(SAMPLE_BLOCKS):
            file.seek(max(0, stat.st_size - SAMPLE_BYTES) * i // (SAMPLE_BLOCKS - 1))
            digest.update(file.read(SAMPLE_BYTES))
    return stat.st_size, stat.st_mtime_ns, digest.hexdigest()


def _require_same(job: Job) -> None:
    where = f"on the worker on {socket.gethostname()}"
    for path, seen in job.files.items():
        try:
            same = look(path) == seen
        except OSError as error:
            raise UserError(
                f"{path}: cannot be read {where} ({error.strerror}); the workers must see it under this path"
            ) from None
        if not same:
            raise UserError(f"{path}: {where} it is not the file that it is here; size, times or content differ")


@contextmanager
def _connected(address: str) -> Iterator:
    """A client of the scheduler; when it is closed, the scheduler forgets all its tasks."""
    try:
        from distributed import CancelledError, Client
    except ImportError:
        raise UserError(f"--scheduler: Dask is not installed here; {INSTALL}") from None
    silent = UserError(f"--scheduler: no Dask scheduler answers at {address} within {CONNECT_SECONDS} s")
    # Tried first: Dask's client waits for ever for something else that listens there, whatever its timeout.
    host, port = _host_and_port(address)
    try:
        with socket.create_connection((host, port), CONNECT_SECONDS) as connection:
            if address.startswith("tcp:") and not connection.recv(1):  # a scheduler speaks first, but for TLS
                raise OSError
    except OSError:
        raise silent from None
    logging.getLogger("distributed").setLevel(logging.CRITICAL)  # a lost connection is told once, and by us
    try:
        client = Client(address, timeout=CONNECT_SECONDS, set_as_default=False)
    except (OSError, ValueError, TimeoutError):
        raise silent from None
    try:
        yield client
    except (OSError, TimeoutError, CancelledError) as error:
        raise UserError(f"--scheduler: {address} was lost ({error or type(error).__name__}); run again") from None
    finally:
        client.close(timeout=CONNECT_SECONDS)


def _host_and_port(address: str) -> tuple[str, int]:
    try:
        parts = urlsplit(address)
        if parts.scheme in ("tcp", "tls") and parts.hostname and parts.port:
            return parts.hostname, parts.port
    except ValueError:
        pass  # no such port
    raise UserError(f"--scheduler: '{address}' is no address like tcp://HOST:8786")


class _Waited:
    """How long there has been no worker."""

    def __init__(self, client):
        self.client, self.last = client, monotonic()

    def threads(self) -> int:
        """Of all workers. Raises UserError if there is none for too long."""
        threads = sum(self.client.nthreads().values())
        if threads:
            self.last = monotonic()
        elif monotonic() - self.last > NO_WORKER_SECONDS:
            raise UserError(
                f"--scheduler: {self.client.scheduler.address} has had no worker for {NO_WORKER_SECONDS} s; start some "
                "with `dask worker`"
            )
        return threads


def _explained(error: BaseException) -> BaseException:
    """What the user can mend, if that is so."""
    from distributed import KilledWorker

    if isinstance(error, KilledWorker):
        return UserError(f"--scheduler: the same shard ended several workers ({error}); give them more memory")
    if isinstance(error, OSError):
        return UserError(f"--scheduler: a worker failed: {error}")
    if isinstance(error, ImportError):
        return UserError(
            f"--scheduler: a worker cannot import this package ({error}); start it as `.venv/bin/dask worker` of this "
            "folder, or of a copy"
        )
    return error
