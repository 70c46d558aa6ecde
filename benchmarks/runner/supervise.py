"""Watches one worker: hands on its events, and ends it where it takes too long or too much memory."""

import json
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

POLL_SECONDS = 0.01


@dataclass(frozen=True)
class Ending:
    """How a worker's process ended."""

    status: str | None  # None: it ended by itself with exit code 0 or after saying why
    reason: str | None


@dataclass(frozen=True)
class Limits:
    """What a worker may take."""

    timeout_seconds: float  # per build and per operating point
    memory_bytes: int


def watch(process, events_file: Path, limits: Limits) -> Iterator[dict | Ending]:
    """Yield each event as the worker says it, then one `Ending`; the process is gone after that.

    The clock of `timeout_seconds` starts anew at every event. Whoever stops iterating ends the worker.
    """
    offset, since = 0, time.monotonic()
    try:
        while True:
            code = process.poll()
            lines, offset = _new_lines(events_file, offset)
            for line in lines:
                yield json.loads(line)
                since = time.monotonic()
            if code is not None and not lines:
                yield _ending_of(code, process.cause(code))
                return
            if time.monotonic() - since > limits.timeout_seconds:
                process.kill()
                yield Ending("timeout", f"took longer than {limits.timeout_seconds:g} s")
                return
            used = process.memory_bytes()
            if used > limits.memory_bytes:
                process.kill()
                yield Ending(
                    "out-of-memory", f"used {used / 1e9:.2f} GB, the limit is {limits.memory_bytes / 1e9:.2f} GB"
                )
                return
            if not lines:
                time.sleep(POLL_SECONDS)
    finally:
        process.kill()  # a worker that is gone may have left helpers


def _new_lines(path: Path, offset: int) -> tuple[list[bytes], int]:
    """Whole lines that were added behind `offset`."""
    try:
        with path.open("rb") as file:
            file.seek(offset)
            content = file.read()
    except FileNotFoundError:
        return [], offset
    whole = content[: content.rfind(b"\n") + 1]
    return whole.splitlines(), offset + len(whole)


def _ending_of(code: int, cause: tuple[str, str] | None) -> Ending:
    if cause:
        return Ending(*cause)
    if code == 0:
        return Ending(None, None)
    if code > 0:
        return Ending("failed", f"the worker ended with exit code {code}")
    return Ending("failed", f"the worker was killed by signal {_signal_name(-code)}")


def _signal_name(number: int) -> str:
    try:
        return f"{number} ({signal.Signals(number).name})"
    except ValueError:
        return str(number)
