import ast
import subprocess
import sys

from benchmarks.bootstrap import NEEDED
from benchmarks.paths import ROOT

OPTIONAL = {
    "distributed",
    "resvg_py",
    "onnxruntime",
    "tokenizers",
    "sentence_transformers",
}  # of the extras; who asks for one without having it is told so


def test_every_package_that_is_imported_is_looked_for():
    imported = set()
    for path in (ROOT / "benchmarks").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                imported |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                imported.add(node.module.split(".")[0])
    assert imported - {"benchmarks", *OPTIONAL} - sys.stdlib_module_names <= set(NEEDED)


def test_the_first_file_runs_on_an_old_python():
    for name in ("run.py", "plot.py", "benchmarks/bootstrap.py", "benchmarks/__init__.py"):
        ast.parse((ROOT / name).read_text(), feature_version=(3, 6))


def test_plot_starts_without_the_packages_that_few_figures_need():
    code = "import sys, benchmarks.cli.plot as plot; plot.parser(); print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    assert "matplotlib" in loaded.split()
    assert not {"numba", "pandas", "pyarrow", "requests", "scipy"} & set(loaded.split())
