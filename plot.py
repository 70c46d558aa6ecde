#!/usr/bin/env python3
"""Draw what was measured: python plot.py --help"""

from benchmarks.bootstrap import start

if __name__ == "__main__":
    start("benchmarks.cli.plot")
