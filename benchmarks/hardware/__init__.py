"""CPUs, memory and thread settings of this machine. Reading is apart from deciding."""

from benchmarks.hardware.limits import available_memory_bytes, memory_limit_bytes, parse_size
from benchmarks.hardware.machine import (
    FOREIGN_VARIABLES,
    allowed_cpus,
    describe_machine,
    memory_binding,
    place_here,
    thread_environment,
)
from benchmarks.hardware.placement import Placement, place

__all__ = [
    "FOREIGN_VARIABLES",
    "Placement",
    "allowed_cpus",
    "available_memory_bytes",
    "describe_machine",
    "memory_binding",
    "memory_limit_bytes",
    "parse_size",
    "place",
    "place_here",
    "thread_environment",
]
