"""Environments on disk: which there are, which version is current, who uses it, which can go.

The layout is told in the package's docstring. Reading takes no lock: `current` changes by one rename
and a version never changes. Everything that switches or deletes happens under `changing(name)`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import json
import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from groundbox.errors import EnvironmentFailed, InvalidArgument

FORMAT: Final = 1  # of environment.json and of what a version holds; another one is not read
KEPT_OLD_VERSIONS: Final = 2
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}", re.ASCII)


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Environment:
    """One version of an environment, ready to be used.

    Attributes:
        path: The venv of this version. It stays what it is while `lease` is held.
        python: The venv's interpreter.
        packages: Distribution to version.
        import_names: Top-level import to the distribution that brings it.
        requirements: What was asked for; everything else in `packages` came along, or is of the base.
        base: The environment that this one extends, None when it stands alone.
        asked: `requirements`, and what was asked for in the base.
        created_at: UTC, ISO 8601.
        caches: Files made once at build so that no run makes them, by library (`matplotlib/`).
            Read-only like the venv: matplotlib takes a cache only from a folder it can write to,
            so copy it there or load it before a fork.
        python_requested: What `--python` said, None when groundbox chose.
        linked_directories: Real folders outside the venv and the interpreter that links in them lead to.
    """

    name: str
    path: Path
    python: Path
    python_version: tuple[int, int, int]
    lock_sha256: str
    packages: Mapping[str, str]
    import_names: Mapping[str, str]
    requirements: tuple[str, ...]
    created_at: str
    caches: Path
    base_prefix: Path
    python_requested: str | None = None
    base: str | None = None
    asked: tuple[str, ...] = ()
    linked_directories: tuple[Path, ...] = ()

    @property
    def version_id(self) -> str:
        """The name of this version; a later version has a greater one."""
        return self.path.parent.name

    def readable_roots(self) -> tuple[Path, ...]:
        """Real folders that a jail binds read-only for the interpreter and the packages to work.

        Sorted, without links, and none lies inside another. The C library and what else the
        interpreter is linked with are the jail's to know.
        """
        wanted = {self.path, self.caches, self.base_prefix, *self.linked_directories}
        kept: list[Path] = []
        for root in sorted(Path(os.path.realpath(each)) for each in wanted):
            if not any(root.is_relative_to(above) for above in kept):
                kept.append(root)
        return tuple(kept)


def data_home() -> Path:
    """Where groundbox keeps what outlives a run.

    $GROUNDBOX_HOME; else for root /var/lib/groundbox, because root's home is closed to the user ids of guests;
    else `groundbox` in the user's data directory ($XDG_DATA_HOME, ~/.local/share).
    """
    return Path(_data_home())


def _data_home() -> str:
    if chosen := os.environ.get("GROUNDBOX_HOME"):
        return chosen if os.path.isabs(chosen) else os.path.join(os.getcwd(), chosen)
    if os.geteuid() == 0:
        return "/var/lib/groundbox"
    data = os.environ.get("XDG_DATA_HOME", "")
    # The XDG specification says that a relative path there is to be ignored.
    if not os.path.isabs(data):
        home = os.path.expanduser("~")
        if not os.path.isabs(home):  # HOME is not set, and no entry of the user database has one
            words = f"user {os.geteuid()} has no home folder: name a folder for environments in GROUNDBOX_HOME"
            raise EnvironmentFailed(f"{words}, such as `export GROUNDBOX_HOME=/tmp/groundbox-{os.geteuid()}-home`")
        data = os.path.join(home, ".local/share")
    return os.path.join(data, "groundbox")


def get(name: str = "default") -> Environment:
    """The current version of an environment.

    Raises:
        EnvironmentFailed: There is none, or it was built by another version of groundbox.
    """
    version = current_version(name)
    if version is None:
        raise missing(name)
    environment = read(version)
    if not os.access(environment.python, os.X_OK):
        raise EnvironmentFailed(
            f"environment {name!r} has lost its interpreter ({os.path.realpath(environment.python)}). "
            f"`groundbox environment update {name}` builds it with another one."
        )
    return environment


def names() -> list[str]:
    """Every environment that was built once, whether or not it can be used; `default` first."""
    try:
        found = os.listdir(data_home() / "environments")
    except OSError:
        return []
    built = [name for name in found if _NAME.fullmatch(name) and os.path.lexists(home(name) / "current")]
    return sorted(built, key=lambda name: (name != "default", name))


def all() -> list[Environment]:
    """The current version of every environment that can be used, in the order of `names`."""
    found = []
    for name in names():
        with contextlib.suppress(EnvironmentFailed):
            found.append(get(name))
    return found


def find(import_names: Iterable[str]) -> list[Environment]:
    """Environments in which each of these can be imported; dotted names go by their first part."""
    wanted = {name.partition(".")[0] for name in import_names}
    return [each for each in all() if wanted <= each.import_names.keys()]


def which_has(import_name: str) -> list[str]:
    """Names of the environments in which `import_name` can be imported."""
    return [each.name for each in find([import_name])]


@contextlib.contextmanager
def lease(environment: Environment) -> Iterator[int]:
    """Keeps this version on disk, whatever is built or removed meanwhile.

    Yields:
        The descriptor that holds the lock. A child process that inherits it holds the lease
        until it ends, even when this process is gone.

    Raises:
        EnvironmentFailed: The version was removed before the lease was taken; `get` has the new one.
    """
    path = environment.path.parent / "lease"
    gone = EnvironmentFailed(
        f"version {environment.version_id} of environment {environment.name!r} was removed; get it again"
    )
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise gone from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        # Whoever removes a version renames it while holding the lock alone, so that a lease
        # taken too late is one on a file that is no longer found under its name.
        if not _is_at(path, descriptor):
            raise gone
        yield descriptor
    finally:
        os.close(descriptor)


# What follows is for the rest of this package.


def home(name: str) -> Path:
    """The folder of an environment, whether or not it is there."""
    if not _NAME.fullmatch(name):
        raise InvalidArgument(
            "environment",
            f"{name!r} is not a name: up to 64 of a-z, 0-9, '_' and '-', the first a letter or digit",
        )
    return data_home() / "environments" / name


def current_version(name: str) -> Path | None:
    """The folder that `current` leads to, without links, or None."""
    link = home(name) / "current"
    try:
        return link.resolve(strict=True)
    except OSError:
        return None


def version_link(name: str) -> str:
    """What `current` points to, or an empty text: changes exactly when the version does, and is cheap to ask."""
    if not _NAME.fullmatch(name):
        home(name)  # says what a name is
    try:  # without Path, which would take longer than the question: each run asks it
        return os.readlink(f"{_data_home()}/environments/{name}/current")
    except OSError:
        return ""


def missing(name: str) -> EnvironmentFailed:
    """The error that says that there is no such environment, which there are, and how to make it."""
    others = [each for each in names() if each != name]
    there_are = f"; there are: {', '.join(others)}" if others else ""
    return EnvironmentFailed(f"there is no environment {name!r}{there_are}. {_make(name)}")


def versions(name: str) -> list[Path]:
    """The folders of all finished versions, oldest first."""
    try:
        found = sorted((home(name) / "versions").resolve().iterdir())
    except OSError:
        return []
    return [path for path in found if not path.suffix]


def read(version: Path) -> Environment:
    """Reads `environment.json` of one version."""
    name = version.parent.parent.name
    try:
        facts = json.loads((version / "environment.json").read_bytes())
    except (OSError, ValueError) as error:
        raise EnvironmentFailed(f"environment {name!r} cannot be read ({error}). {_make(name)}") from error
    if facts.get("format") != FORMAT:
        raise EnvironmentFailed(f"environment {name!r} was built by another version of groundbox. {_make(name)}")
    return Environment(
        name=name,
        path=version / "venv",
        python=version / "venv/bin/python",
        python_version=tuple(facts["python_version"]),
        lock_sha256=facts["lock_sha256"],
        packages=facts["packages"],
        import_names=facts["import_names"],
        requirements=tuple(facts["requirements"]),
        created_at=facts["created_at"],
        caches=version / "caches",
        base_prefix=Path(facts["base_prefix"]),
        python_requested=facts["python_requested"],
        base=facts.get("base"),
        asked=tuple(facts.get("asked", facts["requirements"])),
        linked_directories=tuple(map(Path, facts["linked_directories"])),
    )


def write(version: Path, facts: Mapping[str, Any]) -> None:
    """Writes `environment.json`, on disk before this returns."""
    with open(version / "environment.json", "x", encoding="utf-8") as file:
        json.dump({"format": FORMAT, **facts}, file, indent=1)
        file.flush()
        os.fsync(file.fileno())


@contextlib.contextmanager
def changing(name: str, progress: Callable[[str], None]) -> Iterator[int]:
    """Holds the right to build, switch and remove versions of one environment; waits for it.

    Yields:
        The descriptor that holds the lock. Programs that write into a build inherit it,
        so that the next build waits for those that outlive a killed one.
    """
    path = home(name)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path.with_name(f".{name}.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise EnvironmentFailed(f"{path.parent} cannot be written to: {error.strerror}") from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress("another process is changing this environment; waiting for it")
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield descriptor
    finally:
        os.close(descriptor)


def switch(name: str, version: Path) -> None:
    """Makes a finished version the current one, in one step."""
    folder = home(name)
    following = folder / "current.next"
    following.unlink(missing_ok=True)
    following.symlink_to(Path("versions") / version.name)
    following.replace(folder / "current")
    sync(folder)


def sync(folder: Path) -> None:
    """Waits until the names in a folder are on disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def left_out(name: str, path: str) -> bool:
    """Whether a build leaves out a file of a package, by its path in site-packages: tests and headers, in `default`."""
    return name == "default" and ("/tests/" in path or path.startswith("pyarrow/include/"))


