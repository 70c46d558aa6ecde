"""The one exception that a person is meant to read."""


class UserError(Exception):
    """Something the user can mend: one line naming the thing, the value and the way out.

    The command line prints it after ``error:`` and exits with code 2, without a traceback.
    """
