"""Native tracers for tests, built once for all processes that run tests in this checkout."""

import fcntl
import hashlib
from pathlib import Path

from groundbox.guest.trace.native import build

STRICT = ("-Wall", "-Wextra", "-Werror")


def built(python: str, folder: Path) -> Path | build.NotBuilt:
    """Return the core in C for an interpreter, or why there is none.

    Args:
        folder: Kept from one run of the tests to the next, such as one of pytest's cache.
    """
    target = build.ask(Path(python))
    if isinstance(target, build.NotBuilt):
        return target
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        key = hashlib.sha256(f"{build.sources_sha256()} {target}".encode()).hexdigest()[:16]
        into = folder / key
        into.mkdir(exist_ok=True)
        found = next(into.glob("*.so"), None)
        return found or build.build(Path(python), into, flags=STRICT)
