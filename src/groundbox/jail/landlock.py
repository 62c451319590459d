"""Landlock: which files a guest may touch, by inode, whatever namespaces say.

Covered: opening, making, renaming, truncating and executing files outside the allowed trees; TCP bind and
connect (ABI 4); ioctl on devices (ABI 5); signals and abstract sockets to processes outside (ABI 6).
Not covered: stat, chmod, chown, readlink, UDP, sockets with a path; for these other layers stand.
See landlock(7).

A ruleset names inodes, so it is made after the mounts that it speaks of.
"""

import os
import struct
from collections.abc import Iterable
from typing import Final, NamedTuple

from . import kernel

_VERSION_QUERY: Final = 1
_PATH_BENEATH: Final = 1

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
READ: Final = EXECUTE | READ_FILE | READ_DIR
WRITE_DEVICE: Final = READ_FILE | WRITE_FILE
_REFER, _TRUNCATE, _IOCTL_DEVICE = 1 << 13, 1 << 14, 1 << 15
_FILE_RIGHTS: Final = EXECUTE | WRITE_FILE | READ_FILE | _TRUNCATE | _IOCTL_DEVICE
_TCP: Final = 0b11
APART_ABI: Final = 6
_SIGNALS: Final = 0b10
_SCOPES: Final = 0b01 | _SIGNALS


class Rule(NamedTuple):
    """`rights` on everything beneath `path`; `None` stands for every right there is.

    Attributes:
        descriptor: An open O_PATH descriptor of `path`, or -1.
    """

    path: str
    rights: int | None
    descriptor: int = -1


def opened(rule: Rule) -> Rule:
    """The rule with its path opened for good, and rights that a file cannot have left out."""
    return _fitting(rule, os.open(rule.path, os.O_PATH | os.O_CLOEXEC))


def _fitting(rule: Rule, descriptor: int) -> Rule:
    rights = rule.rights
    if rights is not None and not os.path.isdir(rule.path):
        rights &= _FILE_RIGHTS
    return Rule(rule.path, rights, descriptor)


def abi() -> int:
    """The kernel's Landlock version, 0 when it has none or it is switched off."""
    try:
        return kernel.call("landlock_create_ruleset", None, 0, _VERSION_QUERY)
    except OSError:
        return 0


def restrict(rules: Iterable[Rule], *, version: int, tcp: bool) -> None:
    """Restrict the calling process and all it will start.

    Args:
        version: What `abi()` answered; rights that the kernel does not know are left out.
        tcp: Whether TCP may be used; False forbids every bind and connect.
    """
    rights = _rights(version)
    network = _TCP if version >= 4 and not tcp else 0
    scoped = _SCOPES if version >= 6 else 0
    attributes = struct.pack("=QQQ", rights, network, scoped)[: _size(version)]
    ruleset = kernel.call("landlock_create_ruleset", attributes, len(attributes), 0)
    try:
        for rule in rules:
            _add(ruleset, rule, rights)
        kernel.call("landlock_restrict_self", ruleset, 0)
    finally:
        kernel.close(ruleset)


def apart() -> int:
    """A ruleset for programs beside each other, as a descriptor that the caller owns. Needs `APART_ABI`.

    Who is restricted by it reaches no process but its own descendants, neither by signals nor by what asks for the
    right to trace: its memory, its descriptors. Files stay as they are; renaming from folder to folder has to be
    allowed by name.
    """
    ruleset = kernel.call("landlock_create_ruleset", struct.pack("=QQQ", _REFER, 0, _SIGNALS), 24, 0)
    try:
        _add(ruleset, Rule("/", _REFER), _REFER)
    except OSError:
        kernel.close(ruleset)
        raise
    return ruleset


def _rights(version: int) -> int:
    rights = (1 << 13) - 1
    for needed, right in ((2, _REFER), (3, _TRUNCATE), (5, _IOCTL_DEVICE)):
        if version >= needed:
            rights |= right
    return rights


def _size(version: int) -> int:
    return 8 if version < 4 else 16 if version < 6 else 24


def _add(ruleset: int, rule: Rule, handled: int) -> None:
    if rule.descriptor < 0:
        rule = _fitting(rule, kernel.open_path(rule.path))  # a direct call, so that rehearsals and recordings cover it
        try:
            _add(ruleset, rule, handled)
        finally:
            kernel.close(rule.descriptor)
        return
    allowed = handled if rule.rights is None else rule.rights & handled
    attributes = struct.pack("=Qi", allowed, rule.descriptor)
    kernel.call("landlock_add_rule", ruleset, _PATH_BENEATH, attributes, 0)
