"""One image per library folder: the root Dockerfile, then the library's own, tagged by a hash of all that goes in."""

import hashlib
import io
import os
import re
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import docker
import requests
from docker.errors import APIError, DockerException, ImageNotFound

from benchmarks.cards.algorithms import LibraryCard
from benchmarks.errors import UserError
from benchmarks.paths import ROOT
from benchmarks.runner.environment import (
    BUILD_TIMEOUT_SECONDS,
    EnvironmentFailure,
    compiled_for,
    content_hash,
    supplied_path,
    telling_line,
)

REPOSITORY = "robust-ann-benchmarks"
COLOURS = re.compile(r"\x1b\[[0-9;]*m")
PASSED_ON = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy", "PIP_INDEX_URL")
SUPPLIED_LABEL = "robust-ann-benchmarks.supplied"  # hash of what the user supplied
PING_TIMEOUT_SECONDS, API_TIMEOUT_SECONDS = 10, 60
ENGINE_ERRORS = (DockerException, requests.RequestException)


@dataclass(frozen=True)
class BuildOptions:
    """What building images takes on this machine; `install` and the environment say it."""

    arguments: dict[str, str] = field(default_factory=dict)
    ca_bundle: Path | None = None
    network: str | None = None

    @staticmethod
    def from_environment() -> "BuildOptions":
        """ROBUST_ANN_PYTHON_IMAGE, ROBUST_ANN_CA_BUNDLE, ROBUST_ANN_BUILD_NETWORK; proxies and PIP_INDEX_URL as set."""
        arguments = {name: os.environ[name] for name in PASSED_ON if os.environ.get(name)}
        if image := os.environ.get("ROBUST_ANN_PYTHON_IMAGE"):
            arguments["PYTHON_IMAGE"] = image
        bundle = os.environ.get("ROBUST_ANN_CA_BUNDLE")
        return BuildOptions(arguments, Path(bundle) if bundle else None, os.environ.get("ROBUST_ANN_BUILD_NETWORK"))


def connect() -> docker.DockerClient:
    """A client of the engine that DOCKER_HOST names, or of the local one.

    Raises:
        UserError: none answers, or it may not be used.
    """
    where = os.environ.get("DOCKER_HOST") or "unix:///var/run/docker.sock"
    try:
        client = docker.from_env(timeout=PING_TIMEOUT_SECONDS)
        client.ping()
        client.api.timeout = API_TIMEOUT_SECONDS
        return client
    except (*ENGINE_ERRORS, ValueError, OSError) as error:
        if "Permission denied" in str(error):
            raise UserError(
                f"no permission to use the Docker engine at {where}: add yourself to the group docker, or pass "
                "--runner venv, which needs none"
            ) from None
        raise UserError(
            f"no Docker engine answers at {where}: start it, set DOCKER_HOST right, or pass --runner venv, which "
            "needs none"
        ) from None


def image_tag(library: LibraryCard) -> str:
    """The tag of a library's image, which changes with the Dockerfiles, the pins and the type of the CPU.

    Raises:
        EnvironmentFailure: the folder has no Dockerfile.
    """
    parts = [_base_tag(), compiled_for()]
    for name in ("Dockerfile", "requirements.txt"):
        try:
            parts.append((library.directory / name).read_text(errors="replace"))
        except OSError as error:
            raise EnvironmentFailure(f"{error.filename}: {error.strerror}") from None
    return f"{REPOSITORY}/{library.directory.name.lower()}:{_short_hash(parts)}"


def _base_tag() -> str:
    return f"{REPOSITORY}/base:{_short_hash([(ROOT / 'Dockerfile').read_text()])}"


def _short_hash(parts: list[str]) -> str:
    return hashlib.sha256("|".join(parts).encode()).hexdigest()[:12]


def find_image(client: docker.DockerClient, library: LibraryCard) -> str | None:
    """The id of a library's image; None if it is not built, or with another module than the user supplies now."""
    try:
        image = client.images.get(image_tag(library))
    except ImageNotFound:
        return None
    except ENGINE_ERRORS as error:
        raise EnvironmentFailure(engine_words(error)) from None
    if library.supplied and os.environ.get(library.supplied.variable):
        return image.id if image.labels.get(SUPPLIED_LABEL) == content_hash(supplied_path(library)) else None
    return image.id


