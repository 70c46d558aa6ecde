"""CPUs, memory and thread settings of this machine. Reading is apart from deciding."""

import os
import platform
from pathlib import Path

import psutil

from benchmarks.errors import UserError
from benchmarks.results.schema import Machine

MOST_THREADS = 64  # the paper's machine: one socket of 32 cores and 64 hardware threads
THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "RAYON_NUM_THREADS",
    "TBB_NUM_THREADS",
    "NUMBA_NUM_THREADS",
)


def choose_cpus(allowed: set[int], threads: int | None) -> list[int]:
    """The CPUs to pin to: one per thread.

    Args:
        allowed: CPUs that this process may use.
        threads: as asked for; None takes all, at most 64.

    Raises:
        UserError: more threads than CPUs.
    """
    cpus = sorted(allowed)
    if threads is None:
        return cpus[:MOST_THREADS]
    if threads > len(cpus):
        raise UserError(
            f"--threads {threads}: this process may use {len(cpus)} CPUs; pass --threads {len(cpus)} or fewer"
        )
    return cpus[:threads]


def allowed_cpus() -> set[int]:
    """CPUs in this process' affinity mask, which a container's cpuset narrows too."""
    if hasattr(os, "sched_getaffinity"):
        return os.sched_getaffinity(0)
    return set(range(os.cpu_count() or 1))


def thread_environment(threads: int) -> dict[str, str]:
    """Variables that hold the common parallel runtimes to `threads` threads."""
    return {name: str(threads) for name in THREAD_VARIABLES}


def memory_limit_bytes(available: int, asked: int | None) -> int:
    """Memory that a worker may use before it is stopped: as asked, else nine tenths of what is available.

    Raises:
        UserError: more was asked for than there is.
    """
    if asked is None:
        return available * 9 // 10
    if asked > available:
        raise UserError(f"--memory-limit {asked}: {available} bytes are available; ask for less")
    return asked


def available_memory_bytes(cgroup: Path = Path("/sys/fs/cgroup")) -> int:
    """Free memory as the kernel estimates it, or what the cgroup still allows if that is less."""
    available = psutil.virtual_memory().available
    try:
        limit = int((cgroup / "memory.max").read_text())
        available = min(available, limit - int((cgroup / "memory.current").read_text()))
    except (OSError, ValueError):  # no cgroup v2, or no limit ("max")
        pass
    return available


def describe_machine() -> Machine:
    """The machine, for the provenance of a result."""
    cpu = platform.processor() or platform.machine()
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                cpu = line.split(":", 1)[1].strip()
                break
    except OSError:
        pass
    return Machine(
        cpu=cpu, logical_cpus=os.cpu_count() or 1, memory_bytes=psutil.virtual_memory().total, kernel=platform.release()
    )
