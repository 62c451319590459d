"""Where the engine in the background listens, and whether calls use it.

Every `groundbox run` asks this before all else, so that nothing is imported here but what the interpreter has loaded.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

OFF: Final = "GROUNDBOX_ENGINE"
"""A variable: `off` lets every call do without."""


class NoPlace(Exception):
    """There can be no engine, for the reason that the message tells."""


def is_off() -> bool:
    """Whether calls are told to do without: GROUNDBOX_ENGINE=off, or CI is set."""
    return os.environ.get(OFF, "").lower() in ("off", "0", "no", "false") or bool(os.environ.get("CI"))


def folder() -> str:
    """The folder of sockets, of this user alone; made if it is not there.

    Raises:
        NoPlace: It belongs to somebody else, or is open to others.
    """
    if os.geteuid() == 0:
        path = "/run/groundbox/engine"
    else:
        above = os.environ.get("XDG_RUNTIME_DIR", "")
        own = os.path.isdir(above) and os.stat(above).st_uid == os.geteuid()  # not that of who called `su`
        path = f"{above}/groundbox/engine" if own else f"/tmp/groundbox-{os.geteuid()}/engine"
    try:
        for each in (os.path.dirname(path), path):
            try:
                os.mkdir(each, 0o700)
            except FileExistsError:
                pass
            found = os.lstat(each)
            closed = 0o077 if each == path else 0o022
            is_folder = found.st_mode & 0o170000 == 0o040000
            if not is_folder or found.st_uid != os.geteuid() or found.st_mode & closed:
                raise NoPlace(f"'{each}' is not this user's alone; remove it")
    except OSError as error:
        raise NoPlace(f"'{path}' cannot be made: {error.strerror}") from None
    return path


def path_of(kind: str) -> str:
    """A path of the engine of this installation: `sock` where it listens, `log`, `run` of the command line's process.

    Raises:
        NoPlace: There is no folder for it.
    """
    return f"{folder()}/{_digest()}.{kind}"


def _digest() -> str:
    """Sixteen hexadecimal digits of what an engine and its clients have to share."""
    try:
        from _blake2 import blake2s  # hashlib would load all of OpenSSL
    except ImportError:
        from hashlib import blake2s

    parts = (
        os.path.dirname(os.path.dirname(__file__)),
        sys.executable,
        str(sys.version_info[:3]),
        os.environ.get("GROUNDBOX_HOME", ""),
        os.environ.get("TMPDIR", ""),
    )
    return blake2s("\0".join(parts).encode("utf-8", "surrogateescape"), digest_size=8).hexdigest()
