"""Packages of npm and Debian: stand-ins of the clients are on the path, so that the network is not needed."""

import hashlib

import pytest

from benchmarks.cards.datasets import Source
from benchmarks.data.fetch import fetch
from benchmarks.progress import Progress

CONTENT = b"content of a package"
SHA256 = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture
def client(tmp_path, monkeypatch):
    """Put a shell script on the path, which is then the only thing there but for the shell's own commands."""
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}")

    def put(name, script):
        path = tmp_path / "bin" / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    return put


@pytest.fixture
def get(tmp_path):
    return lambda **source: fetch(Source(**source), tmp_path, tmp_path / "cache", Progress())


def test_an_npm_package(client, get):
    client(
        "npm", f'test "$1 $2 $3" = "pack @a/b@1.0 --pack-destination" && printf "{CONTENT.decode()}" > "$4/a-b-1.0.tgz"'
    )
    path = get(npm="@a/b==1.0", sha256=SHA256)
    assert path.read_bytes() == CONTENT
    client("npm", "exit 1")
    assert get(npm="@a/b==1.0", sha256=SHA256) == path


def test_a_debian_package(client, get):
    client("apt-get", f'test "$1" = download && printf "{CONTENT.decode()}" > "$2_1.0_all.deb"')
    assert get(debian="tiny").read_bytes() == CONTENT


@pytest.mark.parametrize(
    ("name", "script", "source", "words"),
    [
        ("npm", "", {"npm": "b==1.0"}, "npm said nothing"),
        ("npm", "echo 'npm error code E404\nnpm error 404 Not Found' >&2; exit 1", {"npm": "b==1.0"}, "404 Not Found"),
        ("npm", 'printf other > "$4/b-1.0.tgz"', {"npm": "b==1.0", "sha256": SHA256}, "replaced or damaged"),
        ("apt-get", "echo 'E: Unable to locate package b' >&2; exit 100", {"debian": "bb"}, "Unable to locate package"),
        ("none", "", {"npm": "b==1.0"}, "npm is not installed"),
        ("none", "", {"debian": "bb"}, "apt-get is not installed"),
    ],
)
def test_a_package_that_cannot_be_had(client, get, refusal, tmp_path, name, script, source, words):
    client(name, script)
    message = refusal(get, **source)
    assert words in message and next(iter(source.values())) in message
    files = [path for path in (tmp_path / "cache").rglob("*") if path.is_file() and path.suffix != ".lock"]
    assert files == []


@pytest.mark.parametrize("source", [{"npm": "b"}, {"npm": "b@1.0"}, {"debian": "b;c"}, {"npm": "b==1", "member": "c"}])
def test_a_source_that_names_no_package(source):
    with pytest.raises(ValueError):
        Source(**source)
