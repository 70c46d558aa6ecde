#!/usr/bin/env python3
"""Measure indexes on a data set: python run.py --help"""

from benchmarks.bootstrap import start

if __name__ == "__main__":
    start("benchmarks.cli.run")
