"""A guest's workdir, seen from the host through one directory descriptor that was opened before the guest began.

The host never opens a path that the guest could have shaped: every step goes from an open folder to one name
in it, following no symlink (`O_NOFOLLOW`), on the same device, and only a regular file with a single link is
read. What the guest does meanwhile can spoil the bytes, which are its own, but cannot lead elsewhere.
The host never writes here; the guest writes what it is given (guest/files.py).
"""

from __future__ import annotations

import _thread
import contextlib
import errno
import hashlib
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from groundbox.errors import GuestFileError, InvalidArgument
from groundbox.jail import rootfs
from groundbox.sandbox import private
from groundbox.sandbox.inspection.kinds import kind_of, size_of

MOST_FILES: Final = 1000
MOST_DEPTH: Final = 32
MOST_ENTRIES: Final = 50_000
"""Looked at in one walk, whatever they are: a guest may add to a folder faster than the host comes to its end."""
MOST_BYTES: Final = 256 * 1024 * 1024
_HELD_BYTES: Final = 8 * 1024 * 1024
_CHUNK: Final = 1 << 20
_AS_GUESTS_SAY: Final = tuple(f"{folder}/" for folder in (rootfs.WORKDIR, *rootfs.USUAL_WORKDIRS, "/work"))
_CROWD: Final = 500
_HEAVY_BYTES: Final = 16 * 1024 * 1024
_FULL_BYTES: Final = 1024 * 1024
"""A disk with less space left is full: file systems keep some back, and programs write in blocks."""
_TIDY: Final = frozenset({"__pycache__", ".ipynb_checkpoints"})


class Stamp(NamedTuple):
    """What tells one state of a file from the next."""

    inode: int
    size_bytes: int
    modified_ns: int
    changed_ns: int


class Listing(NamedTuple):
    """The regular files of a workdir by path, and how many entries were left out and why.

    Attributes:
        linked: Files with more than one name. They are never read, and counted in `skipped` with links.
    """

    files: dict[str, Stamp]
    linked: dict[str, Stamp]
    skipped: dict[str, int]


class MadeFile(NamedTuple):
    """A regular file that a run made or changed.

    Attributes:
        media_type: By the content where that says it, by the name otherwise.
        sha256: Of the bytes as they were right after the run.
        facts: `width` and `height` of a picture in pixels.
        read: Returns the bytes as they were right after the run, or raises GuestFileError.
    """

    path: str
    size_bytes: int
    media_type: str
    sha256: str
    facts: dict[str, int]
    read: Callable[[], bytes]


class Collected(NamedTuple):
    """The files that one run made, and how many files are none: over the caps, or with a second name.

    Attributes:
        all_held: Whether the bytes of all are in memory, so that the workdir may go.
    """

    artifacts: list[MadeFile]
    dropped: int
    all_held: bool = True


def _run_apart(function: Callable[..., object], *arguments: object) -> None:
    """Call a function in a thread of its own, or here if there is no room for a thread. A finaliser calls this.

    `threading.Thread.start` would take a lock and wait until the new thread runs.
    """
    try:
        _thread.start_new_thread(function, arguments)
    except RuntimeError:  # the interpreter is ending, or the process may have no more threads
        function(*arguments)


def _close_and_remove(descriptor: int, folder: str) -> None:
    os.close(descriptor)
    if folder:
        private.remove_soon(folder)


