"""Whether an environment still is what was built: its interpreter, its files, its packages, its lock."""

from __future__ import annotations

import base64
import csv
import dataclasses
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

from groundbox.errors import EnvironmentFailed
from groundbox.sandbox.environments import build, examine, store
from groundbox.sandbox.environments.store import Environment


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """One thing that is not as it should be.

    Attributes:
        code: Stable, for programs.
        tier: `error` when runs may fail or be wrong, `warn` when something should be done, else `note`.
        mend: What to do about it.
    """

    code: str
    tier: str
    message: str
    mend: str


def check(name: str = "default") -> list[Finding]:
    """Everything that is wrong with an environment; an empty list says that nothing is.

    Compares every file with the hash its package was published with, and runs the self-test again:
    seconds, not milliseconds. Changes nothing but the environment's caches, and only those that are missing.

    Raises:
        EnvironmentFailed: There is none, or it cannot be read.
    """
    environment = store.get(name)
    with store.lease(environment):
        return list(_findings(environment))


def _findings(environment: Environment) -> Iterator[Finding]:
    rebuild = f"`groundbox environment update {environment.name}` builds it anew"
    if store.leftovers(environment.name):
        yield Finding(
            code="environment.leftover",
            tier="note",
            message="a build or a removal was interrupted, or is running now",
            mend="nothing; the next build sweeps it up",
        )
    if environment.name == "default" and environment.lock_sha256 != build.shipped_lock_sha256():
        yield Finding(
            code="environment.outdated",
            tier="warn",
            message="built from another lock than the one that ships with this groundbox",
            mend=rebuild,
        )
    try:
        facts = examine.describe(environment.path)
    except EnvironmentFailed as error:
        yield Finding(code="environment.interpreter", tier="error", message=str(error), mend=rebuild)
        return
    if tuple(facts["python_version"]) != environment.python_version:
        then, now = (".".join(map(str, v)) for v in (environment.python_version, facts["python_version"]))
        yield Finding(
            code="environment.python_changed",
            tier="warn",
            message=f"built with Python {then}, and its interpreter is {now} by now",
            mend=rebuild,
        )
    if facts["packages"] != environment.packages:
        changed = sorted(name for name, _ in facts["packages"].items() ^ environment.packages.items())
        yield Finding(
            code="environment.packages",
            tier="error",
            message=f"packages were added, removed or replaced: {', '.join(dict.fromkeys(changed))}",
            mend=rebuild,
        )
    changed_files = [
        each for each in changed_against_records(environment.path) if not store.left_out(environment.name, each)
    ]
    if changed_files:
        shown = ", ".join(changed_files[:5])
        yield Finding(
            code="environment.files",
            tier="error",
            message=f"{len(changed_files)} files are missing or not as published: {shown}",
            mend=rebuild,
        )
    imports = examine.imports_of(environment.requirements, facts)
    for failure in examine.self_test(environment.path.parent, imports):
        yield Finding(code="environment.self_test", tier="error", message=failure, mend=rebuild)


def changed_against_records(venv: Path) -> Iterator[str]:
    """Files of installed packages that are gone or differ from their RECORD.

    The format is the PyPA specification "Recording installed projects"; entries without a hash are skipped.
    """
    for record in sorted(venv.glob("lib/python*/site-packages/*.dist-info/RECORD")):
        packages = record.parent.parent
        with open(record, newline="", encoding="utf-8") as file:
            for path, digest, _ in csv.reader(file):
                algorithm, _, expected = digest.partition("=")
                if expected and _digest(packages / path, algorithm) != expected:
                    yield os.path.normpath(path)


def _digest(path: Path, algorithm: str) -> str | None:
    try:
        with open(path, "rb") as file:
            digest = hashlib.file_digest(file, algorithm).digest()
    except OSError:
        return None
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
