"""`groundbox doctor`: which layers of the wall can stand on this host, and whether they do; or how a server does."""

from __future__ import annotations

import asyncio
import dataclasses
import http.client
import json
import os
import pwd
import socket
import ssl
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qs, urlsplit

import click

from groundbox.cli.ending import ends_tidily
from groundbox.cli.options import naming_options
from groundbox.cli.program import bad
from groundbox.cli.terminal import one_line
from groundbox.errors import EnvironmentFailed, GroundboxError, InvalidArgument, SandboxUnavailable
from groundbox.jail import GVISOR, LANDLOCK, NAMESPACES, cgroup
from groundbox.jail.probe import missing, probe
from groundbox.remote.connect import API_KEY, Connection
from groundbox.remote.transport import Address, address_of
from groundbox.sandbox import environments, languages
from groundbox.sandbox.engine import check_waivable
from groundbox.sandbox.environments import tracer
from groundbox.sandbox.sandbox import AsyncSandbox
from groundbox.sandbox.selftest import Verdict, selftest

BACKENDS: Final = (NAMESPACES, LANDLOCK, GVISOR)
_WE_FAILED: Final = 3
_ANSWER_S: Final = 30.0
_WITH_KEY: Final = "/v1/languages"
"""Answered to whoever has a key, and costs nothing."""


class Wall(NamedTuple):
    """What is tried: the arguments of a sandbox."""

    backend: str
    environment: str
    waive: tuple[str, ...]

    def sandbox(self) -> AsyncSandbox:
        """Return a new sandbox behind this wall."""
        return AsyncSandbox(**self._asdict(), profile="bare")


@click.command()
@click.option(
    "--backend",
    type=click.Choice(BACKENDS),
    default=NAMESPACES,
    show_default=True,
    help="The one to try.",
)
@click.option("--environment", default="default", show_default=True, metavar="NAME", help="Whose Python to use.")
@click.option("--waive", multiple=True, metavar="LAYER", help="A layer to do without, as for `run`; repeatable.")
@click.option("--delegate", metavar="USER", help="As root: make control groups that USER may use, and end.")
@click.option("--url", metavar="URL", help="Ask a server that runs, instead of looking at this host.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object per line on stdout.")
@ends_tidily
def doctor(
    backend: str, environment: str, waive: tuple[str, ...], delegate: str | None, url: str | None, *, as_json: bool
) -> int:
    """Shows what this host can do for isolation, and tries whether it holds.

    First each mechanism with what to do where it is missing, then the environment and a program of each
    language, then about thirty attempts to get out of a sandbox. An attempt that achieves anything is a BREACH.
    The last line is the verdict.

    With --url, a server is asked whether it lives, is ready and runs a program, and whether it refuses a wrong key and
    a name that is not its own. The key is the variable GROUNDBOX_API_KEY, or `?token=` of the URL.

    Exits with 0 when sandboxes of the backend run and hold, and so do the languages that are installed, or when the
    server does all of it; else with 3.
    """
    if delegate is not None and url is not None:
        raise bad("--url", "does not go with --delegate")
    if waive and (delegate is not None or url is not None):
        raise bad("--waive", "does not go with --delegate or --url")
    if delegate is not None:
        _delegate(delegate, as_json=as_json)
        return 0
    tell = _as_json if as_json else _in_words
    if url is not None:
        return _server(url, tell)
    with naming_options():
        check_waivable(waive)
    findings = probe()
    for finding in findings:
        tell("layer", dataclasses.asdict(finding))
    facts = _environment(environment)
    tell("environment", facts)
    wall = Wall(backend, environment, waive)
    lacking = [(finding.layer, finding.mend) for finding in missing(findings, backend=backend, waive=frozenset(waive))]
    if not facts["works"]:
        lacking.append((f"environment {environment}", f"Run `{facts['mend']}`."))
    verdict = _incomplete(lacking) or _unable(wall) or _tried(wall, tell)
    tell("verdict", {"backend": backend, **verdict})
    return 0 if verdict["works"] else _WE_FAILED


def _incomplete(lacking: list[tuple[str, str]]) -> dict[str, Any] | None:
    """The verdict where something is missing, without which nothing is tried."""
    if not lacking:
        return None
    names = ", ".join(name for name, _ in lacking)
    return {"works": False, "detail": f"missing: {names}", "mend": " ".join(mend for _, mend in lacking)}


