from benchmarks.analysis.numbers import measured_text, number
from benchmarks.metrics.registry import Measured


def test_numbers():
    assert [number(value) for value in (None, 0.5, 0.99996, 1)] == ["", "0.5000", "1.0000", "1.0000"]
    assert [number(value, "1/s") for value in (0.01234, 999, 1234.5, -1234.5)] == ["0.0123", "999", "1,234", "-1,234"]


def test_a_value_with_its_interval():
    assert measured_text(Measured(0.951, 0.935, 0.963, 100)) == "0.9510 [0.9350, 0.9630]"
    assert measured_text(Measured(1234.0), "1/s") == "1,234" and measured_text(None) == "-"
