"""Parts of a build in an object store: a bucket, or a folder that several machines share.

What is covered: a driver's machine may be lost with its disk. Another one with the same arguments finds the parts here
and goes on. A part is one object that tells its stage, its number and the digests of its files; it is written only
where nothing is, so that the first writer wins and the others take what it wrote. What is read is held against these,
and refused where it differs. Nothing is unpickled, and no name of a file is taken from there.

One driver is at work in a place at a time. It holds the object `driver-N` and rewrites it every few seconds; another
one takes over by writing `driver-N+1`, which only one can, once the holder has said that it ended, has ended on the
same machine, or has been still for `_STILL_S`. No two clocks are compared. A driver that finds a later one ends. Until
it does, it does no harm: parts are the same, whoever makes them.

What is not covered: credentials (`AWS_…` of the environment, as obstore takes them), and a folder's machine that loses
what it has not written to its disk.
"""

from __future__ import annotations

import contextlib
import datetime
import functools
import hashlib
import json
import os
import re
import secrets
import socket
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from groundbox.dataset import files, optional_imports
from groundbox.errors import GroundboxError, InvalidArgument
from groundbox.jail.cgroup import start_time

_MANIFEST: Final = "manifest.json"
_PART: Final = ".part"
_DRIVER: Final = "driver-"
# A driver is taken for gone after six beats that did not come.
_BEAT_S: Final = 5.0
_STILL_S: Final = 30.0
_RETRY_S: Final = 60
_need: Final = functools.partial(optional_imports.need, purpose="to keep parts in an object store", install="obstore")


class ObjectsFailed(GroundboxError):
    """The object store refuses, or is gone. What is in it stays, and the build can be resumed."""

    def __init__(self, url: str, what: str, error: BaseException) -> None:
        # obstore's messages go on with a dump of its own structures.
        # Without that dump the reason stands on one line.
        told = str(error).split("\n\nDebug source", 1)[0].strip()
        super().__init__(
            f"--parts: {url}: {what}: {told or type(error).__name__}. "
            "What was done is kept there; the same command goes on from it"
        )


class PartDamaged(GroundboxError):
    """A part is not what was written. Nothing was overwritten."""

    def __init__(self, url: str, name: str, why: str) -> None:
        super().__init__(
            f"--parts: {url}/{name} is not what was written there ({why}). It was left as it is; "
            "without it, the same command does that part again"
        )
        self.name = name


