"""Where things are; every folder of the project is named here once."""

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ALGORITHMS = ROOT / "algorithms"
DATASETS = ROOT / "datasets"
SWEEPS = ROOT / "configs" / "sweeps"
RESULTS = ROOT / "results"
PLOTS = ROOT / "plots"
DATA = Path(os.environ.get("ROBUST_ANN_DATA", DATASETS / "cache"))
ENVIRONMENTS = Path(os.environ.get("ROBUST_ANN_ENVIRONMENTS", ROOT / ".environments"))
