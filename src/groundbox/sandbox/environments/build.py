"""Building an environment: beside the current version, tested, then switched to.

The order, and why: the lock first, since everything else follows from it; the venv and its packages;
bytecode, because guests see all this read-only and would compile at every start; a description;
the self-test, which also makes the caches; `environment.json` last, before the folder gets its name.
"""

from __future__ import annotations

import datetime
import hashlib
import os
import re
import shlex
import shutil
import stat
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from groundbox.errors import EnvironmentFailed, InvalidArgument
from groundbox.sandbox.environments import examine, interpreter, store, tracer, uv
from groundbox.sandbox.environments.interpreter import Interpreter
from groundbox.sandbox.environments.store import Environment

Progress = Callable[[str], None]

LOCKS: Final = Path(__file__).parent / "locks"
_OWN_TESTS: Final = "/site-packages/.*/tests/"
"""What packages test themselves with, as a pattern of paths."""


def create(
    name: str = "default",
    *,
    lock: Path | None = None,
    requirements: Sequence[str] = (),
    base: str | None = None,
    python: Path | str | None = None,
    progress: Progress = lambda _: None,
) -> Environment:
    """Makes an environment, or returns the one that is there when it was made from the same.

    Args:
        name: `default` is built from the lock that ships with groundbox; others need one of:
        lock: A requirements file with a hash for every package, or
        requirements: Requirements such as `polars>=1`, resolved now into a lock that is kept, or
        base: The name of an environment to extend: all that it has, in the same versions,
            and `requirements` besides.
        python: A path, a command or a version (`3.12`); by default what `base` was built with,
            or the newest 3.13 or 3.12.
        progress: Called with a few words before each part of the work.

    Raises:
        InvalidArgument: A bad name, or an environment of this name that was made from something else.
        EnvironmentFailed: The build failed. A current version stays as it was.
    """
    wish = _wish(name, lock, requirements, python, base)
    if wish is None:
        raise InvalidArgument("environment", f"{name!r} needs a lock, requirements or a base to be made from")
    return _with_tracer(_create(name, wish, progress), progress)


def _create(name: str, wish: Wish, progress: Progress) -> Environment:
    with store.changing(name, progress) as held:
        current = _current(name)
        if current is None:
            return _build(name, wish, held, progress)
        if _made_from(current, wish):
            return current
        if name != "default":
            raise InvalidArgument(
                "environment",
                f"{name!r} is there already, made from something else; update it, or choose another name",
            )
        if _was_rolled_back_from(current, wish):
            progress("rolled back before; `groundbox environment update default` builds the newer one again")
            return current
        return _build(name, wish, held, progress)


def update(
    name: str = "default",
    *,
    lock: Path | None = None,
    requirements: Sequence[str] = (),
    python: Path | str | None = None,
    progress: Progress = lambda _: None,
) -> Environment:
    """Builds a new version and switches to it; what runs keeps the version it started from.

    Without `lock` and `requirements` it is made from what it was made from: `default` from the lock that
    ships with this groundbox, an environment of requirements by resolving them anew, one with a base
    from what the base has by then.

    Raises:
        EnvironmentFailed: There is none of this name, or the build failed; the current version stays.
    """
    wish = _wish(name, lock, requirements, python)
    with store.changing(name, progress) as held:
        version = store.current_version(name)
        if version is None:
            raise store.missing(name)
        updated = _build(name, _completed(wish, python, version), held, progress)
    return _with_tracer(updated, progress)


def add(name: str, requirements: Sequence[str], *, progress: Progress = lambda _: None) -> Environment:
    """Builds a new version with more packages; what it has stays in the versions that it has.

    Raises:
        InvalidArgument: `name` is `default`, whose lock is groundbox's own, or a requirement is none.
        EnvironmentFailed: There is none of this name, or the requirements do not go with what it has.
    """
    if not requirements:
        raise InvalidArgument("requirement", "name at least one package to add")
    if name == "default":
        asked = " ".join(f"--requirement {shlex.quote(each)}" for each in requirements)
        raise InvalidArgument(
            "environment",
            "'default' has its own lock; this makes an environment that has more: "
            f"`groundbox environment create NAME --from default {asked}`",
        )
    wanted = _checked(requirements)
    with store.changing(name, progress) as held:
        current = store.get(name)
        updated = _build(name, _with_more(current, wanted), held, progress)
    return _with_tracer(updated, progress)


