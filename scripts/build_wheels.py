"""Builds what is published of groundbox, into one folder:

    groundbox-VERSION.tar.gz                                the source distribution
    groundbox-VERSION-py3-none-any.whl                      the wheel for every platform, made from it
    groundbox-VERSION-py3-none-manylinux_2_17_x86_64.whl    the same with native tracers for CPython 3.11 to 3.13

    python scripts/build_wheels.py dist [--python PATH]… [--partial]

One wheel has the tracers of all versions, because guests may run on another Python than groundbox itself.
It is named after the oldest glibc that has every symbol which the tracers ask for, as `objdump` lists them,
and is refused where that cannot be told. The same sources, compiler and headers give the same bytes, wherever the
checkout lies; times in the archives are $SOURCE_DATE_EPOCH, or one that is always the same.

It needs hatchling, a C compiler with binutils, and an interpreter with its headers for each version.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import csv
import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from groundbox.errors import EnvironmentFailed, InvalidArgument
from groundbox.guest.trace.native import build as native
from groundbox.sandbox.environments import interpreter
from groundbox.trace import prebuilt

ROOT = Path(__file__).resolve().parents[1]
IN_WHEEL = "groundbox/trace/tracers"
MACHINES = {62: ("x86_64", "-march=x86-64"), 183: ("aarch64", "-march=armv8-a")}
"""By the number in an ELF header: the name in a wheel's tag, and the instructions that every such machine has."""
OLDEST_GLIBC = (2, 17)
"""Nothing older is claimed, whatever the symbols are, since nobody tries it."""
OF_GLIBC = {"libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}


class Refused(Exception):
    """Something cannot be published as it is."""


class Tracer(NamedTuple):
    """One file for the wheel, and the version whose headers it was compiled with."""

    path: Path
    python: tuple[int, int, int]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("into", type=Path, help="a folder, made if it is not there")
    parser.add_argument("--python", action="append", default=[], metavar="PATH", help="an interpreter to build for")
    parser.add_argument("--partial", action="store_true", help="leave out versions that cannot be built here")
    options = parser.parse_args(arguments)
    options.into.mkdir(parents=True, exist_ok=True)
    try:
        with tempfile.TemporaryDirectory(prefix="groundbox-wheels-") as folder:
            for path in build(options.into.resolve(), Path(folder), options.python, partial=options.partial):
                print(path)
    except Refused as problem:
        print(f"build_wheels: {problem}", file=sys.stderr)
        return 3
    return 0


def build(into: Path, scratch: Path, pythons: Sequence[str], *, partial: bool) -> Iterator[Path]:
    source = _hatchling("sdist", ROOT, into)
    yield source
    shutil.unpack_archive(source, scratch)  # our own; Debian's 3.11 knows no filter
    unpacked = scratch / source.name.removesuffix(".tar.gz")
    pure = _hatchling("wheel", unpacked, into)
    yield pure
    tracers = list(compiled(interpreters(pythons, partial=partial), scratch, partial=partial))
    if not tracers:
        raise Refused("there is no tracer to put into a wheel")
    yield with_tracers(pure, tracers, platform_tag([each.path for each in tracers]))


def _hatchling(target: str, sources: Path, into: Path) -> Path:
    hook = f"from hatchling.build import build_{target} as build; import sys; print(build(sys.argv[1]))"
    built = subprocess.run([sys.executable, "-c", hook, str(into)], cwd=sources, capture_output=True, text=True)
    if built.returncode:
        raise Refused(f"hatchling failed:\n{built.stderr}")
    return into / built.stdout.strip().rpartition("\n")[2]


def interpreters(named: Sequence[str], *, partial: bool) -> Iterator[interpreter.Interpreter]:
    """Those that were named, and for each version of which none was, the first on this machine."""
    chosen = {}
    for each in named:
        found = _interpreter(each)
        chosen[found.version[:2]] = found
    for version in native.VERSIONS:
        try:
            yield chosen.get(version) or _interpreter(".".join(map(str, version)))
        except Refused as problem:
            _leave_out(problem, partial=partial)


def _interpreter(named: str) -> interpreter.Interpreter:
    try:
        return interpreter.choose(named)
    except (InvalidArgument, EnvironmentFailed) as problem:
        raise Refused(f"{problem}; name one with --python") from None


def _leave_out(problem: Refused, *, partial: bool) -> None:
    if not partial:
        raise Refused(f"{problem} (--partial leaves it out)")
    print(f"left out: {problem}", file=sys.stderr)


def compiled(pythons: Iterable[interpreter.Interpreter], into: Path, *, partial: bool) -> Iterator[Tracer]:
    for python in pythons:
        made = native.build(python.path, into, flags=_flags(python.path))
        if isinstance(made, native.NotBuilt):
            version = ".".join(map(str, python.version))
            _leave_out(Refused(f"no tracer for Python {version}: {made.reason}"), partial=partial)
            continue
        _refuse_own_paths(made, [ROOT, into, native.SOURCES, Path.home(), python.path.parent.parent])
        yield Tracer(made, python.version)


def _flags(python: Path) -> list[str]:
    """No symbols, no paths of this machine, and no instructions that a newer compiler may take for granted."""
    target = native.ask(python)
    if isinstance(target, native.NotBuilt):
        return []
    folders = {native.SOURCES: "native", **{include: include.name for include in target.includes}}
    maps = [f"-ffile-prefix-map={folder}={name}" for folder, name in folders.items()]
    return [*maps, *(march for machine, march in MACHINES.values() if machine == os.uname().machine), "-s"]


def _refuse_own_paths(file: Path, folders: Iterable[Path]) -> None:
    content = file.read_bytes()
    for folder in folders:
        for each in {folder, folder.resolve()} - {Path("/"), Path("/usr")}:
            if f"{each}/".encode() in content:
                raise Refused(f"{file.name} contains the path {each}")


def platform_tag(files: Sequence[Path]) -> str:
    """The wheel's platform: the machine of these files, and the oldest glibc that has what they ask for."""
    machines = {machine(file) for file in files}
    if len(machines) != 1:
        raise Refused(f"the tracers are for more than one machine: {', '.join(sorted(machines))}")
    major, minor = max(OLDEST_GLIBC, *(glibc(file) for file in files))
    return f"manylinux_{major}_{minor}_{machines.pop()}"


def machine(file: Path) -> str:
    header = file.read_bytes()[:20]
    # ELF, 64 bits, little-endian; the machine is the second field after the 16 bytes of identification.
    known = MACHINES.get(int.from_bytes(header[18:20], "little"))
    if header[:6] != b"\x7fELF\x02\x01" or known is None:
        raise Refused(f"{file.name} is not for one of {', '.join(name for name, _ in MACHINES.values())}")
    return known[0]


def glibc(file: Path) -> tuple[int, int]:
    """The newest version of glibc whose symbols `file` asks for."""
    command = ["objdump", "--private-headers", str(file)]
    try:
        told = subprocess.run(command, capture_output=True, text=True, check=True, env={**os.environ, "LC_ALL": "C"})
    except (OSError, subprocess.CalledProcessError) as problem:
        raise Refused(f"what {file.name} needs cannot be told without objdump: {problem}") from None
    return needed_glibc(file.name, told.stdout)


def needed_glibc(name: str, headers: str) -> tuple[int, int]:
    """As `glibc`, from what objdump told."""
    libraries = set(re.findall(r"^  NEEDED +(\S+)$", headers, re.MULTILINE))
    if foreign := libraries - OF_GLIBC:
        raise Refused(f"{name} needs {', '.join(sorted(foreign))}, which manylinux does not promise")
    if re.search(r"^  (RPATH|RUNPATH) ", headers, re.MULTILINE):
        raise Refused(f"{name} names folders to look for libraries in")
    references = headers.partition("Version References:")[2]
    versions = re.findall(r"^    0x[0-9a-f]+ 0x[0-9a-f]+ \d+ (\S+)$", references, re.MULTILINE)
    if "libc.so.6" not in libraries or not versions:
        raise Refused(f"{name} does not say which glibc it needs")
    numbers = [re.fullmatch(r"GLIBC_(\d+)\.(\d+)(?:\.\d+)?", version) for version in versions]
    if odd := [version for version, number in zip(versions, numbers, strict=True) if number is None]:
        raise Refused(f"{name} needs {', '.join(odd)}, which is no version of glibc")
    return max((int(number[1]), int(number[2])) for number in numbers if number is not None)


def with_tracers(pure: Path, tracers: Sequence[Tracer], tag: str) -> Path:
    """A wheel beside `pure` with what is in it and these files. It appears complete or not at all."""
    result = pure.with_name(pure.name.replace("-any.whl", f"-{tag}.whl"))
    if result == pure:
        raise Refused(f"{pure.name} is not a wheel for every platform")
    unfinished = result.with_suffix(".unfinished")
    try:
        with zipfile.ZipFile(pure) as old, zipfile.ZipFile(unfinished, "w", zipfile.ZIP_DEFLATED) as new:
            _rewrite(old, new, _added(tracers), tag)
        unfinished.replace(result)
    finally:
        with contextlib.suppress(FileNotFoundError):
            unfinished.unlink()
    return result


def _added(tracers: Sequence[Tracer]) -> dict[str, bytes]:
    headers = {".".join(map(str, each.python[:2])): ".".join(map(str, each.python)) for each in tracers}
    made_from = json.dumps({"sources_sha256": native.sources_sha256(), "headers": headers}, indent=1) + "\n"
    added = {f"{IN_WHEEL}/{each.path.name}": each.path.read_bytes() for each in tracers}
    return {**added, f"{IN_WHEEL}/{prebuilt.MADE_FROM}": made_from.encode()}


def _rewrite(old: zipfile.ZipFile, new: zipfile.ZipFile, added: dict[str, bytes], tag: str) -> None:
    entries = old.infolist()
    (record,) = (each for each in entries if each.filename.endswith(".dist-info/RECORD"))
    about = record.filename.removesuffix("RECORD")
    rows = [row for row in csv.reader(io.StringIO(old.read(record).decode())) if row[0] != f"{about}WHEEL"]
    rows, last = rows[:-1], rows[-1]
    for entry in entries:
        content = old.read(entry)
        if entry.filename == f"{about}WHEEL":
            content = _tagged(content.decode(), tag).encode()
            rows.append(_row(entry.filename, content))
        if entry != record:
            new.writestr(entry, content)
    for name, content in added.items():
        entry = zipfile.ZipInfo(name, record.date_time)
        entry.external_attr = (0o100755 if name.endswith(".so") else 0o100644) << 16
        entry.compress_type = zipfile.ZIP_DEFLATED
        new.writestr(entry, content)
        rows.append(_row(name, content))
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([*rows, last])
    new.writestr(record, text.getvalue())


def _tagged(wheel: str, tag: str) -> str:
    if wheel.count("\nTag: py3-none-any\n") != 1 or wheel.count("\nRoot-Is-Purelib: true\n") != 1:
        raise Refused(f"the wheel does not describe itself as one for every platform:\n{wheel}")
    changed = wheel.replace("\nTag: py3-none-any\n", f"\nTag: py3-none-{tag}\n")
    return changed.replace("\nRoot-Is-Purelib: true\n", "\nRoot-Is-Purelib: false\n")


def _row(name: str, content: bytes) -> list[str]:
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    return [name, f"sha256={digest}", str(len(content))]


if __name__ == "__main__":
    sys.exit(main())
