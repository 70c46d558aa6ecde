"""Where things are; every folder of the project is named here once."""

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ALGORITHMS = ROOT / "algorithms"
DATASETS = ROOT / "datasets"
SWEEPS = ROOT / "configs" / "sweeps"
SUITES = ROOT / "configs" / "suites"
MACHINES = ROOT / "configs" / "machines"
RESULTS = ROOT / "results"
PLOTS = ROOT / "plots"


def _from_environment(variable: str, otherwise: Path) -> Path:
    """Absolute, since workers are started in a folder of their own."""
    given = os.environ.get(variable)
    return Path(os.path.abspath(os.path.expanduser(given))) if given else otherwise


DATA = _from_environment("ROBUST_ANN_DATA", DATASETS / "cache")
ENVIRONMENTS = _from_environment("ROBUST_ANN_ENVIRONMENTS", ROOT / ".environments")
