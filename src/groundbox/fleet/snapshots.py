"""Snapshots of the files of sandboxes, by which another node goes on where one was lost.

A snapshot is an uncompressed archive (tar) of a workdir, without modes and owners. It is named by sandbox, generation
and number: a sandbox that was restored has the next generation, so that what a node which was believed dead still
writes is never read. They lie in a folder that all nodes see, or in an object store (`s3://…`, with obstore).
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shutil
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from groundbox.dataset.files import publish
from groundbox.errors import ExtraMissing, GroundboxError, InvalidArgument

MOST_BYTES: Final = 256 * 1024 * 1024
_NAME: Final = re.compile(r"(\d{6})-(\d{9})\.tar")


class SnapshotsUnavailable(GroundboxError):
    """Snapshots cannot be read or written."""


class Snapshots:
    """Where snapshots lie. Its methods block, and may be called from any thread."""

    def __init__(self, url: str) -> None:
        """Args:
        url: A folder that is there, or the URL of an object store.

        Raises:
            InvalidArgument: There is no such folder.
            ExtraMissing: obstore is not installed.
        """
        self.url = url
        self._store: Any = None
        if "://" in url:
            try:
                from obstore.store import from_url
            except ImportError:
                raise ExtraMissing("obstore", "for snapshots in an object store", "obstore") from None
            self._store = from_url(url)
        elif not Path(url).is_dir():
            raise InvalidArgument("snapshots", f"'{url}' is no folder; make one that all nodes see")

    def put(self, sandbox_id: str, generation: int, number: int, files: Mapping[str, bytes]) -> None:
        """Keep the files of a sandbox, and drop those of before.

        Raises:
            SnapshotsUnavailable: They cannot be written.
        """
        name = f"{generation:06d}-{number:09d}.tar"
        data = packed(files)
        with self._errors():
            before = self._names(sandbox_id)
            if self._store is None:
                folder = Path(self.url, sandbox_id)
                folder.mkdir(mode=0o700, exist_ok=True)
                publish(folder / name, data)
            else:
                self._store.put(f"{sandbox_id}/{name}", data)
            for each in before:
                if each < name:
                    self._remove(sandbox_id, each)

    def latest(self, sandbox_id: str, generation: int) -> dict[str, bytes] | None:
        """The newest files of the generations before one, or None where there are none.

        Raises:
            SnapshotsUnavailable: They cannot be read.
        """
        with self._errors():
            names = [each for each in self._names(sandbox_id) if int(each[:6]) < generation]
            if not names:
                return None
            if self._store is None:
                data = Path(self.url, sandbox_id, names[-1]).read_bytes()
            else:
                data = bytes(self._store.get(f"{sandbox_id}/{names[-1]}").bytes())
        return unpacked(data)

    def drop(self, sandbox_id: str, generation: int) -> None:
        """Remove what is kept of a sandbox up to a generation: a later one lives elsewhere."""
        with contextlib.suppress(SnapshotsUnavailable), self._errors():
            for each in self._names(sandbox_id):
                if int(each[:6]) <= generation:
                    self._remove(sandbox_id, each)
            if self._store is None and not self._names(sandbox_id):
                shutil.rmtree(
                    Path(self.url, sandbox_id), ignore_errors=True
                )  # with what a killed node left half written

    def _names(self, sandbox_id: str) -> list[str]:
        if self._store is None:
            folder = Path(self.url, sandbox_id)
            names = os.listdir(folder) if folder.is_dir() else []
        else:
            listed = self._store.list(prefix=f"{sandbox_id}/").collect()
            names = [str(each["path"]).rpartition("/")[2] for each in listed]
        return sorted(name for name in names if _NAME.fullmatch(name))

    def _remove(self, sandbox_id: str, name: str) -> None:
        if self._store is None:
            Path(self.url, sandbox_id, name).unlink(missing_ok=True)
        else:
            self._store.delete(f"{sandbox_id}/{name}")

    @contextlib.contextmanager
    def _errors(self) -> Any:
        try:
            yield
        except OSError as error:
            raise SnapshotsUnavailable(f"snapshots in {self.url}: {error.strerror or error}") from None
        except Exception as error:  # of an object store, whose kinds are the library's
            if type(error).__module__.partition(".")[0] != "obstore":
                raise
            raise SnapshotsUnavailable(f"snapshots in {self.url}: {str(error).splitlines()[0]}") from None


def packed(files: Mapping[str, bytes]) -> bytes:
    """Files as one archive; the same files give the same bytes."""
    into = io.BytesIO()
    with tarfile.open(fileobj=into, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path, data in sorted(files.items()):
            about = tarfile.TarInfo(path)
            about.size = len(data)
            archive.addfile(about, io.BytesIO(data))
    return into.getvalue()


def unpacked(data: bytes) -> dict[str, bytes]:
    """Files of such an archive. Nothing is written: paths are the guest's, and go back into a workdir alone.

    Raises:
        SnapshotsUnavailable: It is torn.
    """
    found = {}
    try:
        with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as archive:
            for about in archive:
                file = archive.extractfile(about) if about.isreg() else None
                if file is not None:
                    found[about.name] = file.read()
    except (tarfile.TarError, EOFError) as error:
        raise SnapshotsUnavailable(f"a snapshot is torn: {error}") from None
    return found
