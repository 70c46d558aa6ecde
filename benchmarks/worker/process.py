"""What the worker does to, and can see of, its own process."""

from __future__ import annotations

import ctypes
import os
import platform
import signal
import sys
from importlib import metadata

PR_SET_PDEATHSIG = 1


def die_with(host_pid):
    """Have the kernel kill this process when the host dies, even by SIGKILL (Linux; elsewhere nothing)."""
    if not sys.platform.startswith("linux"):
        return
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != host_pid:
        os._exit(1)


def pin(cpus):
    """Restrict this process and all threads it will start to `cpus`."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, cpus)


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
    """What this process really got: Python, library versions, affinity, thread variables."""
    versions = {}
    for distribution in metadata.distributions():
        name = distribution.metadata["Name"]
        if name:
            versions[name] = distribution.version
    return {
        "python": platform.python_version(),
        "versions": versions,
        "affinity": sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None,
        "thread_variables": {name: value for name, value in os.environ.items() if name.endswith("_NUM_THREADS")},
    }
