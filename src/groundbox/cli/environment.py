"""`groundbox environment`: lists, builds, updates, checks and removes the packages that guests import."""

from __future__ import annotations

import dataclasses
import functools
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from groundbox.errors import EnvironmentFailed
from groundbox.sandbox import environments
from groundbox.sandbox.environments import Environment, tracer

_name = click.argument("name", default="default")
_python = click.option("--python", metavar="PYTHON", help="A path, a command or a version such as 3.12.")
_json = click.option("--json", "as_json", is_flag=True, help="One JSON object per line on stdout.")


def _sources(command: Callable[..., None]) -> Callable[..., None]:
    lock = click.option(
        "--lock",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help="A requirements file with a hash for every package.",
    )
    requirement = click.option(
        "--requirement",
        "requirements",
        multiple=True,
        metavar="REQUIREMENT",
        help="A package, such as 'polars>=1'; may be given several times.",
    )
    return lock(requirement(command))


@click.group()
def environment() -> None:
    """The packages that guests import: each environment is a venv built from a hashed lock."""


@environment.command("list")
@_json
def list_(*, as_json: bool) -> None:
    """Shows the environments and what each was built with."""
    names = environments.names()
    for name in names:
        try:
            each = environments.get(name)
        except EnvironmentFailed as error:
            click.echo(f"{name}: cannot be used: {error}", err=True)
            continue
        version = ".".join(map(str, each.python_version))
        if as_json:
            click.echo(json.dumps(_plain(each)))
        else:
            native = tracer.standing(each).origin or "none"
            packages = f"{len(each.packages):>4} packages"
            click.echo(f"{each.name:<20} Python {version:<8} {packages}   {each.created_at}   native tracer: {native}")
    if not as_json and not names:
        click.echo("none yet; `groundbox environment create` builds the default one", err=True)


@environment.command()
@_name
@_sources
@click.option("--from", "base", metavar="BASE", help="An environment to extend, such as default.")
@_python
def create(name: str, lock: Path | None, requirements: tuple[str, ...], base: str | None, python: str | None) -> None:
    """Builds an environment, if it is not there.

    Without NAME: `default`, from the lock that ships with groundbox.
    Any other is built from a --lock or from --requirement; with --from, it has all of BASE in the same versions, too.
    """
    _report(name, lambda progress: environments.create(
        name, lock=lock, requirements=requirements, base=base, python=python, progress=progress
    ))  # fmt: skip


@environment.command()
@click.argument("name")
@click.argument("requirements", nargs=-1, required=True, metavar="REQUIREMENT...")
def add(name: str, requirements: tuple[str, ...]) -> None:
    """Adds packages to an environment; what it has keeps its versions.

    `default` is as groundbox ships it: `groundbox environment create NAME --from default` makes one that has more.
    """
    _report(name, lambda progress: environments.add(name, requirements, progress=progress))


@environment.command()
@_name
@_sources
@_python
@click.option("--rollback", "back", is_flag=True, help="The same as `groundbox environment rollback`.")
def update(name: str, lock: Path | None, requirements: tuple[str, ...], python: str | None, *, back: bool) -> None:
    """Builds a new version beside the current one, tests it, and switches to it.

    What runs meanwhile keeps the version it started from.
    """
    if back and (lock or requirements or python):
        raise click.UsageError("--rollback builds nothing, so it goes with no other option")
    if back:
        _report(name, lambda progress: environments.rollback(name, progress=progress))
        return
    _report(name, lambda progress: environments.update(
        name, lock=lock, requirements=requirements, python=python, progress=progress
    ))  # fmt: skip


@environment.command()
@_name
def rollback(name: str) -> None:
    """Switches back to the version before the current one."""
    _report(name, lambda progress: environments.rollback(name, progress=progress))


@environment.command()
@click.argument("name")
def remove(name: str) -> None:
    """Deletes an environment, unless a sandbox runs from it."""
    environments.remove(name, progress=functools.partial(_progress, name))
    click.echo(f"{name}: removed", err=True)


@environment.command()
@_name
@_json
@click.pass_context
def check(ctx: click.Context, name: str, *, as_json: bool) -> None:
    """Compares an environment with what was built, and tests it again.

    Exits with 3 when something found is an error.
    """
    findings = environments.check(name)
    for finding in findings:
        if as_json:
            click.echo(json.dumps({"environment": name, **dataclasses.asdict(finding)}))
        else:
            click.echo(f"{name}: {finding.tier}: {finding.message}\n    {finding.mend}")
    if not findings and not as_json:
        click.echo(f"{name}: nothing is wrong", err=True)
    ctx.exit(3 if any(finding.tier == "error" for finding in findings) else 0)


def _report(name: str, work: Callable[[Callable[[str], None]], Environment]) -> None:
    started = time.monotonic()
    done = work(functools.partial(_progress, name))
    version = ".".join(map(str, done.python_version))
    click.echo(
        f"{name}: ready, {len(done.packages)} packages, Python {version}, {time.monotonic() - started:.1f} s",
        err=True,
    )


def _progress(name: str, words: str) -> None:
    if sys.stderr.isatty():
        click.echo(f"{name}: {words}", err=True)


def _plain(each: Environment) -> dict[str, Any]:
    return {
        "name": each.name,
        "version_id": each.version_id,
        "path": str(each.path),
        "python": str(each.python),
        "python_version": ".".join(map(str, each.python_version)),
        "lock_sha256": each.lock_sha256,
        "requirements": list(each.requirements),
        "base": each.base,
        "packages": dict(each.packages),
        "created_at": each.created_at,
        "tracer": tracer.standing(each)._asdict(),
    }