def _unable(wall: Wall) -> dict[str, Any] | None:
    """The verdict where no sandbox starts, so that each language would only say so again."""
    try:
        asyncio.run(wall.sandbox().run_last("1"))
    except SandboxUnavailable as error:
        return {"works": False, "detail": "; ".join(error.missing), "mend": " ".join(error.mends)}
    except GroundboxError as error:
        return {"works": False, "detail": f"no sandbox starts: {error}", "mend": ""}
    return None


def _tried(wall: Wall, tell: Callable[[str, dict[str, Any]], None]) -> dict[str, Any]:
    """The verdict after programs and attempts."""
    spoken = [_language(each, wall) for each in languages.listed()]
    for each in spoken:
        tell("language", each)
    problem = _try(wall, tell)
    failing = [each["name"] for each in spoken if each["installed"] and not each["works"]]
    if problem or failing:
        words = ([problem] if problem else []) + [f"the self-test of {name} fails" for name in failing]
        return {"works": False, "detail": "; ".join(words), "mend": ""}
    absent = [each["name"] for each in spoken if not each["installed"]]
    without = f"; not installed: {', '.join(absent)}" if absent else ""
    return {"works": True, "detail": f"programs run, and nothing got out{without}", "mend": ""}


def _delegate(user: str, *, as_json: bool) -> None:
    if os.geteuid() != 0:
        raise click.UsageError(
            f"only root can hand control groups to a user; run: sudo groundbox doctor --delegate {user}"
        )
    try:
        uid, gid = (int(user), _group_of(int(user))) if user.isdigit() else pwd.getpwnam(user)[2:4]
    except KeyError:
        context, problem = click.get_current_context(), f"there is no user {user!r} on this host"
        raise click.BadParameter(problem, ctx=context, param_hint="'--delegate'") from None
    try:
        folders = cgroup.delegate(uid, gid)
    except OSError as error:
        mend = getattr(error, "mend", "")
        words = f"control groups cannot be delegated here: {error}"
        raise GroundboxError(f"{words}. {mend}." if mend else words) from None
    for folder in folders:
        print(json.dumps({"kind": "delegated", "folder": folder}) if as_json else folder)


def _group_of(uid: int) -> int:
    """Return the group of a user, or -1, which changes no group, if the user database has no entry."""
    try:
        return pwd.getpwuid(uid).pw_gid
    except KeyError:
        return -1


def _environment(name: str) -> dict[str, Any]:
    try:
        found = environments.get(name)
    except EnvironmentFailed as error:
        mend = f"groundbox environment create {name}"
        return {"name": name, "works": False, "detail": str(error), "mend": mend}
    version = ".".join(map(str, found.python_version))
    python = f"Python {version} from {os.path.realpath(found.python)}"
    standing = tracer.standing(found)
    detail = f"{python}, {len(found.packages)} packages, built {found.created_at}, {standing.words}"
    facts = {"name": name, "works": True, "detail": one_line(detail), "mend": "", "path": str(found.path)}
    facts["tracer"] = standing._asdict()
    if standing.origin is None:
        command = f"groundbox environment {'create' if name == 'default' else 'update'} {name}"
        facts["mend"] = (
            "traces are made by the plain tracer, which is slow and folds nothing, so that those of long runs end at "
            "max_events; install a wheel of groundbox for this platform, "
            f"or a C compiler and the headers of this Python, then: {command}"
        )
    return facts


def _language(language: languages.Language, wall: Wall) -> dict[str, Any]:
    """How the self-test of a language went in a sandbox of this backend."""
    facts: dict[str, Any] = {"name": language.name, "installed": language.missing is None, "works": False, "mend": ""}
    if language.missing is not None:
        return {**facts, "detail": f"guests see no {language.missing.needs}", "mend": language.missing.advice}
    test = languages.find(language.name).SELF_TEST
    try:
        execution = asyncio.run(wall.sandbox().run_last(test.source, language=language.name, mode=test.mode))
    except GroundboxError as error:
        return {**facts, "detail": str(error)}
    if execution.ok and execution.stdout == test.prints:
        return {**facts, "works": True, "detail": f"{', '.join(language.modes)}"}
    said = f"{execution.error.type}: {execution.error.message}" if execution.error else execution.stdout[:200]
    return {**facts, "detail": f"its self-test ended with {execution.outcome.value}: {said}"}


