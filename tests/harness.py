"""For tests of the command line: call a verb in this process, start it as one, make data, look for left-overs."""

import contextlib
import io
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import psutil

from benchmarks.cli import export as export_verb
from benchmarks.cli import run as run_verb
from benchmarks.data.vectors import VectorFile
from benchmarks.paths import ROOT
from benchmarks.results.store import Result, Store

SUFFIX = {"float32": ".fbin", "uint8": ".u8bin", "int8": ".i8bin"}


@dataclass(frozen=True)
class Finished:
    """How a command ended and what it wrote."""

    code: int
    out: str
    err: str


def call(main, *arguments) -> Finished:
    """A verb's `main` in this process; an exception that is not meant for the user reaches the test."""
    out, err, handler = io.StringIO(), io.StringIO(), signal.getsignal(signal.SIGTERM)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            main([str(item) for item in arguments])
        code = 0
    except SystemExit as end:
        code = end.code
    finally:
        signal.signal(signal.SIGTERM, handler)
    return Finished(code, out.getvalue(), err.getvalue())


def run(*arguments) -> Finished:
    """`run.py` in this process."""
    return call(run_verb.main, *arguments)


def export(*arguments) -> Finished:
    """`python -m benchmarks export` in this process."""
    return call(export_verb.main, *arguments)


def start(*arguments, script=("run.py",), **variables) -> subprocess.Popen:
    """`python run.py …` as a process of its own; its output are text pipes."""
    return subprocess.Popen(
        [sys.executable, *script, *map(str, arguments)],
        cwd=ROOT,
        text=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, **variables},
    )


def finish(process: subprocess.Popen, timeout: float = 60) -> Finished:
    """Wait for a started process."""
    try:
        out, err = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        process.kill()
        raise
    return Finished(process.returncode, out, err)


def wait_for(condition, seconds: float = 30):
    """The first true value of `condition()`."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.01)
    raise AssertionError(f"waited {seconds} s in vain")


def alive(pid: int) -> bool:
    """Whether a process runs; a zombie does not."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def processes_naming(path: Path) -> list[psutil.Process]:
    """Running processes with `path` on their command line: workers, whose job file lies in the results folder."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.pid != os.getpid() and any(str(path) in part for part in process.cmdline()):
                found.append(process)
    return found


def result_files(folder: Path) -> list[Path]:
    """Everything that looks like a result, finished or not."""
    return sorted(folder.glob("*/*/*.hdf5"))


def read_results(folder: Path) -> list[Result]:
    """All results, validated; one that cannot be read fails the test."""
    store = Store(folder)
    return [store.read(path) for path in store.files()]


def leftovers(folder: Path) -> list[Path]:
    """What a run leaves behind besides results, logs and the lock."""
    return [*folder.glob("*/*/*.partial"), *folder.glob("*/*/.*"), *folder.glob(".work/*"), *folder.glob(".indexes/*")]


def gaussian(rows: int, dimension: int = 16, dtype: str = "float32", seed: int = 0) -> np.ndarray:
    """Vectors without structure, in the range of the dtype."""
    values = np.random.default_rng(seed).normal(size=(rows, dimension))
    scale, shift = {"float32": (1, 0), "uint8": (30, 128), "int8": (30, 0)}[dtype]
    limits = (-np.inf, np.inf) if dtype == "float32" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    return np.clip(values * scale + shift, *limits).astype(dtype)


def write_bin(path: Path, vectors: np.ndarray, header: tuple[int, int] | None = None) -> Path:
    """A file of the .fbin family, with a false header if one is given."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(np.asarray(header or vectors.shape, "<u4").tobytes() + vectors.tobytes())
    return path


def write_data(folder: Path, base: np.ndarray, queries: np.ndarray, name: str = "tiny") -> list[str]:
    """Base and queries as files; returns the options that name them."""
    suffix = SUFFIX[base.dtype.name]
    base_file = write_bin(folder / f"{name}{suffix}", base)
    query_file = write_bin(folder / f"{name}-queries{suffix}", queries)
    return ["--dataset", str(base_file), "--queries", str(query_file), "--data-dir", str(folder / "data")]


@contextlib.contextmanager
def small_disk(folder: Path, megabytes: int = 40):
    """`folder` as a file system of its own that is soon full, where this user may mount one."""
    folder.mkdir()
    options = ["-t", "tmpfs", "-o", f"size={megabytes}m,mode=1777", "tmpfs", str(folder)]
    mounted = shutil.which("mount") and not subprocess.run(["mount", *options], stderr=subprocess.DEVNULL).returncode
    try:
        yield folder
    finally:
        if mounted:
            subprocess.run(["umount", "--lazy", str(folder)], check=True)


def vector_file(path: Path, vectors: np.ndarray) -> VectorFile:
    """The same for code below the command line."""
    write_bin(path, vectors)
    return VectorFile(
        path=path, dtype=vectors.dtype.name, rows=len(vectors), dimension=vectors.shape[1], offset_bytes=8
    )


def params(result: Result) -> dict:
    """Build and search parameters of a result."""
    return {**result.identity.build_params, **result.identity.search_params}
