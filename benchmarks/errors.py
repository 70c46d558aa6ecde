"""The one exception that a person is meant to read."""

import difflib


class UserError(Exception):
    """Something the user can mend: one line naming the thing, the value and the way out.

    The command line prints it after ``error:`` and exits with code 2, without a traceback.
    """


def unknown_name(kind: str, name: str, known: list[str], hint: str) -> UserError:
    """The error for a name that is in no folder, with the nearest one that is."""
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    suggestion = f"did you mean {close[0]}? " if close else ""
    return UserError(f"unknown {kind} '{name}'; {suggestion}{hint}")
