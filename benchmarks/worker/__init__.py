"""Runs inside an index library's own environment: standard library and numpy only, Python 3.9 to 3.13.

The host starts `python -m benchmarks.worker job.json`; nothing else of this project shares a process with an index.
"""

from benchmarks.worker.algorithm import Algorithm, unit_rows

__all__ = ["Algorithm", "unit_rows"]
