"""Which host process something belongs to, so that what a killed host left behind is told from what is in use."""

import hashlib
import os
import platform
from functools import cache
from pathlib import Path

import psutil


def this_host() -> str:
    """Names this process for good: pids come again, a pid with its start time on one machine does not."""
    return f"{os.getpid()}-{_start(os.getpid())}-{_here()}"


def is_gone(host: str) -> bool:
    """Whether the process that `this_host` named has ended.

    False where that cannot be known: for a process of another machine or container, and for a text that names none.
    """
    pid, _, rest = host.partition("-")
    start, _, where = rest.partition("-")
    return where == _here() and (not pid.isdecimal() or _start(int(pid)) != start)


@cache
def _here() -> str:
    """This machine, and the processes that can be seen on it: containers share an engine, and a kernel."""
    try:
        namespace = os.readlink("/proc/self/ns/pid")
    except OSError:
        namespace = ""
    return hashlib.sha256(f"{platform.node()} {namespace}".encode()).hexdigest()[:8]


def _start(pid: int) -> str | None:
    """When a process was started, as a text to compare; None if there is none, or only a zombie."""
    if Path("/proc/self/stat").exists():
        try:
            fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
        except OSError:
            return None
        return None if fields[0] in "ZX" else fields[19]  # ticks since boot: no change of the clock moves them
    try:
        process = psutil.Process(pid)
        return None if process.status() == psutil.STATUS_ZOMBIE else f"{process.create_time():.2f}"
    except psutil.Error:
        return None
