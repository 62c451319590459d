"""What `make wheels` builds: the same bytes anywhere, and a wheel that traces natively without a compiler.

Versions of Python that this machine has no interpreter and headers for are left out, and said so by the skipped tests.
"""

import base64
import csv
import hashlib
import importlib.util
import io
import json
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import NamedTuple

import click
import msgspec
import pytest

from groundbox.guest.trace.native import build as native
from groundbox.sandbox.environments import interpreter

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
DIFFERENTIAL = ROOT / "tests/guest/trace/differential.py"
TRACERS = "groundbox/trace/tracers/"
PROGRAM = """
class Part:
    def __init__(self, size):
        self.size = size
def sizes(parts):
    for part in parts:
        yield part.size
def depth(n):
    return depth(n - 1) if n else [].pop()
parts = [Part(size) for size in range(300)]
table = {part.size: [part] for part in parts}
table[7].append(10**400)
del table[8]
try:
    depth(4)
except IndexError as error:
    print(sum(sizes(parts)), error.args)
"""
GLIBC = "    0x06969194 0x00 03 GLIBC_2.{}\n"
HEADERS = """Dynamic Section:
  NEEDED               libc.so.6
{}
Version References:
  required from libc.so.6:
{}
"""


class Built(NamedTuple):
    """What was built, the pure wheel and the one for this platform; and what was left out."""

    files: dict[str, bytes]
    pure: str
    platform: str
    left_out: list[str]


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("build_wheels", ROOT / "scripts/build_wheels.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def make(root, into):
    environ = {**os.environ, "PYTHONPATH": str(root / "src"), "SOURCE_DATE_EPOCH": "1700000000"}
    command = [sys.executable, root / "scripts/build_wheels.py", into, "--partial"]
    return subprocess.run(command, capture_output=True, text=True, cwd="/", env=environ)


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    into = tmp_path_factory.mktemp("dist")
    made = make(ROOT, into)
    left_out = [line for line in made.stderr.splitlines() if line.startswith("left out: ")]
    if len(left_out) == len(native.VERSIONS):
        pytest.skip("; ".join(left_out))
    assert made.returncode == 0, made.stderr
    names = [Path(line).name for line in made.stdout.splitlines()]
    assert sorted(names) == sorted(each.name for each in into.iterdir())
    return Built({name: (into / name).read_bytes() for name in names}, names[1], names[2], left_out)


@pytest.fixture(scope="module")
def installed(built, tmp_path_factory):
    """The command of a fresh venv with the wheel for this platform, started where nothing but uv is on PATH."""
    folder = tmp_path_factory.mktemp("installed")
    (folder / built.platform).write_bytes(built.files[built.platform])
    own = [sys.executable, "-m", "uv"] if importlib.util.find_spec("uv") else [shutil.which("uv")]
    subprocess.run([*own, "venv", "--quiet", "--python", sys._base_executable, folder / "venv"], check=True)  # type: ignore[attr-defined]  # typeshed has it not
    python = folder / "venv/bin/python"
    subprocess.run(
        [*own, "pip", "install", "--quiet", "--offline", "--no-deps", "--python", python, folder / built.platform],
        check=True,
    )
    for name in ("bin", "beside"):
        (folder / name).mkdir()
    for package in (click, msgspec):
        (folder / "beside" / package.__name__).symlink_to(Path(package.__file__).parent)
    (folder / "bin/uv").symlink_to(_uv_executable())
    # Guests have a /tmp of their own.
    with tempfile.TemporaryDirectory(prefix="groundbox-test-", dir="/var/tmp") as home:
        os.chmod(home, 0o755)
        environ = {"PATH": str(folder / "bin"), "PYTHONPATH": str(folder / "beside"), "UV_OFFLINE": "1"}
        environ |= {"HOME": os.environ["HOME"], "GROUNDBOX_HOME": home, "PYTHONDONTWRITEBYTECODE": "1"}

        def run(*arguments):
            return subprocess.run([python, *arguments], capture_output=True, text=True, env=environ, cwd="/")

        yield run


def _uv_executable():
    beside = Path(sys.executable).with_name("uv")
    return beside if beside.exists() else shutil.which("uv")


def rows(archive):
    (record,) = (name for name in archive.namelist() if name.endswith(".dist-info/RECORD"))
    return {name: (digest, size) for name, digest, size in csv.reader(io.StringIO(archive.read(record).decode()))}


def test_the_source_distribution_builds_the_same_bytes_elsewhere(built, tmp_path):
    (source,) = (name for name in built.files if name.endswith(".tar.gz"))
    (tmp_path / source).write_bytes(built.files[source])
    shutil.unpack_archive(tmp_path / source, tmp_path)

    again = make(tmp_path / source.removesuffix(".tar.gz"), tmp_path / "dist")

    assert again.returncode == 0, again.stderr
    digests = {name: hashlib.sha256(content).hexdigest() for name, content in built.files.items()}
    files = (tmp_path / "dist").iterdir()
    assert {each.name: hashlib.sha256(each.read_bytes()).hexdigest() for each in files} == digests


def test_times_in_the_wheels_are_those_that_were_asked_for(built):
    times = set()
    for name in (built.pure, built.platform):
        with zipfile.ZipFile(io.BytesIO(built.files[name])) as archive:
            times |= {each.date_time for each in archive.infolist()}

    assert times == {(2023, 11, 14, 22, 13, 20)}


def test_the_platform_wheel_is_the_pure_one_with_tracers(built):
    with (
        zipfile.ZipFile(io.BytesIO(built.files[built.pure])) as pure,
        zipfile.ZipFile(io.BytesIO(built.files[built.platform])) as platform,
    ):
        added = {name for name in platform.namelist() if name.startswith(TRACERS)}
        changed = [name for name in pure.namelist() if pure.read(name) != platform.read(name)]
        (about,) = (name for name in changed if name.endswith(".dist-info/WHEEL"))
        expected = {}
        for name in platform.namelist():
            digest = base64.urlsafe_b64encode(hashlib.sha256(platform.read(name)).digest()).rstrip(b"=").decode()
            expected[name] = (f"sha256={digest}", str(len(platform.read(name))))

        assert set(platform.namelist()) - set(pure.namelist()) == added
        assert len(platform.namelist()) == len(set(platform.namelist()))
        assert sorted(changed) == sorted([about, about.replace("WHEEL", "RECORD")])
        tag = built.platform.removesuffix(".whl").partition("-py3-")[2]
        assert f"\nRoot-Is-Purelib: false\nTag: py3-{tag}\n" in platform.read(about).decode()
        assert rows(platform) == {**expected, about.replace("WHEEL", "RECORD"): ("", "")}
        assert len(added) == len(native.VERSIONS) - len(built.left_out) + 1


def test_the_wheels_say_where_the_tracer_is_found(built):
    for name in (built.pure, built.platform):
        with zipfile.ZipFile(io.BytesIO(built.files[name])) as wheel:
            facts = next(each for each in wheel.namelist() if each.endswith(".dist-info/entry_points.txt"))
            lines = wheel.read(facts).decode().splitlines()
        at = lines.index("[groundbox.tracers]")
        assert lines[at + 1] == "groundbox = groundbox.trace.recorder"


def test_no_path_of_this_machine_is_in_a_wheel(built):
    own = {str(ROOT), str(Path.home()), sys.prefix, sys.base_prefix, tempfile.gettempdir()} - {"/usr", "/"}
    found = []
    for name in (built.pure, built.platform):
        with zipfile.ZipFile(io.BytesIO(built.files[name])) as archive:
            tracers = [each for each in archive.namelist() if each.startswith(TRACERS)]
            found += [(each, path) for each in tracers for path in own if f"{path}/".encode() in archive.read(each)]

    assert found == []


@pytest.mark.parametrize("version", [".".join(map(str, each)) for each in native.VERSIONS])
def test_an_installed_wheel_traces_natively_without_a_compiler(built, installed, tmp_path, version):
    for reason in built.left_out:
        if f"Python {version}" in reason or f"'{version}'" in reason:
            pytest.skip(reason)
    python = interpreter.choose(version).path
    (tmp_path / "empty.txt").write_text("")
    name = f"py{version.replace('.', '')}"

    made = installed(
        "-m", "groundbox", "environment", "create", name, "--lock", tmp_path / "empty.txt", "--python", python
    )
    listed = installed("-m", "groundbox", "environment", "list", "--json")
    source = f"import groundbox; run = groundbox.run({PROGRAM!r}, environment={name!r}, trace=True); "
    traced = installed("-c", source + "print(run.outcome.value, run.trace.complete, run.trace.core)")

    assert made.returncode == 0, made.stderr
    (facts,) = (each for line in listed.stdout.splitlines() if (each := json.loads(line))["name"] == name)
    assert facts["tracer"] == {"origin": "prebuilt", "passed_over": []}
    assert (traced.stdout, traced.stderr) == ("ok True native\n", "")


@pytest.mark.parametrize("version", [".".join(map(str, each)) for each in native.VERSIONS])
def test_a_prebuilt_tracer_and_one_compiled_here_write_the_same_bytes(built, tmp_path, version):
    for reason in built.left_out:
        if f"Python {version}" in reason or f"'{version}'" in reason:
            pytest.skip(reason)
    python = interpreter.choose(version).path
    (tmp_path / "here").mkdir()
    here = native.build(python, tmp_path / "here")
    with zipfile.ZipFile(io.BytesIO(built.files[built.platform])) as archive:
        prebuilt = Path(archive.extract(TRACERS + here.name, tmp_path))
    (tmp_path / "jobs.jsonl").write_text(json.dumps({"name": "program", "source": PROGRAM}))

    def compared(module):
        return subprocess.run(
            [python, DIFFERENTIAL, "--core=plain", "--core=native", f"--module={module}", tmp_path / "jobs.jsonl"],
            capture_output=True, text=True, env={**os.environ, "PYTHONHASHSEED": "0"},
        ).stdout  # fmt: skip

    assert prebuilt.read_bytes() != here.read_bytes()
    assert compared(prebuilt).endswith(" plain native {'same': 1}\n")
    assert compared(here).endswith(" plain native {'same': 1}\n")


@pytest.mark.parametrize(
    ("headers", "needed"),
    [
        (HEADERS.format("", GLIBC.format("2.5") + GLIBC.format("14")), (2, 14)),
        (HEADERS.format("", GLIBC.format("38") + GLIBC.format("4")), (2, 38)),
    ],
)
def test_the_newest_symbol_decides_which_glibc_is_needed(script, headers, needed):
    assert script.needed_glibc("x.so", headers) == needed


@pytest.mark.parametrize(
    ("headers", "reason"),
    [
        ("Dynamic Section:\n  NEEDED               libc.so.6\n", "x.so does not say which glibc it needs"),
        ("Dynamic Section:\n  NEEDED               libc.musl-x86_64.so.1\n", "x.so needs libc.musl-x86_64.so.1, which"),
        (HEADERS.format("  NEEDED               libpython3.13.so.1.0", GLIBC.format("4")), "x.so needs libpython3"),
        (HEADERS.format("  RUNPATH              /opt/lib", GLIBC.format("4")), "x.so names folders to look for"),
        (HEADERS.format("", GLIBC.format("4").replace("2.4", "PRIVATE")), "x.so needs GLIBC_PRIVATE, which"),
        ("", "x.so does not say which glibc it needs"),
    ],
)  # fmt: skip
def test_what_no_tag_can_be_told_for_is_refused(script, headers, reason):
    with pytest.raises(script.Refused) as refused:
        script.needed_glibc("x.so", headers)

    assert str(refused.value).startswith(reason)


def test_nothing_older_than_anybody_tries_is_claimed(script, built, tmp_path):
    with zipfile.ZipFile(io.BytesIO(built.files[built.platform])) as archive:
        files = [Path(archive.extract(each, tmp_path)) for each in archive.namelist() if each.endswith(".so")]

    major, minor = max(script.OLDEST_GLIBC, *map(script.glibc, files))
    assert built.platform.endswith(f"-py3-none-manylinux_{major}_{minor}_{os.uname().machine}.whl")
    assert (major, minor) >= (2, 17)


def test_a_version_that_is_not_there_is_refused_unless_it_may_be_left_out(script, capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(interpreter, "_candidates", lambda releases: iter(()))

    with pytest.raises(script.Refused) as refused:
        list(script.interpreters([], partial=False))
    partial = list(script.interpreters([], partial=True))

    said = "left out: python: there is no '3.11' on this machine; name one with --python\n"
    assert str(refused.value) == said.removeprefix("left out: ").strip() + " (--partial leaves it out)"
    assert partial == []
    assert capsys.readouterr().err.startswith(said)


def test_a_tracer_with_a_path_of_this_machine_is_refused(script, tmp_path):
    file = tmp_path / "x.so"
    file.write_bytes(b"\0" + str(tmp_path).encode() + b"/include/object.h\0")

    with pytest.raises(script.Refused) as refused:
        script._refuse_own_paths(file, [Path("/usr"), tmp_path])

    assert str(refused.value) == f"x.so contains the path {tmp_path}"


def test_a_file_for_an_unknown_machine_is_refused(script, tmp_path):
    file = tmp_path / "x.so"
    file.write_bytes(b"\x7fELF\x02\x01\x01".ljust(18, b"\0") + (243).to_bytes(2, "little"))

    with pytest.raises(script.Refused) as refused:
        script.platform_tag([file])

    assert str(refused.value) == "x.so is not for one of x86_64, aarch64"
