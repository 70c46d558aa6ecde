#!/usr/bin/env python3
"""Draw what was measured: python plot.py --help"""

from benchmarks.bootstrap import ensure_packages

if __name__ == "__main__":
    ensure_packages()
    from benchmarks.cli.plot import main

    main()
