"""Sees to what a library needs that no registry has: a server, a module that the user builds."""

import importlib
import os
from contextlib import ExitStack

import pytest


@pytest.fixture(scope="session")
def bring(tmp_path_factory):
    """Call with an algorithm before it is run.

    Where the environment does not name what its library needs, `tests/algorithms/supplies/<library folder>.py` starts
    or makes it: `provide(folder)` is a context manager whose value are the variables to set. It raises pytest's Skipped
    where that cannot be done here, and every test of the library is skipped with that reason.
    """
    with ExitStack() as stack, pytest.MonkeyPatch.context() as monkeypatch:
        skipped: dict[str, pytest.skip.Exception] = {}

        def see_to(algorithm) -> None:
            library = algorithm.directory.name
            if library in skipped:
                raise skipped[library]
            if algorithm.library.unavailable(os.environ):
                supply = importlib.import_module(f"tests.algorithms.supplies.{library}")
                try:
                    variables = stack.enter_context(supply.provide(tmp_path_factory.mktemp(library)))
                except pytest.skip.Exception as reason:
                    skipped[library] = reason
                    raise
                for name, value in variables.items():
                    monkeypatch.setenv(name, value)

        yield see_to
