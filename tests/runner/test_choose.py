import os
import signal
import subprocess
import sys
from unittest.mock import MagicMock

import pytest
from docker.errors import DockerException

from benchmarks.cards.algorithms import LibraryCard, find_algorithms
from benchmarks.paths import ROOT
from benchmarks.runner import images
from benchmarks.runner.choose import choose_runner
from benchmarks.runner.environment import EnvironmentFailure, environment_key
from benchmarks.runner.host import is_gone, this_host
from benchmarks.runner.images import BuildOptions, image_tag
from benchmarks.runner.venv import VenvRunner
from tests.harness import gaussian, run, wait_for, write_data

TOY = find_algorithms()["toy"].library


def test_no_engine_is_one_line_that_names_the_way_out(refusal):
    line = refusal(choose_runner, "docker", [TOY])
    assert "no Docker engine answers at unix://" in line and "--runner venv, which needs none" in line


def test_no_permission_is_one_line_that_names_the_way_out(refusal, monkeypatch):
    def denied(**options):
        raise DockerException(
            "Error while fetching server API version: ('Connection aborted.', PermissionError(13, 'Permission denied'))"
        )

    monkeypatch.setattr(images.docker, "from_env", denied)
    line = refusal(choose_runner, "docker", [TOY])
    assert (
        "no permission to use the Docker engine at unix://" in line
        and "group docker" in line
        and "--runner venv" in line
    )


def test_a_run_without_engine_ends_with_that_line(tmp_path):
    data = write_data(tmp_path, gaussian(300), gaussian(20, seed=1))
    finished = run(*data, "--algorithm", "toy", "--runner", "docker", "--results-dir", tmp_path / "results")
    assert (
        finished.code == 2
        and finished.err.startswith("error: no Docker engine answers")
        and len(finished.err.splitlines()) == 1
    )


def test_without_engine_the_default_is_venv(monkeypatch):
    assert choose_runner(None, [TOY])[0].name == "venv"
    monkeypatch.delenv("DOCKER_HOST")
    monkeypatch.setattr("benchmarks.runner.choose.Path.exists", lambda path: False)
    runner, why = choose_runner(None, [TOY])
    assert runner.name == "venv" and why == "no Docker engine here"
    assert choose_runner("venv", [TOY])[1] == "as asked"


@pytest.fixture
def library(tmp_path):
    folder = tmp_path / "Lib"
    folder.mkdir()
    for name in ("Dockerfile", "requirements.txt"):
        (folder / name).write_text(f"# {name}\n")
    return LibraryCard(directory=folder, library="lib", upstream="none", version="1", licence="none", algorithms={})


def test_tag_changes_with_what_is_built(library, monkeypatch):
    tags = [image_tag(library)]
    assert image_tag(library) == tags[0] and tags[0].startswith("robust-ann-benchmarks/lib:")
    for name in ("Dockerfile", "requirements.txt"):
        (library.directory / name).write_text("# other\n")
        tags.append(image_tag(library))
    monkeypatch.setattr(images, "compiled_for", lambda: "flags: other")
    tags.append(image_tag(library))
    monkeypatch.setattr(images, "ROOT", library.directory)
    tags.append(image_tag(library))
    assert len(set(tags)) == 5


def test_a_folder_without_dockerfile_says_so(library):
    (library.directory / "Dockerfile").unlink()
    with pytest.raises(EnvironmentFailure, match="Dockerfile: No such file"):
        image_tag(library)


def test_build_options_come_from_the_environment(monkeypatch):
    for name in (*images.PASSED_ON, "ROBUST_ANN_PYTHON_IMAGE", "ROBUST_ANN_CA_BUNDLE", "ROBUST_ANN_BUILD_NETWORK"):
        monkeypatch.delenv(name, raising=False)
    assert BuildOptions.from_environment() == BuildOptions()
    monkeypatch.setenv("ROBUST_ANN_PYTHON_IMAGE", "python:3.12")
    monkeypatch.setenv("https_proxy", "proxy:1")
    monkeypatch.setenv("ROBUST_ANN_BUILD_NETWORK", "host")
    made = BuildOptions.from_environment()
    assert made.arguments == {"PYTHON_IMAGE": "python:3.12", "https_proxy": "proxy:1"} and made.network == "host"


def test_every_library_has_a_dockerfile_on_the_base_image():
    for algorithm in find_algorithms().values():
        lines = (algorithm.directory / "Dockerfile").read_text().splitlines()
        assert lines[:2] == ["ARG BASE=robust-ann-benchmarks/base", "FROM ${BASE}"], algorithm.directory


def test_a_host_is_known_by_pid_and_start():
    me = this_host()
    assert me == this_host() and not is_gone(me)
    pid, start, here = me.split("-")
    assert pid == str(os.getpid()) and is_gone(f"{pid}-1-{here}") and is_gone(f"nonsense-{start}-{here}")
    code = "import time; from benchmarks.runner.host import this_host; print(this_host(), flush=True); time.sleep(60)"
    child = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    theirs = child.stdout.readline().strip()
    assert theirs.startswith(f"{child.pid}-") and not is_gone(theirs)
    os.kill(child.pid, signal.SIGKILL)
    wait_for(lambda: is_gone(theirs))  # a zombie until it is waited for
    child.wait()
    assert is_gone(theirs)


@pytest.mark.parametrize("host", ["", "nonsense", "1-2", "1-2-elsewhere"])
def test_a_host_that_cannot_be_seen_from_here_is_left_alone(host):
    assert not is_gone(host)


def test_a_folder_without_dockerfile_is_why_venv_is_taken(library, monkeypatch):
    from benchmarks.runner import docker

    (library.directory / "Dockerfile").unlink()
    monkeypatch.setattr(docker.DockerRunner, "__init__", lambda self: setattr(self, "client", MagicMock()))
    runner, why = choose_runner(None, [library])
    assert runner.name == "venv" and "Dockerfile" in why


def test_files_that_are_no_text_are_hashed_all_the_same(library):
    for name in ("Dockerfile", "requirements.txt"):
        (library.directory / name).write_bytes(b"\xff\xfe")
    assert image_tag(library) and environment_key(library.directory / "requirements.txt")


def test_another_supplied_module_is_another_code(tmp_path, monkeypatch):
    algorithm = find_algorithms()["puck"]
    hashes = {algorithm.code_hash()}
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "py_puck_api.py").write_text(f"# {name}")
        monkeypatch.setenv("PY_PUCK_API", str(tmp_path / name))
        supplied = VenvRunner().supplied_sha256(algorithm.library)
        hashes.add(algorithm.model_copy(update={"supplied_sha256": supplied}).code_hash())
    assert len(hashes) == 3
    monkeypatch.setenv("PY_PUCK_API", str(tmp_path / "none"))
    assert VenvRunner().supplied_sha256(algorithm.library) is None
