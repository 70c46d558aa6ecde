import atexit
import os
import re
import time
import uuid
import zlib
from pathlib import Path
from urllib.parse import urlsplit

import grpc
import numpy as np

from benchmarks.worker import Algorithm

URI, TOKEN = os.environ["MILVUS_URI"], os.environ.get("MILVUS_TOKEN", "")
os.environ["MILVUS_URI"] = ""  # pymilvus reads it too, and where it is wrong shows it, password and all
from pymilvus import DataType, MilvusClient, MilvusException  # noqa: E402

os.environ["MILVUS_URI"] = URI

CONNECT_SECONDS = 10
CALL_SECONDS = 60  # for a call that only asks or sends
WORK_SECONDS = 600  # for the server's own work, or for progress with it
DROP_SECONDS = 4  # at the end of a worker, which is not waited for much longer
MOST_QUERIES = 16384  # in one search
MESSAGE_BYTES = 16 << 20  # of vectors or answers in one message; a server's limit is 64 MB
PREFIX = "robust_ann_"


def process_space():
    """Names the processes among which a process id has a meaning: those of this boot and this pid namespace."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text()
        return format(zlib.crc32(f"{boot}{os.stat('/proc/self/ns/pid').st_ino}".encode()), "08x")
    except OSError:
        return uuid.uuid4().hex[:8]


def words(error):
    """What the server or the client says, on one line, without address and token."""
    text = " ".join((getattr(error, "message", "") or str(error)).split())
    for secret in (URI, TOKEN, urlsplit(URI).netloc, urlsplit(URI).netloc.split("@")[-1]):
        text = text.replace(secret, "***") if secret else text
    return text[:300]


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


class Milvus(Algorithm):
    """One collection on the server, which belongs to this worker and is dropped when it ends.

    `threads` and `seed` bind the client alone: a server has its own threads, and gives no way to set a seed.
    """

    always = {}  # search parameters

    def build(self, base, *, distance, threads, seed, learn=None, **build_params):
        self.connect()
        self.drop_strays()
        self.name, self.metric = f"{PREFIX}{process_space()}_{os.getpid()}_{uuid.uuid4().hex[:8]}", distance.upper()
        schema = MilvusClient.create_schema(auto_id=False)
        schema.add_field("id", DataType.INT64, is_primary=True)
        schema.add_field("vector", DataType.FLOAT_VECTOR, dim=base.shape[1])
        atexit.register(self.drop)
        # All rows are there before the first search, so there is nothing for a search to wait for.
        self.ask("create_collection", self.name, schema=schema, num_shards=1, consistency_level="Eventually")
        rows = max(1, MESSAGE_BYTES // (4 * base.shape[1] + 16))
        for start in range(0, len(base), rows):
            block = np.asarray(base[start : start + rows], np.float32)
            self.ask("insert", self.name, [{"id": id, "vector": vector} for id, vector in enumerate(block, start)])
        self.ask("flush", self.name, timeout=WORK_SECONDS)
        index = MilvusClient.prepare_index_params()
        index.add_index("vector", index_type=self.index_type, metric_type=self.metric, params=build_params)
        self.ask("create_index", self.name, index, sync=False)
        self.wait_for_index(len(base))
        self.ask("load_collection", self.name, timeout=WORK_SECONDS)
        found = self.ask("query", self.name, output_fields=["count(*)"], consistency_level="Strong")[0]["count(*)"]
        if found != len(base):
            raise RuntimeError(f"the server holds {found} of {len(base)} rows")

    def search(self, queries, k, **search_params):
        ids = np.full((len(queries), k), -1, np.int64)
        rows = min(MOST_QUERIES, max(1, MESSAGE_BYTES // max(4 * queries.shape[1], 16 * k)))
        options = {
            "limit": k,
            "search_params": {"metric_type": self.metric, "params": {**self.always, **search_params}},
        }
        for start in range(0, len(queries), rows):
            block = np.asarray(queries[start : start + rows], np.float32)
            answers = self.ask("search", self.name, data=list(block), anns_field="vector", **options)
            for row, hits in enumerate(answers, start):
                ids[row, : len(hits.ids)] = hits.ids
        return ids

    def stats(self):
        return {"server_version": self.version}

    def connect(self):
        try:
            self.client = MilvusClient(uri=URI, token=TOKEN, timeout=CONNECT_SECONDS)
            self.version = str(self.client.get_server_version(timeout=CONNECT_SECONDS))
        except (MilvusException, grpc.RpcError, ValueError) as error:
            raise RuntimeError(
                f"no Milvus server answers at MILVUS_URI, or it refuses MILVUS_TOKEN: {words(error)}"
            ) from None

    def ask(self, call, *arguments, timeout=CALL_SECONDS, **options):
        """One call of the client, within `timeout` seconds; RuntimeError with the server's words if it fails."""
        try:
            return getattr(self.client, call)(*arguments, timeout=timeout, **options)
        except (MilvusException, grpc.RpcError) as error:
            raise RuntimeError(f"{call}: {words(error)}") from None

    def wait_for_index(self, n):
        """Until the server says that all n rows are indexed; for ever is not an option, and some servers take it."""
        before, since = None, time.monotonic()
        while True:
            told = self.ask("describe_index", self.name, "vector")
            rows = [told.get(name) for name in ("total_rows", "indexed_rows", "pending_index_rows")]
            if rows == [n, n, 0]:
                return
            if rows != before:
                before, since = rows, time.monotonic()
            if time.monotonic() - since > WORK_SECONDS:
                raise RuntimeError(
                    f"create_index: {rows[1]} of {n} rows indexed, no progress for {WORK_SECONDS} s; "
                    f"can this server build {self.index_type}?"
                )
            time.sleep(0.1)

    def drop_strays(self):
        """Drop what killed workers of this machine left behind."""
        for name in self.ask("list_collections"):
            ours = re.fullmatch(f"{PREFIX}{process_space()}_([0-9]+)_[0-9a-f]{{8}}", name)
            if ours and not alive(int(ours[1])):
                self.ask("drop_collection", name)

    def drop(self):
        try:
            self.client.drop_collection(self.name, timeout=DROP_SECONDS)
        except Exception:  # the worker is ending; the next one on this machine drops it
            pass


class Hnsw(Milvus):
    index_type = "HNSW"
    # Without it, Milvus 2.3 starts a query that it has had before from what it found then: a repeat is faster than the
    # first time, and finds less.
    always = {"for_tuning": True}


class IvfFlat(Milvus):
    index_type = "IVF_FLAT"


class DiskAnn(Milvus):
    index_type = "DISKANN"


class AutoIndex(Milvus):
    index_type = "AUTOINDEX"
