"""A real Milvus server of this machine's own, from its Python package, in an environment that is kept."""

import os
import select
import shutil
import signal
import subprocess
from contextlib import contextmanager
from pathlib import Path

import pytest

from benchmarks.cards.algorithms import LibraryCard
from benchmarks.paths import ENVIRONMENTS
from benchmarks.runner.environment import EnvironmentFailure, ensure_environment

START_SECONDS, STOP_SECONDS = 90, 10
SERVER = Path(__file__).parent / "milvus-server"
CARD = LibraryCard(
    directory=SERVER,
    library="milvus",
    upstream="https://github.com/milvus-io/milvus",
    version="2.3.5",
    licence="Apache-2.0",
    algorithms={},
)

cannot = {
    "milvus-diskann": "the embedded Milvus server is compiled without DISKANN",
    "milvus-autoindex": "AUTOINDEX of an open-source Milvus server does not heed level, only Zilliz Cloud does",
}


@contextmanager
def provide(folder: Path):
    """Start a server with its data below `folder`; the value are the variables that name it.

    It ends with the block, and where this process dies before: then its standard input ends.
    """
    try:
        python = ensure_environment(CARD, ENVIRONMENTS).python
    except EnvironmentFailure as failure:
        pytest.skip(f"no Milvus server: {failure}")
    unpacked = python.parent.parent / "bin-of-the-server"
    unpacked.mkdir(exist_ok=True)
    (folder / "bin").symlink_to(unpacked)  # 250 MB, which would be unpacked each time
    log = folder / "serve.log"
    with log.open("w") as errors:
        process = subprocess.Popen(
            [str(python), str(SERVER / "serve.py"), str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            start_new_session=True,  # an interrupt at the terminal is for the tests to handle
        )
    try:
        ready, _, _ = select.select([process.stdout], [], [], START_SECONDS)
        port = process.stdout.readline().decode().strip() if ready else ""
        if not port:
            said = log.read_text(errors="replace").strip().splitlines() or [f"no answer within {START_SECONDS} s"]
            pytest.skip(f"no Milvus server: {said[-1][:200]}")
        yield {"MILVUS_URI": f"http://127.0.0.1:{port}"}
    finally:
        process.stdin.close()
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            pass
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()
        process.stdout.close()
        shutil.rmtree(folder, ignore_errors=True)