def supplied_sha256(client: docker.DockerClient, library: LibraryCard) -> str | None:
    """Hash of what the user supplies for a library now, else of what its image was built with; None if of neither."""
    try:
        if os.environ.get(library.supplied.variable):
            return content_hash(supplied_path(library))
        return client.images.get(image_tag(library)).labels.get(SUPPLIED_LABEL)
    except (EnvironmentFailure, OSError, *ENGINE_ERRORS):
        return None


def ensure_image(
    client: docker.DockerClient,
    library: LibraryCard,
    options: BuildOptions,
    log: Path,
    rebuild: bool = False,
    building: Callable[[], None] = lambda: None,
) -> str:
    """The id of a library's image, built, upon the base image, if it is not there.

    Args:
        client: the engine.
        library: its folder holds Dockerfile and requirements.txt.
        options: how images are built here.
        log: the engine's whole output goes here.
        rebuild: build it afresh.
        building: told if anything is built, which takes its time.

    Raises:
        EnvironmentFailure: the reason is the last telling line, the rest is in the log.
    """
    tag, base = image_tag(library), _base_tag()
    found = None if rebuild else find_image(client, library)
    if found:
        return found
    supplied = supplied_path(library)
    building()
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("w") as output:
            if not _exists(client, base):
                _build_base(client, options, output, log)
            files = {name: library.directory / name for name in ("Dockerfile", "requirements.txt")}
            if supplied:
                files[f"supplied/{supplied.name}" if supplied.is_file() else "supplied"] = supplied
            arguments = {**options.arguments, "BASE": base}
            labels = {SUPPLIED_LABEL: content_hash(supplied)} if supplied else {}
            replaced = client.images.get(tag).id if _exists(client, tag) else None
            _build(client, tag, files, options, arguments, labels, output, log)
        made = client.images.get(tag).id
        if replaced and replaced != made:
            _remove_if_unused(client, replaced)
        return made
    except ENGINE_ERRORS as error:
        raise EnvironmentFailure(engine_words(error)) from None
    except OSError as error:
        raise EnvironmentFailure(f"{error.filename or log}: {error.strerror or error}") from None


def _build_base(client, options, output, log) -> None:
    files = {"Dockerfile": ROOT / "Dockerfile"}
    if options.ca_bundle and not options.ca_bundle.is_file():
        raise EnvironmentFailure(f"{options.ca_bundle}: no such file of certificates")
    if options.ca_bundle:
        files["ca-bundle.crt"] = options.ca_bundle
    _build(client, _base_tag(), files, options, options.arguments, {}, output, log)


def forget_base(client: docker.DockerClient) -> None:
    """Untag the base image, so that the next build makes it afresh."""
    try:
        client.images.remove(_base_tag(), noprune=True)
    except ENGINE_ERRORS:
        pass  # there is none, or an image still stands on it: then it is tagged anew


def _remove_if_unused(client, image: str) -> None:
    try:
        client.images.remove(image)
    except ENGINE_ERRORS:
        pass  # a container still stands on it, or another tag


def _exists(client, tag: str) -> bool:
    try:
        return bool(client.images.get(tag))
    except ImageNotFound:
        return False


def _build(client, tag, files, options, arguments, labels, output, log) -> None:
    context = io.BytesIO()
    with tarfile.open(fileobj=context, mode="w") as archive:
        for name, path in files.items():
            archive.add(path, name)
    context.seek(0)
    said = client.api.build(
        fileobj=context,
        custom_context=True,
        tag=tag,
        buildargs=arguments,
        network_mode=options.network,
        nocache=True,  # what the engine remembers may be older than what the user wants built afresh
        labels=labels,
        rm=True,
        forcerm=True,
        decode=True,
        timeout=BUILD_TIMEOUT_SECONDS,  # of silence
    )
    output.write(f"# {tag}\n")
    for error in _written(said, output):
        output.flush()
        lines = log.read_text(errors="replace").split(f"# {tag}\n")[-1]
        raise EnvironmentFailure(f"{telling_line(lines) or error} (log: {log})")


def _written(said: Iterator[dict], output) -> Iterator[str]:
    """Write what the engine says while it builds; yields the error it ends with, if it does."""
    for item in said:
        output.write(COLOURS.sub("", item.get("stream", "")))
        if "status" in item and "progressDetail" not in item:
            output.write(item["status"] + "\n")
        output.flush()
        if "error" in item:
            output.write(item["error"] + "\n")
            yield item["error"]


def engine_words(error: Exception) -> str:
    """What the engine complains of, in one line."""
    said = error.explanation if isinstance(error, APIError) and error.explanation else str(error)
    return "the Docker engine: " + " ".join(str(said).split())[:300]