def _try(wall: Wall, tell: Callable[[str, dict[str, Any]], None]) -> str:
    """Return why sandboxes behind this wall do not run or not hold, or nothing."""
    counts = dict.fromkeys(("held", "breach", "unclear", "waived"), 0)
    backend = wall.backend

    async def attempt() -> None:
        async for verdict in selftest(backend, environment=wall.environment, waive=wall.waive):
            facts = _plain(verdict)
            if not verdict.held and verdict.probe.layer in wall.waive:
                facts["result"] = "waived"
            counts[facts["result"]] += 1
            tell("attempt", {"backend": backend, **facts})

    try:
        asyncio.run(attempt())
    except GroundboxError as error:
        tell("backend", {"backend": backend, "works": False, "detail": str(error), "breaches": 0})
        return "sandboxes do not start"
    detail = f"{sum(counts.values())} attempts, {counts['breach']} got through"
    detail += f", {counts['unclear']} came to no end" if counts["unclear"] else ""
    detail += f", {counts['waived']} more for want of a waived layer" if counts["waived"] else ""
    works = not counts["breach"] and not counts["unclear"]
    tell("backend", {"backend": backend, "works": works, "detail": detail, "breaches": counts["breach"]})
    return "" if works else f"of {detail}"


def _plain(verdict: Verdict) -> dict[str, Any]:
    return {
        "name": verdict.probe.name,
        "layer": verdict.probe.layer,
        "result": "held" if verdict.held else "breach" if verdict.breach else "unclear",
        "detail": verdict.detail,
    }


class _Answer(NamedTuple):
    """A reply: its status, and its body as text."""

    status: int
    text: str

    @property
    def said(self) -> str:
        """What it says, in short: the message of a refusal, or how it begins."""
        try:
            return str(json.loads(self.text)["error"]["message"])
        except (ValueError, KeyError, TypeError):
            return self.text[:120].strip()


def _server(url: str, tell: Callable[[str, dict[str, Any]], None]) -> int:
    """Ask a server, and return the exit status."""
    try:
        address = address_of(url)
    except InvalidArgument as error:
        raise bad("--url", error.problem) from None
    (key,) = parse_qs(urlsplit(url).query).get("token", [os.environ.get(API_KEY, "")])[:1]
    failing = []
    for name, look in _LOOKS.items():
        try:
            works, detail = look(address, key)
        except (OSError, http.client.HTTPException, GroundboxError) as error:
            works, detail = False, f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        tell("server", {"name": name, "works": works, "detail": detail})
        if not works:
            failing.append(name)
            if name == _FIRST:
                break  # there is nobody to answer the rest
    detail = f"failing: {', '.join(failing)}" if failing else "programs run there, and who may not ask is refused"
    mend = _NO_KEY if not key and "a run" in failing else ""
    tell("verdict", {"server": address.shown, "works": not failing, "detail": detail, "mend": mend})
    return _WE_FAILED if failing else 0


def _lives(address: Address, key: str) -> tuple[bool, str]:
    answer = _get(address, "/livez")
    return answer == (200, "alive\n"), f"status {answer.status}, {answer.said!r}"


def _is_ready(address: Address, key: str) -> tuple[bool, str]:
    answer = _get(address, "/readyz")
    return answer.status == 200, answer.said if answer.status in (200, 503) else f"status {answer.status}"


def _runs(address: Address, key: str) -> tuple[bool, str]:
    with Connection(address.shown, key or None) as there:
        execution = there.run("print(6*7)")
    if (execution.outcome.value, execution.stdout) != ("ok", "42\n"):
        return False, f"print(6*7) ended with {execution.outcome.value} and printed {execution.stdout[:80]!r}"
    without = ", ".join(execution.isolation.missing)
    detail = f"print(6*7) printed 42 with {execution.isolation.backend}"
    return True, f"{detail}, without {without}" if without else detail


def _refuses_a_wrong_key(address: Address, key: str) -> tuple[bool, str]:
    if address.unix:
        return True, "none is asked for: only processes of the same user can connect"
    answer = _get(address, _WITH_KEY, {"Authorization": "Bearer gb_not-a-key-of-this-server"})
    return answer.status == 401, f"status {answer.status}" + ("" if answer.status == 401 else ", and 401 was expected")


