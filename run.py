#!/usr/bin/env python3
"""Measure indexes on a data set: python run.py --help"""

from benchmarks.bootstrap import ensure_packages

if __name__ == "__main__":
    ensure_packages()
    from benchmarks.cli.run import main

    main()
