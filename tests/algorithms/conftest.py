"""Sees to what a library needs that no registry has: a server, a module that the user builds."""

import importlib
import os
from contextlib import ExitStack
from pathlib import Path

import pytest

from benchmarks.cards.algorithms import find_algorithms


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Contract tests that speak to a server are slow, but for one distance of one algorithm: each builds anew there."""
    algorithms, spared = find_algorithms(), {}
    for item in items:
        here = item.path.parent == Path(__file__).parent  # the hook is called with the tests of every folder
        parameters = item.callspec.params if here and hasattr(item, "callspec") else {}
        measured = parameters.get("measured")
        algorithm = algorithms.get(measured[0] if measured else parameters.get("name"))
        if algorithm is None or not algorithm.library.service:
            continue
        if not measured or spared.setdefault(algorithm.directory, measured) != measured:
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session")
def bring(tmp_path_factory):
    """Call with an algorithm before it is run.

    Where the environment does not name what its library needs, `tests/algorithms/supplies/<library folder>.py` starts
    or makes it: `provide(folder)` is a context manager whose value are the variables to set. It raises pytest's Skipped
    where that cannot be done here, and every test of the library is skipped with that reason. What it provides may be
    less than some algorithms need: a mapping `cannot` says of each of those why, and its tests are skipped.
    """
    with ExitStack() as stack, pytest.MonkeyPatch.context() as monkeypatch:
        skipped: dict[str, pytest.skip.Exception] = {}
        provided: set[str] = set()

        def see_to(algorithm) -> None:
            library = algorithm.directory.name
            if library in skipped:
                raise skipped[library]
            if library not in provided and not algorithm.library.unavailable(os.environ):
                return
            supply = importlib.import_module(f"tests.algorithms.supplies.{library}")
            if algorithm.name in getattr(supply, "cannot", {}):
                pytest.skip(supply.cannot[algorithm.name])
            if library in provided:
                return
            try:
                variables = stack.enter_context(supply.provide(tmp_path_factory.mktemp(library)))
            except pytest.skip.Exception as reason:
                skipped[library] = reason
                raise
            provided.add(library)
            for name, value in variables.items():
                monkeypatch.setenv(name, value)

        yield see_to