def _refuses_a_foreign_name(address: Address, key: str) -> tuple[bool, str]:
    if address.unix:
        return True, "names mean nothing: only processes of the same user can connect"
    answer = _get(address, _WITH_KEY, {"Authorization": f"Bearer {key}", "Host": "foreign.invalid"})
    try:
        is_ours = isinstance(json.loads(answer.text), dict | list)
    except ValueError:
        is_ours = False
    if is_ours and answer.status != 403:
        return False, f"status {answer.status}, and 403 was expected: a page anywhere on the web could ask in its name"
    return True, f"status {answer.status}" if is_ours else f"status {answer.status}, by something before the server"


_FIRST: Final = "/livez"
_NO_KEY: Final = "No key was given: set the variable GROUNDBOX_API_KEY, or add it to the URL as ?token=KEY."
_LOOKS: Final[dict[str, Callable[[Address, str], tuple[bool, str]]]] = {
    _FIRST: _lives,
    "/readyz": _is_ready,
    "a run": _runs,
    "a wrong key": _refuses_a_wrong_key,
    "a foreign Host": _refuses_a_foreign_name,
}
"""What is asked of a server, in this order, and with which reply it is well."""


def _get(address: Address, path: str, headers: dict[str, str] | None = None) -> _Answer:
    """One request by the standard library, which sends what it is told, also what a good client would not."""
    connection = _connection(address)
    try:
        connection.request("GET", address.prefix + path, headers=headers or {})
        reply = connection.getresponse()
        return _Answer(reply.status, reply.read(1 << 20).decode("utf-8", "replace"))
    finally:
        connection.close()


def _connection(address: Address) -> http.client.HTTPConnection:
    if address.unix:
        connection = http.client.HTTPConnection("localhost", timeout=_ANSWER_S)
        connection.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.sock.settimeout(_ANSWER_S)
        connection.sock.connect(address.unix)
        return connection
    if address.tls:
        context = ssl.create_default_context()
        return http.client.HTTPSConnection(address.host, address.port, timeout=_ANSWER_S, context=context)
    return http.client.HTTPConnection(address.host, address.port, timeout=_ANSWER_S)


def _as_json(kind: str, facts: dict[str, Any]) -> None:
    print(json.dumps({"kind": kind, **facts}), flush=True)


def _in_words(kind: str, facts: dict[str, Any]) -> None:
    for line in _WORDS[kind](facts):
        print(line, flush=True)


def _layer_words(facts: dict[str, Any]) -> Iterator[str]:
    word = "ok" if facts["works"] else "absent" if facts.get("optional") else "MISSING"
    yield f"{word:<8} {facts['layer']}: {facts['detail']}"
    if facts["mend"]:
        yield f"{'':<8} {facts['mend']}"


def _attempt_words(facts: dict[str, Any]) -> Iterator[str]:
    word = {"held": "ok", "breach": "BREACH", "unclear": "UNCLEAR", "waived": "waived"}[facts["result"]]
    yield f"{word:<8} {facts['backend']}: {facts['name']}"
    if facts["detail"]:
        yield f"{'':<8} {one_line(facts['detail'])} (layer {facts['layer']})"


def _verdict_words(facts: dict[str, Any]) -> Iterator[str]:
    word = "ready" if facts["works"] else "not ready"
    what = f"server {facts['server']}" if "server" in facts else f"backend {facts['backend']}"
    yield f"groundbox: {word}, {what}: {one_line(facts['detail'])}"
    if facts["mend"]:
        yield f"groundbox: {facts['mend']}"


def _server_words(facts: dict[str, Any]) -> Iterator[str]:
    yield f"{'ok' if facts['works'] else 'FAILS':<8} {facts['name']}: {one_line(facts['detail'])}"


def _backend_words(facts: dict[str, Any]) -> Iterator[str]:
    word = "ok" if facts["works"] else "BREACH" if facts["breaches"] else "FAILS"
    yield f"{word:<8} backend {facts['backend']}: {facts['detail']}"


def _environment_words(facts: dict[str, Any]) -> Iterator[str]:
    yield from _layer_words({**facts, "layer": f"environment {facts['name']}"})


def _language_words(facts: dict[str, Any]) -> Iterator[str]:
    word = "ok" if facts["works"] else "FAILS" if facts["installed"] else "absent"
    yield f"{word:<8} language {facts['name']}: {one_line(facts['detail'])}"
    if facts["mend"]:
        yield f"{'':<8} {facts['mend']}"


_WORDS: Final = {
    "layer": _layer_words,
    "environment": _environment_words,
    "language": _language_words,
    "attempt": _attempt_words,
    "backend": _backend_words,
    "server": _server_words,
    "verdict": _verdict_words,
}