class Objects:
    """The parts of one build in one place. Use `opened` to get one. Its methods may be called from several threads."""

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")
        self._obstore = _need("obstore")
        errors = _need("obstore.exceptions")
        self._exists, self._failed = errors.AlreadyExistsError, (errors.BaseError, OSError)
        stores = _need("obstore.store")
        try:
            if "://" in url:
                self._store = stores.from_url(url, retry_config={"retry_timeout": datetime.timedelta(seconds=_RETRY_S)})
            else:
                self._store = stores.LocalStore(prefix=Path(url).absolute(), mkdir=True)
        except (*self._failed, ValueError, TypeError) as error:
            raise InvalidArgument("--parts", f"{url}: {str(error).splitlines()[0]}") from None
        self._lease: _Lease | None = None

    def names(self) -> list[str]:
        """All objects that are there."""
        with self._telling("cannot be listed"):
            return sorted(each["path"] for page in self._obstore.list(self._store) for each in page)

    def parts(self) -> Iterator[tuple[str, int]]:
        """Stages and numbers of the parts that are there.

        Raises:
            PartDamaged: Something is called as a part, and is none of a build.
        """
        for name in self.names():
            if name.endswith(_PART):
                told = re.fullmatch(r"([a-z][a-z_-]*)-([0-9]{6,})", name.removesuffix(_PART))
                if told is None:
                    raise PartDamaged(self.url, name, "no part has this name")
                yield told[1], int(told[2])

    def put(self, stage: str, number: int, part: Mapping[str, bytes]) -> Mapping[str, bytes]:
        """Keep a part, unless there is one already; the one that is kept.

        Raises:
            ObjectsFailed: It cannot be written, or another driver has taken over.
            PartDamaged: The one that is there is damaged.
        """
        if self._lease is not None and self._lease.later:
            raise InvalidArgument("--parts", f"another build has taken over {self.url}: {self._lease.later}")
        if self._create(f"{stage}-{number:06d}{_PART}", _packed(stage, number, part)):
            return part
        return self.get(stage, number, part)

    def get(self, stage: str, number: int, suffixes: Iterable[str]) -> Mapping[str, bytes]:
        """A part that is there.

        Args:
            suffixes: Of its files, in their order: no others are taken.

        Raises:
            PartDamaged: It is not what was written.
        """
        name = f"{stage}-{number:06d}{_PART}"
        try:
            return _unpacked(self._read(name), stage, number, tuple(suffixes))
        except ValueError as error:
            raise PartDamaged(self.url, name, str(error)) from None

    def clear(self) -> None:
        """Remove all parts, unless they are another driver's now."""
        if self._lease is not None and self._lease.later:
            return
        # The manifest and the notes of drivers stay: who comes next sees what was here.
        names = [name for name in self.names() if name.endswith(_PART)]
        with self._telling("parts cannot be removed"):
            for name in names:
                self._obstore.delete(self._store, name)

    def _read(self, name: str) -> bytes:
        with self._telling(f"{name} cannot be read"):
            return bytes(self._obstore.get(self._store, name).bytes())

    def _create(self, name: str, data: bytes) -> bool:
        """Write an object where none is; whether it was."""
        with self._telling(f"{name} cannot be written"):
            try:
                # One step for the store: of two writers at once, it decides who was first.
                self._obstore.put(self._store, name, data, mode="create")
            except self._exists:
                return False
        return True

    def _overwrite(self, name: str, data: bytes) -> None:
        with self._telling(f"{name} cannot be written"):
            self._obstore.put(self._store, name, data)

    @contextlib.contextmanager
    def _telling(self, what: str) -> Iterator[None]:
        try:
            yield
        except self._failed as error:
            raise ObjectsFailed(self.url, what, error) from None

    def _check(self, arguments: Mapping[str, Any]) -> None:
        """Refuse what belongs to something else."""
        names = self.names()
        if names and _MANIFEST not in names:
            raise InvalidArgument("--parts", f"{self.url} is not empty, and no build of ours; name another place")
        if self._create(_MANIFEST, json.dumps({"arguments": dict(arguments)}, indent=1, sort_keys=True).encode()):
            return
        files.check_same(json.loads(self._read(_MANIFEST))["arguments"], arguments, "--parts", self.url, "place")

    def _taken(self) -> _Lease:
        """The lease, once whoever had it has none.

        Raises:
            InvalidArgument: Somebody has it.
        """
        name, holder = self._holder()
        if holder is not None and not holder["ended"] and not _has_ended_here(holder):
            # Watched by our own clock: that of the machine that wrote it may be off by hours.
            until = time.monotonic() + _STILL_S
            while time.monotonic() < until:
                time.sleep(_BEAT_S / 5)
                if self._holder() != (name, holder):
                    raise self._busy(holder)
        # A number one higher, created and not overwritten: of two drivers that saw the same holder still, one succeeds.
        number = 1 if holder is None else int(name.removeprefix(_DRIVER)) + 1
        lease = _Lease(self, f"{_DRIVER}{number:06d}")
        if not self._create(lease.name, lease.told()):
            raise self._busy(self._holder()[1] or {})
        lease.start()
        return lease

    def _holder(self) -> tuple[str, dict[str, Any] | None]:
        """Name and content of the latest driver's object."""
        names = [name for name in self.names() if name.startswith(_DRIVER)]
        if not names:
            return "", None
        try:
            holder: dict[str, Any] = json.loads(self._read(names[-1]))
            if not holder.keys() >= {"host", "pid", "born", "machine", "ended"}:
                raise ValueError("keys are missing")
        except (ValueError, AttributeError) as error:
            raise PartDamaged(self.url, names[-1], f"it tells of no driver: {error}") from None
        return names[-1], holder

    def _busy(self, holder: Mapping[str, Any]) -> InvalidArgument:
        where = f"process {holder.get('pid')} of {holder.get('host')}"
        return InvalidArgument("--parts", f"another build is at work in {self.url}: {where}")


