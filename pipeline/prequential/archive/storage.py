"""Where an archive is: a folder of this machine, or an object store through pyarrow's file systems.

A file is there completely or not at all. In a folder it is written under another name, and renamed. In an
object store it is written at once: an object becomes visible when its upload ends.
"""

from __future__ import annotations

import errno
import fcntl
import os
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from prequential.topics.errors import UsageError, WorkError, redacted, remember


class StoredFile(NamedTuple):
    """The name of a file, and its size in bytes."""

    name: str
    size: int


class ArchiveStorage(ABC):
    """Files of an archive by their path below it, with `/`. Raises WorkError if the storage fails."""

    #: Whether the storage lets only one process write (`locked`).
    has_lock: bool
    #: The archive as people see it, without secrets.
    shown: str

    @abstractmethod
    def read(self, path: str) -> bytes | None:
        """Return the content of a file; None if there is no such file."""

    @abstractmethod
    def write(self, path: str, content: bytes) -> None:
        """Write a file, or replace it: readers see the former content or the new one, completely."""

    @abstractmethod
    def files(self, folder: str) -> list[StoredFile]:
        """Return the files in a folder by name; none if there is no such folder."""

    @abstractmethod
    def folders(self, folder: str) -> list[str]:
        """Return the names of the folders in a folder, in order."""

    @abstractmethod
    def where(self, path: str) -> str:
        """Return the full path of a file, for errors."""

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other writers away during the block; raises WorkError if there is one."""
        yield


class LocalStorage(ArchiveStorage):
    """A folder; raises UsageError if it can't be made, or with `must_exist` if there is none."""

    has_lock = True

    def __init__(self, path: str, *, must_exist: bool) -> None:
        self._root = Path(path)
        self.shown = path
        if must_exist and not self._root.is_dir():
            raise UsageError(f"there is no archive at {path!r}: expected a folder of `prequential archive`")
        try:
            self._root.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"can't make the folder {path!r}: {error.strerror}") from error

    def read(self, path: str) -> bytes | None:
        """Return the content of a file; None if there is no such file."""
        with _work_errors(self.where(path)):
            try:
                return (self._root / path).read_bytes()
            except FileNotFoundError:
                return None

    def write(self, path: str, content: bytes) -> None:
        """Write a file under another name, then rename it."""
        target = self._root / path
        temporary = target.with_name(f".{target.name}.tmp")
        with _work_errors(self.where(path)):
            target.parent.mkdir(parents=True, exist_ok=True)
            try:
                with temporary.open("wb") as file:
                    file.write(content)
                    file.flush()
                    os.fsync(file.fileno())
                os.replace(temporary, target)
            except BaseException:
                with suppress(OSError):
                    temporary.unlink()
                raise
            _sync_folder(target.parent)

    def files(self, folder: str) -> list[StoredFile]:
        """Return the files in a folder that aren't hidden."""
        with _work_errors(self.where(folder)):
            try:
                entries = list(os.scandir(self._root / folder))
            except FileNotFoundError:
                return []
            visible = [entry for entry in entries if entry.is_file() and not entry.name.startswith(".")]
            return sorted(StoredFile(entry.name, entry.stat().st_size) for entry in visible)

    def folders(self, folder: str) -> list[str]:
        """Return the folders in a folder."""
        with _work_errors(self.where(folder)):
            try:
                return sorted(entry.name for entry in os.scandir(self._root / folder) if entry.is_dir())
            except FileNotFoundError:
                return []

    def where(self, path: str) -> str:
        """Return the full path of a file."""
        return str(self._root / path)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other writers away, as long as the file system has locks."""
        path = self._root / "_archive" / "lock"
        with _work_errors(str(path)):
            path.parent.mkdir(exist_ok=True)
            file = path.open("ab")
        with file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise WorkError(
                    f"another process writes to the archive {self.shown!r}: stop that one first"
                ) from None
            except OSError as error:
                if error.errno not in (errno.ENOLCK, errno.ENOTSUP):
                    raise
            yield


def _sync_folder(folder: Path) -> None:
    """Have the system write the names in a folder to the disk, as far as it can."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


class ObjectStorage(ArchiveStorage):
    """An object store as pyarrow names it: `s3://bucket/folder`, `gs://…`, `abfs://…`.

    Raises UsageError for an address that pyarrow doesn't understand.
    """

    has_lock = False

    def __init__(self, uri: str) -> None:
        import pyarrow.fs

        parts = urlsplit(uri)
        if parts.password:
            remember(parts.password)
        self.shown = redacted(uri.partition("?")[0])
        self._kind = pyarrow.fs.FileType
        self._selector: Any = pyarrow.fs.FileSelector
        try:
            self._system, root = pyarrow.fs.FileSystem.from_uri(uri)
        except (ValueError, OSError) as error:
            raise UsageError(
                f"can't use the archive {self.shown!r}: {' '.join(str(error).split())}"
            ) from error
        self._root = root.rstrip("/")

    def read(self, path: str) -> bytes | None:
        """Return the content of a file; None if there is no such file."""
        with _work_errors(self.where(path)):
            try:
                with self._system.open_input_stream(self._path(path)) as stream:
                    content: bytes = stream.read()
                    return content
            except FileNotFoundError:
                return None

    def write(self, path: str, content: bytes) -> None:
        """Upload a file, which replaces the former one when the upload ends."""
        with _work_errors(self.where(path)):
            stream = self._system.open_output_stream(self._path(path))
            stream.write(content)  # an error leaves the upload unfinished: nobody sees such an object
            stream.close()

    def files(self, folder: str) -> list[StoredFile]:
        """Return the files in a folder that aren't hidden."""
        return sorted(
            StoredFile(info.base_name, info.size)
            for info in self._infos(folder)
            if info.type == self._kind.File
        )

    def folders(self, folder: str) -> list[str]:
        """Return the folders in a folder."""
        return sorted(info.base_name for info in self._infos(folder) if info.type == self._kind.Directory)

    def where(self, path: str) -> str:
        """Return the full path of a file."""
        return f"{self.shown}/{path}"

    def _infos(self, folder: str) -> list[Any]:
        with _work_errors(self.where(folder)):
            infos: list[Any] = self._system.get_file_info(
                self._selector(self._path(folder), allow_not_found=True)
            )
            return infos

    def _path(self, path: str) -> str:
        return f"{self._root}/{path}".rstrip("/")


@contextmanager
def _work_errors(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:  # pyarrow's errors of object stores are such as well
        reason = error.strerror or " ".join(str(error).split())
        raise WorkError(f"the archive's {path!r}: {reason}") from error


def storage_of(place: str, *, must_exist: bool = False) -> ArchiveStorage:
    """The storage at a path or at an address such as `s3://bucket/folder`.

    With `must_exist` a folder isn't made. Raises UsageError if the place can't be used.
    """
    if not place:
        raise UsageError("the archive is '': expected a folder, or an address such as s3://bucket/folder")
    if place.startswith("file://"):
        place = urlsplit(place).path
    return ObjectStorage(place) if "://" in place else LocalStorage(place, must_exist=must_exist)