def _with_more(current: Environment, wanted: tuple[str, ...]) -> Wish:
    pins = (current.path.parent / "lock.txt").read_bytes()
    if current.requirements or current.base:
        known = [each for each in current.requirements if each not in wanted]
        also = tuple(each for each in current.asked if each not in current.requirements)
        return Wish(None, (*known, *wanted), current.python_requested, base=current.base, also=also, pins=pins)
    # It was made from a lock, which then is all that is known of what was asked for.
    also = (*_pinned(pins), *wanted)
    return Wish(None, (), current.python_requested, also=also, pins=pins)


def _with_tracer(environment: Environment, progress: Progress) -> Environment:
    if tracer.find(environment) is None:
        progress("making a native tracer ready")
        slower = "" if tracer.ensure(environment) else "; the plain one is used, which is slow and folds nothing"
        progress(tracer.standing(environment).words + slower)
    return environment


def rollback(name: str = "default", *, progress: Progress = lambda _: None) -> Environment:
    """Switches to the newest version that is older than the current one; builds nothing.

    Raises:
        EnvironmentFailed: There is no older one.
    """
    with store.changing(name, progress):
        current = store.get(name)
        older = [version for version in store.versions(name) if version.name < current.version_id]
        if not older:
            raise EnvironmentFailed(f"environment {name!r} has no version older than the current one")
        environment = store.read(older[-1])
        store.switch(name, older[-1])
        return environment


def remove(name: str, *, progress: Progress = lambda _: None) -> None:
    """Deletes every version of an environment.

    Raises:
        EnvironmentFailed: There is none of this name, or a sandbox runs from one of its versions.
    """
    folder = store.home(name)
    with store.changing(name, progress):
        if not folder.is_dir():
            raise EnvironmentFailed(f"there is no environment {name!r}")
        if any(map(store.is_leased, store.versions(name))):
            raise EnvironmentFailed(f"environment {name!r} is in use; close the sandboxes that run from it first")
        (folder / "current").unlink(missing_ok=True)
        kept = [version for version in store.versions(name) if not store.discard(version)]
        if kept:
            raise EnvironmentFailed(f"environment {name!r} was taken into use meanwhile; call again later")
        shutil.rmtree(folder)


def shipped_lock_sha256() -> str:
    """Of the lock that this groundbox builds `default` from."""
    return hashlib.sha256((LOCKS / "default.txt").read_bytes()).hexdigest()


class Wish(NamedTuple):
    """What to build from: a lock and what in it was asked for, or requirements that become a lock.

    Attributes:
        base: The environment that this one extends.
        also: Requirements that are resolved beside `requirements`: those of the base.
        pins: A lock whose versions are kept.
        slim: Leave out what no program needs.
    """

    lock: bytes | None
    requirements: tuple[str, ...]
    python: str | None
    base: str | None = None
    also: tuple[str, ...] = ()
    pins: bytes | None = None
    slim: bool = False


def _wish(
    name: str, lock: Path | None, requirements: Sequence[str], python: Path | str | None, base: str | None = None
) -> Wish | None:
    """What the arguments ask for, None when they do not say what to build from."""
    store.home(name)  # refuses a bad name before anything else is said about it
    chosen = None if python is None else str(python)
    if name == "default":
        if lock is not None or requirements or base is not None:
            raise InvalidArgument("environment", "'default' has its own lock; choose another name for yours")
        asked = _requirement_lines((LOCKS / "default.in").read_text("utf-8"))
        return Wish((LOCKS / "default.txt").read_bytes(), asked, chosen, slim=True)
    if lock is not None and (requirements or base is not None):
        other = "requirements" if requirements else "a base"
        raise InvalidArgument("lock", f"cannot be given together with {other}")
    wanted = _checked(requirements)
    if base is not None:
        if base == name:
            raise InvalidArgument("from", f"{name!r} cannot extend itself; `groundbox environment add` adds to it")
        return _extending(base, wanted, chosen)
    if wanted:
        return Wish(None, wanted, chosen)
    if lock is None:
        return None
    try:
        return Wish(lock.read_bytes(), (), chosen)
    except OSError as error:
        raise InvalidArgument("lock", f"{lock} cannot be read: {error.strerror}") from error


