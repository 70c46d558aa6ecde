#!/usr/bin/env python3
"""Draw what was measured: python plot.py --help"""

import os

from benchmarks.bootstrap import start

if __name__ == "__main__":
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # a plot multiplies next to nothing, and threads wait busily
    start("benchmarks.cli.plot")