class _Lease:
    """Says of one driver that it is at work.

    Attributes:
        later: Who has taken over, or "".
    """

    def __init__(self, objects: Objects, name: str) -> None:
        self._objects, self.name, self.later = objects, name, ""
        self._facts = {**_own(), "id": secrets.token_hex(8), "ended": False}
        self._beats = 0
        self._ends = threading.Event()
        # A thread, since the event loop may be busy for longer than others wait; a daemon, so that it holds up no end.
        self._thread = threading.Thread(target=self._beat, name="groundbox-parts", daemon=True)

    def told(self) -> bytes:
        return json.dumps({**self._facts, "beats": self._beats}).encode()

    def start(self) -> None:
        self._thread.start()

    def end(self) -> None:
        """Say that it is over, unless somebody else has it."""
        self._ends.set()
        self._thread.join()
        self._facts["ended"] = True
        if not self.later:
            with contextlib.suppress(ObjectsFailed):  # then it is waited for
                self._objects._overwrite(self.name, self.told())

    def _beat(self) -> None:
        while not self._ends.wait(_BEAT_S):
            # Tried again, and what is damaged is no reason to be still; a part that cannot be written says so.
            with contextlib.suppress(ObjectsFailed, PartDamaged):
                self._beats += 1
                self._objects._overwrite(self.name, self.told())
                name, holder = self._objects._holder()
                if name > self.name and holder is not None:
                    self.later = f"process {holder['pid']} of {holder['host']}"
                    return


@contextlib.contextmanager
def opened(url: str, arguments: Mapping[str, Any]) -> Iterator[Objects]:
    """The parts of a build at a URL (`s3://BUCKET/PREFIX`) or in a folder, for this driver alone.

    Args:
        arguments: As of `groundbox.dataset.part_store.opened`, as JSON values.

    Raises:
        InvalidArgument: Another driver is at work there, or one with other arguments has been, or there is something
            else.
        ObjectsFailed: The store cannot be reached.
        ExtraMissing: obstore is not installed.
    """
    objects = Objects(url)
    objects._check(arguments)
    objects._lease = objects._taken()
    try:
        yield objects
    finally:
        objects._lease.end()


def _packed(stage: str, number: int, part: Mapping[str, bytes]) -> bytes:
    """A part as one object: a line that tells which it is and its files, then these."""
    told = [[suffix, len(data), hashlib.sha256(data).hexdigest()] for suffix, data in part.items()]
    return json.dumps({"part": [stage, number], "files": told}).encode() + b"\n" + b"".join(part.values())


def _unpacked(data: bytes, stage: str, number: int, suffixes: tuple[str, ...]) -> dict[str, bytes]:
    """The files of a part.

    Raises:
        ValueError: A digest differs, or it is none of ours, or another one.
    """
    head, _, rest = data.partition(b"\n")
    try:
        told = json.loads(head)
        which, files = told["part"], [(str(suffix), int(size), str(digest)) for suffix, size, digest in told["files"]]
    except (ValueError, TypeError, KeyError, UnicodeDecodeError):
        raise ValueError("it does not begin as a part does") from None
    if which != [stage, number]:
        raise ValueError("it was written under another name")
    if tuple(suffix for suffix, _, _ in files) != suffixes:
        raise ValueError(f"its files are not {', '.join(suffixes)}")
    part, at = {}, 0
    for suffix, size, digest in files:
        # A negative size of a forged head would read backwards.
        part[suffix] = rest[at : at + max(0, size)]
        at += len(part[suffix])
        found = hashlib.sha256(part[suffix]).hexdigest()
        if found != digest:
            raise ValueError(f"its {suffix} has the digest {found[:16]}…, and was written with {digest[:16]}…")
    if at != len(rest):
        raise ValueError(f"it has {len(rest)} bytes of files, and was written with {at}")
    return part


def _own() -> dict[str, Any]:
    """Return what tells this process from all others."""
    return {"host": socket.gethostname(), "pid": os.getpid(), "born": _born(os.getpid()), "machine": _machine()}


def _machine() -> str:
    """This start of this machine, and the namespace in which our process numbers count."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return f"{boot} {os.readlink('/proc/self/ns/pid')}"


def _born(pid: int) -> str:
    """When a process began, in the kernel's ticks; "" where there is none."""
    return str(start_time(pid) or "")


def _has_ended_here(holder: Mapping[str, Any]) -> bool:
    # With the time at which it began: numbers of processes are given again.
    return bool(holder["machine"] == _machine() and holder["born"] != _born(holder["pid"]))
