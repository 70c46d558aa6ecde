"""What every verb shares: errors as one line, exit codes, options that mean the same everywhere."""

import argparse
import errno
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from rich.console import Console

from benchmarks.errors import UserError
from benchmarks.files import resolved
from benchmarks.hardware.profiles import find_profiles
from benchmarks.paths import DATA, RESULTS

WIDE = 240  # columns that the widest table takes

OK, POINTS_FAILED, BAD_INPUT, INTERRUPTED = 0, 1, 2, 130


def guarded(action: Callable[[], int | None]) -> None:
    """Run a verb and end the process: 0 done, 1 points failed, 2 bad input, 130 interrupted."""
    # Not by way of SIGINT, which a shell has its background jobs ignore.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        code = action() or OK
        sys.stdout.flush()
    except UserError as error:
        code = _complain(str(error))
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        code = INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = OK
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        hint = "; free some space, or choose other folders" if error.errno in (errno.ENOSPC, errno.EDQUOT) else ""
        code = _complain(f"{where}{error.strerror or error}{hint}")
    except MemoryError as error:
        code = _complain(f"not enough memory ({error})")
    sys.exit(code)


def _complain(message: str) -> int:
    print("error: " + " ".join(message.split()), file=sys.stderr)
    return BAD_INPUT


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors look like all others: one line, exit code 2."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, allow_abbrev=False, formatter_class=argparse.RawDescriptionHelpFormatter, **kwargs)

    def error(self, message):
        print(f"error: {' '.join(message.split())}; see {self.prog} --help", file=sys.stderr)
        sys.exit(BAD_INPUT)


def positive(text: str) -> int:
    """An integer of at least 1."""
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be a positive whole number, not '{text}'")
    return number


def folder(text: str) -> Path:
    """An absolute folder path."""
    try:
        return resolved(text)
    except UserError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def add_results_dir(parser: argparse.ArgumentParser) -> None:
    """The option that names the folder of result files."""
    parser.add_argument(
        "--results-dir", type=folder, default=RESULTS, metavar="DIR", help="result files (default: results)"
    )


def add_data_options(parser: argparse.ArgumentParser, required: bool = True) -> None:
    """The options that name a data set, or a file of vectors and what it does not say itself."""
    parser.add_argument(
        "--dataset",
        required=required,
        metavar="NAME",
        help="name of a card, path of a card, or a file of vectors (.npy .parquet .hdf5 .fbin .u8bin .i8bin .fvecs "
        ".bvecs)",
    )
    parser.add_argument(
        "--distance",
        choices=["l2", "ip", "cosine"],
        help="for a file of vectors (default: what the file states, else l2)",
    )
    parser.add_argument(
        "--queries",
        metavar="FILE",
        help="for a file of vectors (default: its own, else up to 1,000 base vectors are held out)",
    )
    add_data_dir(parser)


def add_data_dir(parser: argparse.ArgumentParser) -> None:
    """The option that names the cache of prepared data."""
    parser.add_argument(
        "--data-dir",
        type=folder,
        default=DATA,
        metavar="DIR",
        help="prepared data and ground truth (default: datasets/cache, or $ROBUST_ANN_DATA)",
    )


def add_machine_options(parser: argparse.ArgumentParser) -> None:
    """The options that say which CPUs to take."""
    parser.add_argument(
        "--machine",
        default="auto",
        metavar="NAME",
        help=f"how to use the machine: {', '.join(find_profiles())}, or the path of a .yml like those in "
        "configs/machines (default: auto)",
    )
    parser.add_argument(
        "--threads", type=positive, help="threads, one CPU each (default: as many as --machine takes; auto at most 64)"
    )


def make_console() -> Console:
    """Standard output: as wide as the terminal, or wide enough for any table where it goes into a file or pipe."""
    console = Console()
    return console if console.is_terminal else Console(width=WIDE)


def warn(line: str) -> None:
    """One line to standard error."""
    print("warning: " + " ".join(line.split()), file=sys.stderr)
