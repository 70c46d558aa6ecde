import pytest

from benchmarks.errors import unknown_name


@pytest.mark.parametrize(("name", "suggested"), [("glov", "glove"), ("gloev-50", "glove"), ("zzz", None)])
def test_unknown_name_suggests_the_nearest(name, suggested):
    message = str(unknown_name("data set", name, ["glove", "sift"], "see list"))
    assert message.startswith(f"unknown data set '{name}'; ") and message.endswith("see list")
    assert (f"did you mean {suggested}?" in message) if suggested else ("did you mean" not in message)
