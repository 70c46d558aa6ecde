"""What shares a process with an index: the standard library, numpy, and a Python as old as 3.9."""

import ast
import sys

import pytest

from benchmarks.paths import ALGORITHMS, ROOT

WORKER = sorted((ROOT / "benchmarks" / "worker").glob("*.py"))
ADAPTERS = sorted(ALGORITHMS.glob("*/algorithm.py"))


def name(path):
    return str(path.relative_to(ROOT))


def imported(tree):
    """Every module that a file imports, wherever in it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute here"
            yield node.module


def test_the_files_are_found():
    assert len(WORKER) > 4 and len(ADAPTERS) > 2


@pytest.mark.parametrize("path", [*WORKER, *ADAPTERS, ROOT / "benchmarks" / "__init__.py"], ids=name)
def test_syntax_of_python_39(path):
    tree = ast.parse(path.read_text(), feature_version=(3, 9))
    for node in ast.walk(tree):
        assert not isinstance(node, getattr(ast, "Match", ())), "match came with 3.10"
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "zip":
            assert not node.keywords, "zip(strict=) came with 3.10"


@pytest.mark.parametrize("path", WORKER, ids=name)
def test_worker_imports_nothing_but_the_standard_library_and_numpy(path):
    allowed = {*sys.stdlib_module_names, "numpy"}
    for module in imported(ast.parse(path.read_text())):
        assert module.split(".")[0] in allowed or module.startswith("benchmarks.worker"), module


@pytest.mark.parametrize("path", ADAPTERS, ids=name)
def test_adapter_imports_nothing_of_the_host(path):
    for module in imported(ast.parse(path.read_text())):
        assert not module.startswith("benchmarks") or module.startswith("benchmarks.worker"), module