def sweep(name: str) -> None:
    """Deletes what killed builds and removals have left. Only under `changing`."""
    for path in leftovers(name):
        shutil.rmtree(path)


def leftovers(name: str) -> list[Path]:
    """Folders of builds and removals that were killed, or of one that runs now."""
    folder = home(name) / "versions"
    return sorted(folder.glob("*.building")) + sorted(folder.glob("*.removing"))


def prune(name: str) -> None:
    """Deletes old versions that nobody leases, but the newest few. Only under `changing`."""
    current = current_version(name)
    old = [version for version in versions(name) if version != current]
    for version in old[:-KEPT_OLD_VERSIONS]:
        discard(version)


def discard(version: Path) -> bool:
    """Deletes a version unless somebody leases it, and says whether it is gone."""
    try:
        descriptor = os.open(version / "lease", os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        shutil.rmtree(version)
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        removing = version.with_name(version.name + ".removing")
        version.rename(removing)
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)
    shutil.rmtree(removing)
    return True


def is_leased(version: Path) -> bool:
    """Whether somebody runs from this version at this moment."""
    try:
        descriptor = os.open(version / "lease", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def _is_at(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.stat(path), os.fstat(descriptor))
    except OSError:
        return False


def _make(name: str) -> str:
    more = "" if name == "default" else " --requirement PACKAGE"
    return f"`groundbox environment create {name}{more}` makes it."
