"""What the Milvus adapter owes beyond the contract: it ends, tells no secret, and leaves nothing on the server."""

import json
import os
import socket
import subprocess

import pytest

from benchmarks.cards.algorithms import find_algorithms
from benchmarks.paths import ENVIRONMENTS, ROOT
from benchmarks.runner.environment import ensure_environment
from tests.harness import gaussian, read_results, run, write_data

ALGORITHM = find_algorithms()["milvus-hnsw"]
TOKEN = "somebody:a-secret"


@pytest.fixture
def unanswered(tmp_path, monkeypatch):
    """A run against an address; returns the reason of its one point, which must hold no secret, as must the logs."""

    def run_against(address: str) -> str:
        monkeypatch.setenv("MILVUS_URI", f"http://another:secret-too@{address}")
        monkeypatch.setenv("MILVUS_TOKEN", TOKEN)
        results = tmp_path / "results"
        finished = run(
            *write_data(tmp_path, gaussian(100), gaussian(5, seed=1)),
            *("--distance", "l2", "--algorithm", ALGORITHM.name, "--set", f"{ALGORITHM.name}.ef=32"),
            *("--threads", 1, "--runner", "venv", "--results-dir", results),
        )
        assert finished.code == 1
        (result,) = read_results(results)
        assert result.record.status == "failed" and len(result.record.reason.splitlines()) == 1
        written = [path.read_bytes() for path in results.rglob("*") if path.is_file()]
        for secret in ("a-secret", "secret-too", address):
            assert secret not in finished.out + finished.err
            assert not any(secret.encode() in content for content in written)
        return result.record.reason

    return run_against


def test_where_nothing_listens_the_reason_says_so(unanswered):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    assert "no Milvus server answers at MILVUS_URI" in unanswered(address)


@pytest.mark.slow
def test_a_server_that_says_nothing_is_given_up(unanswered):
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        assert "no Milvus server answers at MILVUS_URI" in unanswered(f"127.0.0.1:{silent.getsockname()[1]}")


WORK = """
import json, os, signal, sys
import numpy as np
from benchmarks.worker.__main__ import load_adapter

index = load_adapter(sys.argv[1], "Hnsw")
base = np.random.default_rng(0).normal(size=(1500, 8)).astype(np.float32)
index.build(base, distance="l2", threads=1, seed=0, M=16, efConstruction=100)
if sys.argv[2] == "killed":
    print(json.dumps(index.client.list_collections()), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
answers = index.search(np.tile(base, (12, 1)), 3, ef=64)
print(json.dumps([index.client.list_collections(), answers[:, 0].tolist(), answers.shape[0]]))
"""
LIST = "import os, pymilvus; print(pymilvus.MilvusClient(os.environ['MILVUS_URI']).list_collections())"


@pytest.mark.slow
def test_collections_go_with_their_worker_or_with_the_next(bring):
    bring(ALGORITHM)
    python = ensure_environment(ALGORITHM.library, ENVIRONMENTS).python

    def work(*command):
        done = subprocess.run([python, "-c", *command], cwd=ROOT, capture_output=True, text=True, env=dict(os.environ))
        return done.stdout.strip().splitlines()[-1]

    adapter = str(ALGORITHM.directory / "algorithm.py")
    (stray,) = json.loads(work(WORK, adapter, "killed"))
    assert stray in work(LIST)
    names, nearest, rows = json.loads(work(WORK, adapter, "done"))
    assert len(names) == 1 and stray not in names
    assert rows == 18000 and nearest == [*range(1500)] * 12  # more than a server takes in one search
    assert work(LIST) == "[]"
