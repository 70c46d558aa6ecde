"""This machine and this process: what it may use, what it is, and how a worker is held to its part of it."""

import os
import platform
import shutil
import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import psutil

from benchmarks.hardware.kernel import show_numbers
from benchmarks.hardware.limits import read_limits
from benchmarks.hardware.placement import Placement, place
from benchmarks.hardware.profiles import load_profile
from benchmarks.hardware.topology import read_topology
from benchmarks.results.schema import Machine

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
    "TOKIO_WORKER_THREADS",
    "GOMAXPROCS",
)
FIXED_VARIABLES = {
    "OMP_DYNAMIC": "FALSE",  # the number of threads is the one asked for, whatever the load
    "MKL_DYNAMIC": "FALSE",  # by default MKL takes no more threads than there are cores
    "OMP_PROC_BIND": "FALSE",  # binding would put the pools of two libraries on the same few CPUs
}
FOREIGN_VARIABLES = (
    *("OMP_THREAD_LIMIT", "OMP_PLACES", "OMP_WAIT_POLICY", "GOMP_CPU_AFFINITY", "GOTO_NUM_THREADS"),
    *("KMP_AFFINITY", "KMP_HW_SUBSET"),
)


def allowed_cpus() -> set[int]:
    """CPUs in this process' affinity mask, which a container's cpuset narrows too."""
    if hasattr(os, "sched_getaffinity"):
        return os.sched_getaffinity(0)
    return set(range(os.cpu_count() or 1))


def place_here(profile: str = "auto", threads: int | None = None) -> Placement:
    """Where a run goes on this machine: a profile by its name or path, and the number of threads if one was asked for.

    Raises:
        UserError: there is no such profile, or the machine is smaller than it.
    """
    return place(read_topology(), allowed_cpus(), load_profile(profile), threads, read_limits())


def thread_environment(threads: int) -> dict[str, str]:
    """Variables that hold the common parallel runtimes to `threads` threads.

    `FOREIGN_VARIABLES`, which a user's shell may hold, undo them; a worker must not inherit those.
    """
    return {**{name: str(threads) for name in THREAD_VARIABLES}, **FIXED_VARIABLES}


def memory_binding(nodes: Sequence[int], root: Path = Path("/")) -> list[str]:
    """What goes before a command so that it takes memory from these NUMA nodes alone.

    Empty where there is nothing to choose, or where numactl is missing or not permitted.
    """
    numactl = shutil.which("numactl")
    if not nodes or not numactl or set(read_topology(root).memory_nodes) <= set(nodes):
        return []
    prefix = (numactl, f"--membind={show_numbers(nodes)}")
    return list(prefix) if _works(prefix) else []


@cache
def _works(prefix: tuple[str, ...]) -> bool:
    """Whether a command can be started that way; containers often may not."""
    try:
        return subprocess.run([*prefix, "true"], capture_output=True, timeout=10).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


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
