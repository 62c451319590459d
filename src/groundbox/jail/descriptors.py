"""Open files: a guest starts with its three streams and its socket, and with no other descriptor.

A leaked directory descriptor is a way out of any mount namespace (CVE-2024-21626).
"""

import os
from collections.abc import Collection
from typing import Final

from . import kernel

_LAST: Final = (1 << 31) - 1  # gVisor takes the number for a signed one


def close_all_but(keep: Collection[int]) -> None:
    """Close every descriptor that is not in `keep`."""
    start = 0
    for descriptor in sorted(keep):
        if descriptor > start:
            kernel.close_range(start, descriptor - 1)
        start = descriptor + 1
    kernel.close_range(start, _LAST)


def open_descriptors() -> list[int]:
    """The descriptors of this process, for tests and the doctor."""
    found = []
    for name in os.listdir("/proc/self/fd"):
        descriptor = int(name)
        try:
            os.fstat(descriptor)
        except OSError:
            continue
        found.append(descriptor)
    return sorted(found)
