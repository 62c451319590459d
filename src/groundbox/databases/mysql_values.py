"""Values and types of MySQL and MariaDB, from the bytes of the protocol to plain data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from groundbox.databases.answer import Field

_NAMES: Final = {
    0: "decimal", 1: "tinyint", 2: "smallint", 3: "int", 4: "float", 5: "double", 6: "null", 7: "timestamp",
    8: "bigint", 9: "mediumint", 10: "date", 11: "time", 12: "datetime", 13: "year", 14: "date", 15: "varchar",
    16: "bit", 245: "json", 246: "decimal", 247: "enum", 248: "set", 249: "tinytext", 250: "mediumtext",
    251: "longtext", 252: "text", 253: "varchar", 254: "char", 255: "geometry",
}  # fmt: skip
_AS_BINARY: Final = {"tinytext": "tinyblob", "mediumtext": "mediumblob", "longtext": "longblob", "text": "blob",
                     "varchar": "varbinary", "char": "binary", "geometry": "geometry"}  # fmt: skip
_INTEGERS: Final = frozenset({"tinyint", "smallint", "int", "mediumint", "bigint", "year"})
_BINARY: Final = 63
"""The number of the character set `binary`."""
_UNSIGNED: Final = 32


def field_of(packet: Any) -> Field:
    """A column's name, and its type in the server's words; a server tells no lengths of texts here."""
    name = packet.name if isinstance(packet.name, str) else packet.name.decode(errors="replace")
    kind = _NAMES.get(packet.type_code, "unknown")
    if packet.charsetnr == _BINARY:
        kind = _AS_BINARY.get(kind, kind)
    if kind == "decimal":
        digits = packet.length - (packet.scale > 0) - (not packet.flags & _UNSIGNED)
        kind = f"decimal({digits},{packet.scale})"
    unsigned = kind in _INTEGERS - {"year"} and packet.flags & _UNSIGNED
    return Field(name, f"{kind} unsigned" if unsigned else kind)


def reader_of(field: Field) -> Callable[[bytes], Any]:
    """What makes plain data of a column's values."""
    kind = field.type.partition(" ")[0]
    if kind in _INTEGERS:
        return int
    if kind in ("float", "double"):
        return float
    if kind == "bit":
        return lambda value: int.from_bytes(value, "big")
    if kind in _AS_BINARY.values():
        return lambda value: "\\x" + value.hex()
    return lambda value: value.decode(errors="replace")