def _checked(requirements: Sequence[str]) -> tuple[str, ...]:
    for requirement in requirements:
        # uv reads them from a file, where a line that begins with "-" is an option.
        if not re.fullmatch(r"[A-Za-z0-9][^\r\n]*", requirement.strip()):
            raise InvalidArgument("requirement", f"{requirement!r} is not a requirement such as 'polars>=1'")
    return tuple(each.strip() for each in requirements)


def _extending(base: str, wanted: tuple[str, ...], python: str | None) -> Wish:
    extended = store.get(base)
    pins = (extended.path.parent / "lock.txt").read_bytes()
    also = extended.asked or _pinned(pins)
    return Wish(None, wanted, python or extended.python_requested, base=base, also=also, pins=pins)


def _pinned(lock: bytes) -> tuple[str, ...]:
    """The packages of a lock without their hashes, each with its version and the platforms it is for."""
    lines = _requirement_lines(lock.decode())
    return tuple(re.sub(r"\s*(--hash=\S+\s*)*\\?$", "", line).strip() for line in lines if not line.startswith("-"))


def _requirement_lines(text: str) -> tuple[str, ...]:
    lines = (line.partition("#")[0].strip() for line in text.splitlines())
    return tuple(line for line in lines if line)


def _current(name: str) -> Environment | None:
    """The current version if its interpreter still stands, else None: then it has to be built."""
    version = store.current_version(name)
    if version is None:
        return None
    try:
        current = store.read(version)
    except EnvironmentFailed:
        return None
    return current if os.access(current.python, os.X_OK) else None


def _made_from(current: Environment, wish: Wish) -> bool:
    if wish.python is not None and wish.python != current.python_requested:
        return False
    if wish.lock is None:
        return set(wish.requirements) == set(current.requirements) and wish.base == current.base
    return current.lock_sha256 == hashlib.sha256(wish.lock).hexdigest()


def _was_rolled_back_from(current: Environment, wish: Wish) -> bool:
    newer = [version for version in store.versions(current.name) if version.name > current.version_id]
    return any(_made_from(store.read(version), wish) for version in newer)


def _completed(wish: Wish | None, python: Path | str | None, version: Path) -> Wish:
    """What is not said is taken over from an older version."""
    try:
        older = store.read(version)
    except EnvironmentFailed:
        if wish is None:
            raise
        return wish
    if wish is None and older.base is not None:
        wish = _extending(older.base, older.requirements, None)
    elif wish is None:
        lock = None if older.requirements else (version / "lock.txt").read_bytes()
        wish = Wish(lock, older.requirements, None)
    elif wish.requirements and older.base is not None:
        wish = _extending(older.base, wish.requirements, wish.python)
    chosen = older.python_requested if python is None else str(python)
    return wish._replace(python=chosen)


def _build(name: str, wish: Wish, held: int, progress: Progress) -> Environment:
    python = interpreter.choose(wish.python)
    now = datetime.datetime.now(datetime.UTC)
    # The real path, since it gets into the bytecode.
    versions = Path(os.path.realpath(store.home(name))) / "versions"
    version = versions / now.strftime("%Y%m%dT%H%M%S%f")
    building = version.with_name(version.name + ".building")
    try:
        store.sweep(name)
        building.mkdir(parents=True)
        facts = _fill(building, version, wish, python, held, progress)
        store.write(building, {**facts, "created_at": now.isoformat(timespec="seconds")})
        building.rename(version)
        store.sync(version.parent)
        store.switch(name, version)
        store.prune(name)
    except OSError as error:
        raise EnvironmentFailed(f"environment {name!r} could not be built: {error}") from error
    finally:
        # Renamed by now, unless something failed.
        shutil.rmtree(building, ignore_errors=True)
    return store.read(version)


