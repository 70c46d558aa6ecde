"""Before anything else is imported: is this Python able to run the harness?

`python run.py` is typed with whatever `python` is. Where that one lacks the packages but `make env` has made `.venv`,
the command goes on in there; where it has not, one line says what to do. Standard library only.
"""

import gc
import importlib
import importlib.util
import os
import sys
from pathlib import Path

NEEDED = (
    *("numpy", "h5py", "pandas", "pydantic", "yaml", "rich", "matplotlib", "psutil", "filelock", "requests"),
    *("threadpoolctl", "uv", "pyarrow", "docker", "packaging", "numba", "scipy"),
)


def ensure_packages() -> None:
    """Return if the packages are there; else continue in .venv, or end with exit code 2."""
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if sys.version_info >= (3, 10) and not missing:
        return
    root = Path(__file__).resolve().parent.parent
    python = root / ".venv" / "bin" / "python"
    if python.exists() and Path(sys.prefix).resolve() != (root / ".venv").resolve():
        os.execv(str(python), [str(python), *_arguments()])
    reason = (
        f"Python {sys.version_info[0]}.{sys.version_info[1]} is too old"
        if sys.version_info < (3, 10)
        else (f"{missing[0]} is not installed")
    )
    print(f"error: {reason}; run `make env` in {root} first", file=sys.stderr)
    sys.exit(2)


def start(module: str, *arguments) -> None:
    """All that a script does: the packages, then `main` of the module; Ctrl-C is one line from the start."""
    try:
        tame_streams()
        ensure_packages()
        gc.disable()  # to import is to make many objects that stay, and to look through them takes a tenth of the time
        main = importlib.import_module(module).main
        gc.freeze()
        gc.enable()
        main(*arguments)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(130)


def tame_streams() -> None:
    """A closed stream is /dev/null (else the next file opened becomes it); what an encoding lacks is a `?`."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w" if number else "r"))  # noqa: SIM115
        elif number:
            getattr(sys, name).reconfigure(errors="replace" if number == 1 else "backslashreplace")


def _arguments() -> list:
    """The command line after the interpreter, as it was typed."""
    return sys.orig_argv[1:] if hasattr(sys, "orig_argv") else sys.argv
