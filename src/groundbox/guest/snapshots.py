"""Snapshots of a sandbox's files: what is unchanged since the one before is not copied again.

The bytes are in *parts*, files in memory that the host hands over empty and seals when they are written. Which file's
bytes lie where is written down here, in the worker's memory, so that a copy of the worker knows the files of its time.
The host gives it the parts back, by which it puts the files into the state that they had.

A file counts as unchanged if its inode, size and times are: the time of its last change cannot be set by a program, and
writing through a mapping sets it, too, because a worker with such a mapping is not copied. Where the kernel's clock for
this is coarse, a file that was changed just before a snapshot may change after it within the same tick; its bytes are
compared. Changed modes, times, extended attributes and access lists change that time, too; the box is mounted so that
reading changes none (`noatime`).

What cannot be put back: times of change and of birth, and inode numbers.
"""

import errno
import mmap
import os
import stat
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

_MOST_PARTS = 3
"""Besides the new one; an order carries four descriptors at most. All files are copied anew then."""
_MOST_ENTRIES = 20_000
_CHUNK = 1 << 18
_TICK_NS = 20_000_000
_KEPT_ATTRIBUTES = ("user.", "system.posix_acl_")
_Stamp = tuple[int, int, int, int]
_Attributes = tuple[tuple[str, bytes], ...]


class _Extent(NamedTuple):
    """Bytes of a file that are not a hole: where in it, where in the part, and how many."""

    at: int
    offset: int
    size: int


class _File(NamedTuple):
    mode: int
    stamp: _Stamp
    times_ns: tuple[int, int]
    size: int
    part: int
    extents: tuple[_Extent, ...]
    recent: bool
    attributes: _Attributes


class _Other(NamedTuple):
    """A folder, a link with its aim, another name of a file, or a pipe."""

    kind: str
    mode: int
    aim: str = ""
    times_ns: tuple[int, int] = (0, 0)
    attributes: _Attributes = ()


class Snapshots:
    """The last one of one worker, and how to make the next."""

    def __init__(self, box: str) -> None:
        self._box = box
        self._parts = 0
        self._entries: dict[str, _File | _Other] = {}
        """By path; the box itself is the first one."""

    def take(self, descriptors: list[int]) -> str:
        """Write down all files; bytes of those that are new or changed go into the first descriptor.

        Args:
            descriptors: A new part, and those that the last snapshot is made of, in their order.

        Returns:
            What is in the way; empty for nothing.
        """
        known, parts = self._entries, len(descriptors) - 1
        if parts != self._parts or parts >= _MOST_PARTS:
            known, parts = {}, 0
        entries: dict[str, _File | _Other] = {}
        names: dict[int, str] = {}
        now, end = time.time_ns(), 0
        try:
            entries[self._box] = _other(self._box, os.stat(self._box))
            for path, found in _walk(self._box):
                if len(entries) == _MOST_ENTRIES:
                    return f"more than {_MOST_ENTRIES:,} files"
                if _is_as_before(known.get(path), found) and found.st_ctime_ns <= now - _TICK_NS:
                    entries[path] = known[path]
                elif found.st_nlink > 1 and stat.S_ISREG(found.st_mode) and found.st_ino in names:
                    entries[path] = _Other("name", 0, names[found.st_ino])
                elif not stat.S_ISREG(found.st_mode):
                    entries[path] = _other(path, found)
                else:
                    names[found.st_ino] = path
                    before = known.get(path)
                    recent = found.st_ctime_ns > now - _TICK_NS
                    if (
                        isinstance(before, _File)
                        and before.stamp == _stamp(found)
                        and (not before.recent or _is_same(path, before, descriptors[1:]))
                    ):
                        entries[path] = before._replace(
                            mode=found.st_mode, recent=recent, times_ns=_times(found), attributes=_attributes(path)
                        )
                    else:
                        extents = _copy_in(path, descriptors[0], end)
                        end = extents[-1].offset + extents[-1].size if extents else end
                        entries[path] = _File(
                            found.st_mode,
                            _stamp(found),
                            _times(found),
                            found.st_size,
                            parts,
                            extents,
                            recent,
                            _attributes(path),
                        )
        except OSError as error:
            return f"{error.filename or 'a file'} cannot be copied: {error.strerror}"
        self._entries, self._parts = entries, parts + (end > 0)  # the host lets go of a part without bytes
        return ""

    def restore(self, descriptors: list[int]) -> str:
        """Put the files into the state of the snapshot. Returns what was in the way; empty for nothing."""
        sources = _Sources(descriptors)
        try:
            present, left = {}, dict(self._entries)
            for path, found in _walk(self._box, forced=True):
                if _is_as_before(left.get(path), found):
                    del left[path]
                else:
                    present[path] = found
            for path in sorted(present, key=len, reverse=True):
                if _kind(present[path]) != _kind_of(self._entries.get(path)) or (
                    present[path].st_nlink > 1 and stat.S_ISREG(present[path].st_mode)
                ):
                    (os.rmdir if stat.S_ISDIR(present[path].st_mode) else os.unlink)(path)
                    del present[path]
            sources.expect(left.values())
            for path, entry in left.items():  # a folder comes before what is in it
                if isinstance(entry, _File):
                    self._entries[path] = _put_back(path, entry, present.get(path), descriptors, sources)
                elif path not in present and path != self._box:
                    _make(path, entry)
            for path, entry in reversed(self._entries.items()):  # and is closed, and gets its times, after that
                if isinstance(entry, _Other):
                    _finish(path, entry)
        except OSError as error:
            return f"{error.filename or 'a file'} cannot be put back: {error.strerror}"
        except IndexError:
            return "a part of the files is missing"
        finally:
            sources.close()
        return ""


