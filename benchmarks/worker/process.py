"""What the worker does to, and can see of, its own process."""

from __future__ import annotations

import ctypes
import os
import platform
import signal
import sys
from importlib import metadata

PR_SET_PDEATHSIG = 1
# Ends of the names of variables that steer the threads of a library.
THREAD_SETTINGS = ("_NUM_THREADS", "_MAXIMUM_THREADS", "_WORKER_THREADS", "GOMAXPROCS", "_DYNAMIC", "_PROC_BIND")


def die_with(host_pid):
    """Have the kernel kill this process when the host dies, even by SIGKILL (Linux; elsewhere nothing).

    A worker in a container is no child of the host: `host_pid` is None, and the next run removes what it left.
    """
    if host_pid is None or not sys.platform.startswith("linux"):
        return
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != host_pid:
        os._exit(1)


def pin(cpus):
    """Restrict this process to `cpus`: the threads that it has, and all that they will start."""
    if not hasattr(os, "sched_setaffinity"):
        return
    os.sched_setaffinity(0, cpus)
    for task in _tasks():  # the BLAS of numpy, which is imported by now, has started its own
        try:
            os.sched_setaffinity(task, cpus)
        except ProcessLookupError:
            pass


def _tasks():
    """Ids of the threads of this process."""
    try:
        return [int(task) for task in os.listdir("/proc/self/task")]
    except OSError:
        return []


def prefer_as_oom_victim():
    """Where memory runs out for all, the index is to go, not the host."""
    try:
        with open("/proc/self/oom_score_adj", "w") as file:
            file.write("1000")
    except OSError:
        pass


def reset_peak_memory():
    """Let `peak_memory_bytes` start again from what is resident now, where the kernel can do that."""
    try:
        with open("/proc/self/clear_refs", "w") as file:
            file.write("5")
    except OSError:
        pass


def peak_memory_bytes():
    """Largest resident set since the last reset, mapped files included; None where the system does not tell."""
    try:
        with open("/proc/self/status") as file:
            for line in file:
                if line.startswith("VmHWM:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return None


def observe():
    """What this process really got: Python, library versions, CPUs, memory nodes, thread variables."""
    versions = {}
    for distribution in metadata.distributions():
        name = distribution.metadata["Name"]
        if name:
            versions[name] = distribution.version
    return {
        "python": platform.python_version(),
        "versions": versions,
        "affinity": sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None,
        "memory_allowed": _status_numbers("/proc/self/status", "Mems_allowed_list"),
        "memory_policy": _memory_policy(),
        "thread_variables": {name: value for name, value in os.environ.items() if name.endswith(THREAD_SETTINGS)},
    }


def observe_threads():
    """How many threads this process has by now, and the CPUs that any of them may run on; None if not told."""
    tasks, cpus = _tasks(), set()
    for task in tasks:
        cpus.update(_status_numbers(f"/proc/self/task/{task}/status", "Cpus_allowed_list") or ())
    return {"process_threads": len(tasks) or None, "affinity_of_threads": sorted(cpus) or None}


def _status_numbers(path, name):
    """A list such as `0-3,8` in a status file of the kernel, as numbers; None where there is none."""
    try:
        with open(path) as file:
            text = next(line.split(":", 1)[1] for line in file if line.startswith(name + ":"))
    except (OSError, StopIteration):  # a thread may end while it is looked at
        return None
    ends = [part.strip().partition("-") for part in text.split(",") if part.strip()]
    return [number for first, _, last in ends for number in range(int(first), int(last or first) + 1)]


def _memory_policy():
    """`default`, or such as `bind:0` where memory comes from certain NUMA nodes."""
    try:
        with open("/proc/self/numa_maps") as file:
            return file.readline().split()[1]
    except (OSError, IndexError):
        return None
