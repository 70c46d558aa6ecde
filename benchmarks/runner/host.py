"""Which host process something belongs to, so that what a killed host left behind is told from what is in use."""

import os

import psutil


def this_host() -> str:
    """Names this process on this machine for good: pids come again, a pid with its start time does not."""
    return f"{os.getpid()}-{_start(os.getpid())}"


def is_gone(host: str) -> bool:
    """Whether the process that `this_host` named has ended; True for a text that names none."""
    pid, _, start = host.partition("-")
    return not pid.isdecimal() or _start(int(pid)) != start


def _start(pid: int) -> str | None:
    try:
        process = psutil.Process(pid)
        return None if process.status() == psutil.STATUS_ZOMBIE else f"{process.create_time():.2f}"
    except psutil.Error:
        return None