class _Sources:
    """Parts as memory, mapped when something is first taken from them; `close` it, also after an error."""

    def __init__(self, parts: Sequence[int]) -> None:
        self._parts = parts
        self._bytes = dict.fromkeys(range(len(parts)), 0)
        self._mapped: dict[int, tuple[mmap.mmap, memoryview]] = {}

    def expect(self, entries: Iterable["_File | _Other"]) -> None:
        """Say what may be taken: of what is most of a part all pages are mapped at once, not one by one."""
        for entry in entries:
            if isinstance(entry, _File) and entry.part in self._bytes:
                self._bytes[entry.part] += sum(extent.size for extent in entry.extents)

    def of(self, number: int) -> memoryview:
        """A whole part.

        Raises:
            IndexError: There is no such part.
        """
        if number not in self._mapped:
            descriptor = self._parts[number]
            size = os.fstat(descriptor).st_size
            at_once = mmap.MAP_POPULATE if 2 * self._bytes[number] > size else 0
            mapped = mmap.mmap(descriptor, size, mmap.MAP_SHARED | at_once, mmap.PROT_READ)
            self._mapped[number] = mapped, memoryview(mapped)
        return self._mapped[number][1]

    def close(self) -> None:
        """Let go of all."""
        for mapped, view in self._mapped.values():
            view.release()
            mapped.close()


def _walk(folder: str, *, forced: bool = False) -> Iterator[tuple[str, os.stat_result]]:
    """All that is beneath, each folder before what is in it; nothing on the way is followed.

    Args:
        forced: Whether folders are opened that were closed to their owner, for what is in them to be removed.
    """
    if forced:
        os.chmod(folder, 0o700)
    with os.scandir(folder) as found:
        entries = list(found)
    for entry in entries:
        status = entry.stat(follow_symlinks=False)
        yield entry.path, status
        if stat.S_ISDIR(status.st_mode):
            yield from _walk(entry.path, forced=forced)