def _fill(
    building: Path, version: Path, wish: Wish, python: Interpreter, held: int, progress: Progress
) -> dict[str, Any]:
    """Makes everything in `building` that the finished `version` holds, and returns the facts about it."""
    lock = building / "lock.txt"
    if wish.lock is None:
        progress("resolving the requirements")
        _resolve(wish, lock, python, held)
    else:
        lock.write_bytes(wish.lock)
    locked = _requirement_lines(lock.read_text("utf-8"))
    packages = sum(line[0].isalnum() for line in locked)
    progress(f"installing {packages} locked packages for Python {'.'.join(map(str, python.version))}")
    venv = building / "venv"
    uv.run(
        # Relocatable, because the folder is renamed when it is done.
        ["venv", "--relocatable", "--no-project", "--python", python.path, venv],
        cwd=building, keep_open=held, what="making the venv",
    )  # fmt: skip
    if locked:
        uv.run(
            # Wheels only: a source distribution runs its setup here, on the host. Hard links save the
            # space of a copy per version and hold when uv's cache is cleared.
            ["pip", "install", "--python", venv / "bin/python", "--require-hashes", "--only-binary", ":all:",
             "--link-mode", "hardlink", "--requirement", lock],
            cwd=building, keep_open=held, what="installing the packages",
        )  # fmt: skip
    if wish.slim:
        _leave_out(venv)
    progress("compiling")
    _compile(building, version)
    facts = examine.describe(venv)
    progress("testing")
    failures = examine.self_test(building, examine.imports_of((*wish.also, *wish.requirements), facts))
    if failures:
        raise EnvironmentFailed("the new version failed its self-test:\n" + "\n".join(failures))
    del facts["roots"]
    (building / "lease").touch()
    _let_everyone_read(building)
    return {
        **facts,
        "lock_sha256": hashlib.sha256(lock.read_bytes()).hexdigest(),
        "requirements": list(wish.requirements),
        "base": wish.base,
        "asked": [*wish.also, *wish.requirements],
        "python_requested": wish.python,
    }


def _resolve(wish: Wish, lock: Path, python: Interpreter, held: int) -> None:
    wanted = lock.with_name("requirements.in")
    wanted.write_text("".join(f"{each}\n" for each in (*wish.also, *wish.requirements)), "utf-8")
    kept: list[str | Path] = []
    if wish.pins is not None:
        # uv takes the hashes of what stays from the older lock, and needs no index for them.
        lock.write_bytes(wish.pins)
        pins = lock.with_name("pins.txt")
        pins.write_text("".join(f"{each}\n" for each in _pinned(wish.pins)), "utf-8")
        kept = ["--constraint", pins]
    uv.run(
        ["pip", "compile", "--python", python.path, "--generate-hashes", "--only-binary", ":all:",
         "--no-annotate", "--no-header", "--no-emit-index-url", *kept, "--output-file", lock, wanted],
        cwd=lock.parent, keep_open=held, what="resolving the requirements",
    )  # fmt: skip


def _leave_out(venv: Path) -> None:
    """Deletes what no program needs: 90 MB of the tests of packages and of C++ headers."""
    for packages in venv.glob("lib/python*/site-packages"):
        for folder in [*packages.glob("*/**/tests"), *packages.glob("pyarrow/include")]:
            shutil.rmtree(folder, ignore_errors=True)  # one may lie in another


def _compile(building: Path, version: Path) -> None:
    # -s and -p: the code objects name the files where they will be, not where they are, else every
    # import would rename the code objects it loads. Its exit status says only that some file did not
    # compile, and packages ship templates and samples that never do. Packages' own tests are left out:
    # no program imports them.
    subprocess.run(
        [building / "venv/bin/python", "-I", "-m", "compileall", "-qq", "-j", "0",
         "-x", _OWN_TESTS, "-s", building, "-p", version, building / "venv/lib"],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        umask=0o022, check=False,
    )  # fmt: skip


def _let_everyone_read(top: Path) -> None:
    """Guests run as another user; files come with the modes of whoever packed and unpacked them."""
    os.chmod(top, 0o755)
    for folder, folders, files in os.walk(top):
        for name in (*folders, *files):
            path = os.path.join(folder, name)
            mode = os.lstat(path).st_mode
            if stat.S_ISLNK(mode):
                continue
            wanted = 0o555 if stat.S_ISDIR(mode) or mode & stat.S_IXUSR else 0o444
            if mode & wanted != wanted:
                os.chmod(path, stat.S_IMODE(mode) | wanted)
