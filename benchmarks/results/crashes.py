"""Libraries that damaged files crash: a few wrong bytes, and HDF5 ends the process, or never returns."""

import contextlib
import faulthandler
import os
import resource
import signal
import warnings
from collections.abc import Callable

from benchmarks.errors import UserError


def require_harmless(action: Callable[[], object], seconds: int) -> None:
    """Do it in a forked process, to see whether that comes through; the action must only read.

    What it returns or raises is lost: it is meant to be done again.

    Raises:
        UserError: the process crashed, or was not done after so many seconds.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of threads that are not forked; none is needed
        process = os.fork()
    if process == 0:
        with contextlib.suppress(BaseException):
            faulthandler.disable()
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(seconds)
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            action()
        os._exit(0)
    ended = os.waitpid(process, 0)[1]
    if os.WIFSIGNALED(ended):
        name = signal.Signals(os.WTERMSIG(ended)).name
        what = f"comes to no end in {seconds} s" if name == "SIGALRM" else f"crashes ({name})"
        raise UserError(f"is damaged: the library that reads it {what}")