def _is_as_before(entry: "_File | _Other | None", found: os.stat_result) -> bool:
    """Whether nothing is to be done for a file: most of them, where there are many. Others may be unchanged, too."""
    return (
        type(entry) is _File
        and entry.stamp == (found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
        and entry.mode == found.st_mode
        and not entry.recent
        and found.st_nlink == 1
    )


def _stamp(found: os.stat_result) -> _Stamp:
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _times(found: os.stat_result) -> tuple[int, int]:
    return found.st_atime_ns, found.st_mtime_ns


def _attributes(target: str | int) -> _Attributes:
    """Extended attributes of a file that is no link, and its access list."""
    try:
        names = os.listxattr(target)
    except OSError as error:
        if error.errno != errno.ENOTSUP:
            raise
        return ()  # a tmpfs before Linux 6.6 has none
    return tuple((name, os.getxattr(target, name)) for name in sorted(names) if name.startswith(_KEPT_ATTRIBUTES))


def _set_attributes(target: str | int, wanted: _Attributes) -> None:
    """Leave a file with these attributes and no others; its mode has to be set afterwards."""
    present = _attributes(target)
    if present == wanted:
        return
    os.chmod(target, 0o700)  # its owner may not set them on a file that the owner may not write to
    for name, _ in present:
        os.removexattr(target, name)
    for name, value in wanted:
        os.setxattr(target, name, value)


def _kind(found: os.stat_result) -> str:
    kinds = {stat.S_IFREG: "file", stat.S_IFDIR: "folder", stat.S_IFIFO: "pipe"}
    return kinds.get(stat.S_IFMT(found.st_mode), "other")  # a link is made anew, which is as fast as a look at it


def _kind_of(entry: _File | _Other | None) -> str:
    return "file" if isinstance(entry, _File) else "none" if entry is None else entry.kind


def _other(path: str, found: os.stat_result) -> _Other:
    """Sockets lie there without whoever listened, and are left out as an empty link would be."""
    if stat.S_ISLNK(found.st_mode):
        return _Other("link", 0, os.readlink(path), _times(found))
    kind = _kind(found)
    if kind == "other":
        return _Other("nothing", 0)
    return _Other(kind, stat.S_IMODE(found.st_mode), "", _times(found), _attributes(path))


def _make(path: str, entry: _Other) -> None:
    if entry.kind == "link":
        os.symlink(entry.aim, path)
    elif entry.kind == "name":
        os.link(entry.aim, path)
    elif entry.kind == "folder":
        os.mkdir(path, 0o700)
    elif entry.kind == "pipe":
        os.mkfifo(path, 0o600)


def _finish(path: str, entry: _Other) -> None:
    """Give a folder, link or pipe its attributes, mode and times."""
    if entry.kind in ("folder", "pipe"):
        _set_attributes(path, entry.attributes)
        os.chmod(path, entry.mode)
    if entry.kind in ("folder", "pipe", "link"):
        os.utime(path, ns=entry.times_ns, follow_symlinks=False)


def _copy_in(path: str, part: int, offset: int) -> tuple[_Extent, ...]:
    """Add a file's bytes to the part, and say where they are."""
    extents = []
    file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        os.lseek(part, offset, os.SEEK_SET)
        for at, size in _data(file, os.fstat(file).st_size):
            _copy(part, file, at, size)
            extents.append(_Extent(at, offset, size))
            offset += size
    finally:
        os.close(file)
    return tuple(extents)


def _data(file: int, size: int) -> Iterator[tuple[int, int]]:
    """Where a file has bytes; the rest are holes, which may be larger than there is memory."""
    at = 0
    while at < size:
        try:
            at = os.lseek(file, at, os.SEEK_DATA)
        except OSError:
            return  # a hole up to the end
        end = os.lseek(file, at, os.SEEK_HOLE)
        yield at, end - at
        at = end


def _put_back(
    path: str, entry: _File, found: os.stat_result | None, parts: Sequence[int], sources: "_Sources"
) -> _File:
    source = sources.of(entry.part) if entry.extents else memoryview(b"")
    if found is not None and _stamp(found) == entry.stamp and (not entry.recent or _is_same(path, entry, parts)):
        if entry.recent:  # within one tick, more than bytes may have changed
            _set_attributes(path, entry.attributes)
            os.chmod(path, stat.S_IMODE(entry.mode))
            os.utime(path, ns=entry.times_ns)
            return entry._replace(stamp=_stamp(os.stat(path)))
        if found.st_mode != entry.mode:
            os.chmod(path, stat.S_IMODE(entry.mode))
        return entry
    if found is not None and not found.st_mode & stat.S_IWUSR:
        os.chmod(path, 0o600)
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
    try:
        if sum(extent.size for extent in entry.extents) < entry.size:
            os.ftruncate(file, 0)  # for the holes
        os.ftruncate(file, entry.size)
        for extent in entry.extents:
            os.lseek(file, extent.at, os.SEEK_SET)
            _write(file, source[extent.offset : extent.offset + extent.size])
        _set_attributes(file, entry.attributes)
        os.fchmod(file, stat.S_IMODE(entry.mode))
        os.utime(file, ns=entry.times_ns)
        return entry._replace(stamp=_stamp(os.fstat(file)), recent=True)
    finally:
        os.close(file)


def _copy(target: int, source: int, offset: int, size: int) -> None:
    """Copy to where the target stands. From a mapping, that takes half the time of sendfile(2) between such files."""
    before = offset % mmap.PAGESIZE
    with (
        mmap.mmap(source, before + size, mmap.MAP_SHARED, mmap.PROT_READ, offset=offset - before) as mapped,
        memoryview(mapped) as whole,
        whole[before:] as data,
    ):
        _write(target, data)


def _write(target: int, data: memoryview) -> None:
    done = 0
    while done < len(data):
        done += os.write(target, data[done:])


def _is_same(path: str, entry: _File, parts: Sequence[int]) -> bool:
    """Whether a file of the same size still has these bytes."""
    file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if tuple(_data(file, entry.size)) != tuple((extent.at, extent.size) for extent in entry.extents):
            return False
        for extent in entry.extents:
            for done in range(0, extent.size, _CHUNK):
                size = min(_CHUNK, extent.size - done)
                if os.pread(file, size, extent.at + done) != os.pread(parts[entry.part], size, extent.offset + done):
                    return False
        return True
    finally:
        os.close(file)
