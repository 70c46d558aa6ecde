import threading
from pathlib import Path

import pytest

from benchmarks.cards.algorithms import LibraryCard
from benchmarks.runner import environment
from benchmarks.runner.environment import EnvironmentFailure, ensure_environment, environment_key, telling_line


@pytest.fixture
def library(tmp_path):
    """A library that needs nothing, so that its environment is made at once."""
    folder = tmp_path / "lib"
    folder.mkdir()
    (folder / "requirements.txt").write_text("# nothing\n")
    return LibraryCard(directory=folder, library="lib", upstream="none", version="1", licence="none", algorithms={})


def test_key_changes_with_pins_and_machine(library, monkeypatch):
    file = library.directory / "requirements.txt"
    keys = [environment_key(file)]
    assert environment_key(file) == keys[0]
    file.write_text("numpy==2.2.6\n")
    keys.append(environment_key(file))
    file.write_text("numpy==2.2.5\n")
    keys.append(environment_key(file))
    keys.append(environment_key(file, "3.99"))
    monkeypatch.setattr(environment, "compiled_for", lambda: "flags: other")
    keys.append(environment_key(file))
    assert len(set(keys)) == 5


def test_environment_is_built_once(library, tmp_path):
    first = ensure_environment(library, tmp_path / "environments")
    assert first.python.exists() and first.key == environment_key(library.directory / "requirements.txt")
    mark = first.python.parent.parent / "mark"
    mark.touch()
    assert ensure_environment(library, tmp_path / "environments") == first and mark.exists()
    ensure_environment(library, tmp_path / "environments", rebuild=True)
    assert not mark.exists() and first.python.exists()


def test_half_built_environment_is_built_again(library, tmp_path):
    made = ensure_environment(library, tmp_path / "environments")
    home = made.python.parent.parent
    (home / "complete").unlink()
    (home / "mark").touch()
    assert ensure_environment(library, tmp_path / "environments") == made
    assert (home / "complete").exists() and not (home / "mark").exists()


def test_two_at_once_build_one(library, tmp_path, monkeypatch):
    commands, real = [], environment._uv
    monkeypatch.setattr(
        environment, "_uv", lambda arguments, *more: (commands.append(arguments[0]), real(arguments, *more))
    )
    made = []
    threads = [
        threading.Thread(target=lambda: made.append(ensure_environment(library, tmp_path / "e"))) for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert commands == ["venv", "pip"] and len(made) == 3


def test_impossible_pin_is_one_line_that_names_the_log(library, tmp_path):
    (library.directory / "requirements.txt").write_text("nonexistent-package-xyz==1\n")
    with pytest.raises(EnvironmentFailure) as failure:
        ensure_environment(library, tmp_path / "environments")
    message = str(failure.value)
    log = Path(message.rpartition("(log: ")[2].rstrip(")"))
    assert "\n" not in message and log.is_file() and "nonexistent-package-xyz" in log.read_text()
    assert not list((tmp_path / "environments").glob("*/complete"))


def test_a_failed_build_is_tried_again(library, tmp_path, monkeypatch):
    monkeypatch.setattr(environment, "find_uv_bin", lambda: "/bin/false")
    with pytest.raises(EnvironmentFailure, match="said nothing"):
        ensure_environment(library, tmp_path / "environments")
    monkeypatch.undo()
    assert ensure_environment(library, tmp_path / "environments").python.exists()


def test_an_installer_that_hangs(library, tmp_path, monkeypatch):
    monkeypatch.setattr(environment, "BUILD_TIMEOUT_SECONDS", 0.1)
    monkeypatch.setattr(environment, "find_uv_bin", lambda: "sleep")
    monkeypatch.setattr(
        environment, "_uv", lambda arguments, output, log, real=environment._uv: real(["9"], output, log)
    )
    monkeypatch.setattr(
        environment.subprocess,
        "run",
        lambda command, *, real=environment.subprocess.run, **more: real(command[:2], **more),
    )
    with pytest.raises(EnvironmentFailure, match=r"took longer than 0.1 s \(log: "):
        ensure_environment(library, tmp_path / "environments")


def test_a_folder_that_cannot_be_made(library, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(EnvironmentFailure, match="file"):
        ensure_environment(library, tmp_path / "file" / "environments")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            "Resolved 3 packages\n  × No solution found when resolving dependencies:\n  ╰─▶ Because x was not found",
            "No solution found when resolving dependencies: Because x was not found",
        ),
        (
            "src/index.cc:12:10: fatal error: omp.h: No such file or directory\nerror: failed",
            "src/index.cc:12:10: fatal error: omp.h: No such file or directory",
        ),
        ("a.c:1:2: error: expected ';'\nFailed to build x", "a.c:1:2: error: expected ';'"),
        (
            "error: Failed to fetch: `https://example.org/x/`\n  Caused by: dns error",
            "error: Failed to fetch: `https://example.org/x/`",
        ),
        ("one\ntwo\n\n", "two"),
        ("", "the installer said nothing"),
        ("error: " + "x" * 500, "error: " + "x" * 193),
    ],
)
def test_telling_line(text, line):
    assert telling_line(text) == line