class Workdir:
    """Owns the descriptor; closing it frees the tmpfs once the guest is gone."""

    def __init__(self, descriptor: int, folder: str = "") -> None:
        """Args:
        folder: Where it lies on the host's disk, to be removed with it; empty for a tmpfs, which needs no removing.
        """
        self._descriptor = descriptor
        self._folder = folder
        self._device = os.fstat(descriptor).st_dev
        self._seen: dict[str, Stamp] = {}
        self._seen_linked: dict[str, Stamp] = {}
        self._entries_left = 0

    def close(self) -> None:
        """Give the descriptor back. Idempotent."""
        if self._descriptor < 0:
            return
        descriptor, is_heavy = self._descriptor, self.is_crowded() or self._used_bytes() > _HEAVY_BYTES
        self._descriptor = -1
        if is_heavy and not self._folder:  # it may be the last one, and then the tmpfs goes with it, in this thread
            _run_apart(os.close, descriptor)
            return
        os.close(descriptor)
        if self._folder:
            private.remove_soon(self._folder)

    def __del__(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            _run_apart(_close_and_remove, descriptor, self._folder)

    def is_crowded(self) -> bool:
        """Whether there are so many files that looking at them takes a while. Asks the file system, which knows."""
        try:
            told = os.fstatvfs(self._descriptor)
        except OSError:
            return False
        return told.f_files - told.f_ffree > _CROWD

    def lacks_space(self) -> bool:
        """Return True if the workdir lies on the host's disk, and that is full, of bytes or of files."""
        if not self._folder or self._descriptor < 0:
            return False
        try:
            told = os.fstatvfs(self._descriptor)
        except OSError:
            return False
        is_out_of_files = told.f_files > 0 and told.f_favail == 0
        return told.f_bavail * told.f_frsize < _FULL_BYTES or is_out_of_files

    def _used_bytes(self) -> int:
        try:
            told = os.fstatvfs(self._descriptor)
        except OSError:
            return 0
        return (told.f_blocks - told.f_bfree) * told.f_frsize

    def list(self) -> Listing:
        """Every regular file. Symlinks, devices, sockets, pipes and hard links are counted as skipped.

        After MOST_ENTRIES each folder that is not at its end counts as one more.
        """
        listing = Listing({}, {}, {})
        self._entries_left = MOST_ENTRIES
        self._walk(self._descriptor, "", 0, listing)
        return listing

    def note(self) -> None:
        """Take the present state as known, so that `collect` reports what changes from here on."""
        listing = self.list()
        self._seen, self._seen_linked = listing.files, listing.linked

    def unread_bytes(self, listing: Listing) -> int:
        """What `collect` would have to read: the files that are new or changed."""
        return sum(stamp.size_bytes for path, stamp in listing.files.items() if self._seen.get(path) != stamp)

    def collect(self, listing: Listing | None = None) -> Collected:
        """The files made or changed since the last `note` or `collect`, by a listing that was just made."""
        listing = listing or self.list()
        changed = sorted(path for path, stamp in listing.files.items() if self._seen.get(path) != stamp)
        dropped = listing.skipped.get("count", 0)
        dropped += sum(self._seen_linked.get(path) != stamp for path, stamp in listing.linked.items())
        self._seen, self._seen_linked = listing.files, listing.linked
        artifacts: list[MadeFile] = []
        held = total = 0
        for path in changed:
            size = listing.files[path].size_bytes
            if len(artifacts) == MOST_FILES or total + size > MOST_BYTES:
                dropped += 1
                continue
            total += size
            keep = held + size <= _HELD_BYTES
            try:
                artifacts.append(self._artifact(path, size, keep=keep))
            except GuestFileError:
                dropped += 1
                continue
            held += size if keep else 0
        return Collected(artifacts, dropped, held == sum(artifact.size_bytes for artifact in artifacts))

    def read(self, path: str, most_bytes: int = MOST_BYTES) -> bytes:
        """The bytes of one file.

        Raises:
            GuestFileError: It is not there, not a regular file with one link, or over the cap.
        """
        return b"".join(self._chunks(path, most_bytes))

    def look(self, path: str) -> os.stat_result | None:
        """What is at a path, `""` for the workdir itself; None where a link or another device is on the way.

        Raises:
            GuestFileError: Nothing is there.
        """
        *folders, name = path.split("/")
        try:
            folder = self._open_folder(folders, path)
        except GuestFileError as error:
            if error.errno in (errno.ENOENT, errno.EACCES):
                raise
            return None  # the kernel does not tell a file from a link that is no folder
        try:
            found = os.stat(name or ".", dir_fd=folder, follow_symlinks=False)
        except OSError as error:
            raise GuestFileError(path, error.strerror or str(error), error.errno) from None
        finally:
            os.close(folder)
        return None if stat.S_ISLNK(found.st_mode) or found.st_dev != self._device else found

    def _artifact(self, path: str, listed_bytes: int, *, keep: bool) -> MadeFile:
        """Read one file; what has grown since it was listed is not read, because the caps were counted on that."""
        digest, size, parts, head = hashlib.sha256(), 0, [], b""
        for chunk in self._chunks(path, listed_bytes):
            head = head or chunk
            digest.update(chunk)
            size += len(chunk)
            if keep:
                parts.append(chunk)
        expected = digest.hexdigest()
        data = b"".join(parts)

        def read() -> bytes:
            found = data if keep else self.read(path)
            if not keep and hashlib.sha256(found).hexdigest() != expected:
                raise GuestFileError(path, "it has changed since the run that made it")
            return found

        media_type = kind_of(path, head).media_type
        picture = size_of(media_type, head)
        return MadeFile(
            path=path,
            size_bytes=size,
            media_type=media_type,
            sha256=expected,
            facts={} if picture is None else picture._asdict(),
            read=read,
        )

    def _chunks(self, path: str, most_bytes: int) -> Iterator[bytes]:
        file = self._open(path)
        try:
            found = os.fstat(file)
            if not stat.S_ISREG(found.st_mode) or found.st_dev != self._device:
                raise GuestFileError(path, "is not a regular file")
            if found.st_nlink != 1:
                raise GuestFileError(path, "is a hard link")
            if found.st_size > most_bytes:
                raise GuestFileError(path, f"is larger than {most_bytes} bytes")
            left = most_bytes
            while left and (chunk := os.read(file, min(_CHUNK, left))):
                left -= len(chunk)
                yield chunk
        finally:
            os.close(file)

    def _open(self, path: str) -> int:
        *folders, name = check_path("path", path).split("/")
        folder = self._open_folder(folders, path)
        try:
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
            return os.open(name, flags, dir_fd=folder)
        except OSError as error:
            raise _refusal(path, name, folder, error) from None
        finally:
            os.close(folder)

    def _open_folder(self, folders: Sequence[str], path: str) -> int:
        folder = os.dup(self._live_descriptor(path))
        for name in folders:
            try:
                deeper = _open_folder(name, folder)
            except OSError as error:
                raise _refusal(path, name, folder, error) from None
            finally:
                os.close(folder)
            folder = deeper
            if os.fstat(folder).st_dev != self._device:
                os.close(folder)
                raise GuestFileError(path, "is on another device")
        return folder

    def _live_descriptor(self, path: str) -> int:
        if self._descriptor < 0:
            raise GuestFileError(path, "the workdir is gone")
        return self._descriptor

    def _walk(self, folder: int, prefix: str, depth: int, listing: Listing) -> None:
        with os.scandir(folder) as entries:
            for entry in entries:
                self._entries_left -= 1
                if self._entries_left < 0:
                    _count(listing, "count")
                    return
                if len(listing.files) + len(listing.linked) >= 10 * MOST_FILES or not _decodable(entry.name):
                    _count(listing, "count")
                    continue
                try:
                    self._visit(entry, folder, prefix + entry.name, depth, listing)
                except OSError:
                    _count(listing, "unreadable")

    def _visit(self, entry: os.DirEntry[str], folder: int, path: str, depth: int, listing: Listing) -> None:
        found = entry.stat(follow_symlinks=False)
        if stat.S_ISDIR(found.st_mode):
            if entry.name in _TIDY:
                return
            if depth == MOST_DEPTH or found.st_dev != self._device:
                _count(listing, "count")
                return
            deeper = _open_folder(entry.name, folder)
            try:
                self._walk(deeper, path + "/", depth + 1, listing)
            finally:
                os.close(deeper)
            return
        is_regular = stat.S_ISREG(found.st_mode)
        if is_regular:
            stamp = Stamp(found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
            (listing.files if found.st_nlink == 1 else listing.linked)[path] = stamp
        if not is_regular or found.st_nlink != 1:
            _count(listing, "not a regular file")


def check_path(argument: str, path: str) -> str:
    """`path` in its plain form, relative to the workdir, with `/` between the parts.

    A path as a program has it, such as /mnt/data/sales.csv, is understood.

    Raises:
        InvalidArgument: It is empty, absolute, leaves the workdir, or holds a NUL byte.
    """
    if not isinstance(path, str):
        raise InvalidArgument(argument, f"must be text, such as 'data/sales.csv', not of type {type(path).__name__}")
    if "\0" in path:
        raise InvalidArgument(argument, f"{path!r} holds a NUL byte; no file can be named so")
    for folder in _AS_GUESTS_SAY:
        if path.startswith(folder):
            path = path[len(folder) :]
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if path.startswith("/") or ".." in parts:
        raise InvalidArgument(argument, f"{path!r} must be a path inside the workdir, such as 'data/sales.csv'")
    if not parts:
        raise InvalidArgument(argument, f"{path!r} names no file")
    try:
        os.fsencode(path)
    except UnicodeEncodeError:
        raise InvalidArgument(argument, f"{path!r} holds half of a surrogate pair, which is no text") from None
    if any(len(os.fsencode(part)) > 255 for part in parts):
        raise InvalidArgument(argument, "a part of the path is longer than 255 bytes")
    return "/".join(parts)


def check_told_path(argument: str, path: str) -> str:
    """`check_path` of a path that goes to the guest by its name, and so as text. Files that it made may have others.

    Raises:
        InvalidArgument: Also where it is no text.
    """
    path = check_path(argument, path)
    try:
        path.encode()
    except UnicodeEncodeError:
        raise InvalidArgument(argument, f"{path!r} has bytes that are no UTF-8; give it another name") from None
    return path


def _open_folder(name: str, folder: int) -> int:
    return os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)


def _refusal(path: str, name: str, folder: int, error: OSError) -> GuestFileError:
    """What is told of a path whose part `name` in `folder` cannot be opened."""
    with contextlib.suppress(OSError):
        if stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            reason = f"{name!r} is a link, which `files` does not follow; `guest_files` follows it as programs do"
            return GuestFileError(path, reason, error.errno)
    return GuestFileError(path, error.strerror or str(error), error.errno)


def _decodable(name: str) -> bool:
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _count(listing: Listing, reason: str) -> None:
    listing.skipped[reason] = listing.skipped.get(reason, 0) + 1
