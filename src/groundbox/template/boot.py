"""Start of a template: `python -s -P -S boot.py DESCRIPTOR HEAP_BYTES`.

Three processes, because a pid namespace needs a first process that does nothing else:
the *starter*, which the host started, only waits; the *keeper* is process 1 of the template's pid namespace,
reaps, and takes everything with it when it ends; the *template* imports, seals itself and serves.
The backends without namespaces have the template alone.

Nothing of the environment is imported before the jail stands: even a library's import code runs inside.
Our own files are not there inside, so all of them are read before, and imported from memory when they are needed.
"""

# ruff: noqa: E402  room is made before the other imports, whose objects are to lie in it, too
import sys


def _make_room(heap_bytes: int) -> list[bytes]:
    """Let the heap that the imports will fill lie in one piece, which huge pages can back; keep the result.

    The interpreter asks for memory in pieces of 1 MiB wherever the kernel finds room, between the mappings
    of libraries; pieces that do not line up to 2 MiB cannot become huge. Asked for all at once,
    before any library is mapped, they lie side by side. Some small objects in each keep them from going back.
    Below the last piece lies a large object that nobody writes to, so that the huge page there is not a library's.
    """
    block = 512
    filled = [bytes(block - bytes.__basicsize__) for _ in range(heap_bytes // block)]
    return [*filled[:: (1 << 20) // block // 4], bytes(2 << 20)]


_HEAP_BYTES = int(sys.argv[2])
_FIRST_BYTES = min(_HEAP_BYTES, 10 << 20)  # what we fill ourselves; the rest those who only wait need not hold
_ROOM = _make_room(_FIRST_BYTES)

import json
import marshal
import os
import socket
import types
from collections.abc import Sequence
from importlib.abc import InspectLoader, MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_loader

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_OF_VALUES = ("__init__.py", "codec.py")  # the rest of groundbox.values is for the host, and would be read for nothing


class _OwnCode(MetaPathFinder, InspectLoader):
    """Serves groundbox.guest, .jail, .template and .values from memory, as marshal writes them down.

    As objects they would take four times as much, of which most templates need a third, and each fork copies.
    """

    def __init__(self) -> None:
        self._files: dict[str, tuple[str, bytes]] = {}
        self._packages: set[str] = set()
        for part in ("guest", "jail", "template", "values"):
            for folder, _, files in os.walk(f"{_PACKAGE}/{part}"):
                for file in files:
                    if file.endswith(".py") and (part != "values" or file in _OF_VALUES):
                        self._read(folder, file)

    def _read(self, folder: str, file: str) -> None:
        below = os.path.relpath(folder, _PACKAGE).replace("/", ".")
        is_package = file == "__init__.py"
        name = f"groundbox.{below}" + ("" if is_package else f".{file[:-3]}")
        path = f"{folder}/{file}"
        code = SourceFileLoader(name, path).get_code(name)
        if code is not None:
            self._files[name] = path, marshal.dumps(code)
        if is_package:
            self._packages.add(name)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in self._files:
            return None
        spec = spec_from_loader(fullname, self, origin=self._files[fullname][0])
        assert spec is not None
        spec.has_location = True
        return spec

    def get_code(self, fullname: str) -> types.CodeType:
        code: types.CodeType = marshal.loads(self._files[fullname][1])
        return code

    def get_source(self, fullname: str) -> None:
        return None

    def is_package(self, fullname: str) -> bool:
        return fullname in self._packages


def main() -> None:
    """Receive the plan, build the outer jail, warm up, serve until the host goes away."""
    package = types.ModuleType("groundbox")
    package.__path__ = []
    sys.modules["groundbox"] = package
    sys.meta_path.insert(0, _OwnCode())
    control = socket.socket(fileno=os.dup(int(sys.argv[1])))  # a low number: others are spoken for (jail/sealed.py)
    os.close(int(sys.argv[1]))
    order = json.loads(control.recv(1 << 20))

    from groundbox.jail import enter
    from groundbox.template import outer

    try:
        outer.enter_outer_jail(control, outer.plan_from(order))
        from groundbox.template import renewing

        if _HEAP_BYTES > _FIRST_BYTES:
            with renewing.whole_huge_pages():
                _ROOM.extend(_make_room(_HEAP_BYTES - _FIRST_BYTES))
        from groundbox.template import serve

        serve.run(control, order)
    except (OSError, enter.JailFailed) as error:
        layer = "" if isinstance(error, enter.JailFailed) else "template: "
        reason = str(error) if isinstance(error, enter.JailFailed) else enter.refusal(error)
        control.send(json.dumps({"ev": "failed", "reason": layer + reason}).encode())
        os._exit(1)


if __name__ == "__main__":
    main()
