"""E2B's templates: names of environments, and builds that need no image.

Template names are those of environments, and E2B's own names for the usual one. A build makes one more name for an
environment if its recipe needs nothing else: a stock Python image or E2B's own as the base, variables, and a working
folder that every sandbox has. Any other step would have to change an image, which this server does not do. Such a
build ends in E2B's status `error`, with the step and the reason, so that SDKs raise BuildException with both.

A built name belongs to the key that built it, lives in this server's memory, and is forgotten when the server ends:
clients ask whether it exists before they build.
"""

from __future__ import annotations

import asyncio
import dataclasses
import datetime
import re
import uuid
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final, Literal, NamedTuple, NoReturn

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from groundbox.errors import GroundboxError
from groundbox.sandbox import environments
from groundbox.server import bodies
from groundbox.server.keys import Key
from groundbox.server.refusals import Refused
from groundbox.server.replies import json_reply
from groundbox.server.schemas import read
from groundbox.server.service import Service

OF_E2B: Final = frozenset({"base", "code-interpreter", "code-interpreter-v1", "code-interpreter-beta"})
"""E2B's names for what is the server's usual environment."""
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9._/-]{0,127}", re.ASCII | re.IGNORECASE)
_TAG: Final = "default"
_PYTHON_IMAGE: Final = re.compile(r"(?:docker\.io/)?(?:library/)?python(?::([0-9.]{0,8})[a-z0-9.-]{0,40})?", re.ASCII)
_E2B_IMAGE: Final = re.compile(r"e2bdev/(?:base|code-interpreter)(?::[\w.-]{0,128})?", re.ASCII)
_FOLDERS: Final = frozenset({"/home/user", "/workspace", "/app"})
_MOST_OF_A_KEY: Final = 100
_MOST: Final = 10_000
_MOST_STEPS: Final = 200
_MOST_ENV_BYTES: Final = 64 * 1024


class _BuildAsked(msgspec.Struct, kw_only=True):
    name: str | None = None
    alias: str | None = None
    tags: list[str] | None = None
    cpuCount: int | None = None
    memoryMB: int | None = None
    minFreeDiskMB: int | None = None


class _Step(msgspec.Struct, kw_only=True):
    LONG: ClassVar[bodies.Long] = {"args": bodies.ARGUMENT}
    type: str
    args: list[str] = []
    filesHash: str | None = None
    force: bool = False


class _Recipe(msgspec.Struct, kw_only=True):
    fromImage: str | None = None
    fromTemplate: str | None = None
    fromImageRegistry: Any = None
    force: bool = False
    steps: list[_Step] = []
    startCmd: str | None = None
    readyCmd: str | None = None


@dataclasses.dataclass(eq=False, kw_only=True)
class Template:
    """A name that a key has built, and what became of the build.

    Attributes:
        names: The name and its tags.
        environment: The environment that it means; "" for the server's own.
        envs: Variables of all programs of its sandboxes.
        status: As E2B says it.
        warning: How its sandboxes differ from what the recipe asked for; "" if they do not.
        log: Lines of the build.
        reason: Why it failed, and at which step.
    """

    template_id: str
    build_id: str
    name: str
    tags: frozenset[str]
    created: datetime.datetime
    environment: str = ""
    envs: Mapping[str, str] = dataclasses.field(default_factory=dict)
    status: Literal["waiting", "ready", "error"] = "waiting"
    warning: str = ""
    log: list[str] = dataclasses.field(default_factory=list)
    reason: Mapping[str, str] | None = None

    def is_called(self, name: str) -> bool:
        """Return True if `name`, with or without a tag or a build's id, means this template."""
        if name == self.template_id:
            return True
        name, _, tag = name.partition(":")
        return name == self.name and (not tag or tag in self.tags or tag == self.build_id)


class Meaning(NamedTuple):
    """What the sandboxes of a template are: its environment, "" for the usual one, variables, and a warning or ""."""

    environment: str = ""
    envs: Mapping[str, str] = {}
    warning: str = ""


class _NeedsImage(Exception):
    """A recipe asks for more than an environment has. The message says what would do."""

    def __init__(self, step: int, reason: str) -> None:
        super().__init__(reason)
        self.step = step


class Templates:
    """Names that templates have for a key, and the routes by which SDKs ask for them and build them."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._built: dict[tuple[str, str], Template] = {}  # by key and name, the oldest first

    def routes(self) -> list[Route]:
        """All routes of templates."""
        table: list[tuple[str, str, Any]] = [
            ("GET", "/templates/aliases/{name:path}", self.alias),
            ("GET", "/templates/{name}/tags", self.tags),
            ("POST", "/v3/templates", self.request_build),
            ("GET", "/templates/{name}/files/{digest}", self.refuse_files),
            ("POST", "/v2/templates/{name}/builds/{build_id}", self.build),
            ("GET", "/templates/{name}/builds/{build_id}/status", self.status),
        ]
        return [Route(path, endpoint, methods=[method]) for method, path, endpoint in table]

    def find(self, key: Key, name: str) -> Meaning:
        """Return what a template's name means for a key.

        Raises:
            Refused: 404 if no template or environment has that name; nothing was made.
        """
        built = self._built_by(key, name)
        if built is not None and built.status == "ready":
            return Meaning(built.environment, built.envs, built.warning)
        plain = name.partition(":")[0]
        if plain in OF_E2B:
            return Meaning()
        if plain in environments.names():
            return Meaning(plain)
        raise Refused(404, "not_found", f"there is no template or environment {name[:200]!r} on this server")

    async def alias(self, request: Request) -> Response:
        """`GET /templates/aliases/NAME`: 200 with the template's id if there is one of that name, otherwise 404."""
        key, name = _key(request), request.path_params["name"]
        self.find(key, name)
        built = self._built_by(key, name)
        return json_reply({"templateID": built.template_id if built else name.partition(":")[0], "public": False})

    async def tags(self, request: Request) -> Response:
        """`GET /templates/NAME/tags`: tags of a built template, each with its build; 404 if there is none."""
        built = self._named(request)
        told = {"buildID": built.build_id, "createdAt": built.created.isoformat()}
        return json_reply([{"tag": tag, **told} for tag in sorted(built.tags)])

    async def request_build(self, request: Request) -> Response:
        """`POST /v3/templates`: 202 with the ids of a build, which begins with its recipe; 400 for a bad name.

        A key has at most 100 built templates. One more replaces its oldest.
        """
        key, asked = _key(request), await read(request, _BuildAsked)
        name, _, tag = (asked.name or asked.alias or "").partition(":")
        tags = frozenset([*(asked.tags or []), *([tag] if tag else [])] or [_TAG])
        if not _NAME.fullmatch(name) or len(tags) > 16 or not all(map(_NAME.fullmatch, tags)):
            told = "name: must have 1 to 128 letters, digits, '-', '_', '.' or '/', with at most 16 such tags"
            raise Refused(400, "invalid_argument", f"{told}; nothing was built")
        if name in OF_E2B or name in environments.names():
            raise Refused(403, "forbidden", f"name: {name!r} is an environment of this server; nothing was built")
        template = Template(
            template_id=uuid.uuid4().hex,
            build_id=str(uuid.uuid4()),
            name=name,
            tags=tags,
            created=datetime.datetime.now(datetime.UTC),
        )
        self._keep(key, template)
        ids = {"templateID": template.template_id, "buildID": template.build_id, "public": False}
        return json_reply({**ids, "names": [name], "aliases": [name], "tags": sorted(tags)}, 202)

    async def refuse_files(self, request: Request) -> NoReturn:
        """`GET /templates/ID/files/HASH`: 501, because no files are copied into environments."""
        self._named(request)
        raise Refused(501, "not_supported", f"COPY: {_NO_IMAGES} Write the files into the sandbox; nothing was built")

    async def build(self, request: Request) -> Response:
        """`POST /v2/templates/ID/builds/BUILD`: 202; how the build ended is in its status."""
        key, built, recipe = _key(request), self._build(request), await read(request, _Recipe)
        try:
            await self._resolve(key, built, recipe)
        except _NeedsImage as refused:
            built.status, built.reason = "error", {"message": str(refused), "step": str(refused.step)}
            built.log.append(str(refused))
        else:
            built.status = "ready"
        return Response(status_code=202)

    async def status(self, request: Request) -> Response:
        """`GET /templates/ID/builds/BUILD/status`: its status, log from `logsOffset` on, and error."""
        built = self._build(request)
        offset = request.query_params.get("logsOffset", "0")
        begin = int(offset) if offset.isascii() and offset.isdigit() and len(offset) < 9 else 0
        level = "error" if built.status == "error" else "info"
        entry = {"timestamp": built.created.isoformat(), "level": level}
        told: dict[str, Any] = {
            "templateID": built.template_id,
            "buildID": built.build_id,
            "status": built.status,
            "logs": [],
            "logEntries": [{**entry, "message": line} for line in built.log[begin:]],
        }
        return json_reply(told if built.reason is None else {**told, "reason": built.reason})

    async def _resolve(self, key: Key, built: Template, recipe: _Recipe) -> None:
        """Make a template mean the environment that its recipe amounts to.

        Raises:
            _NeedsImage: It asks for more.
        """
        if recipe.fromTemplate is not None:
            try:
                built.environment, built.envs, built.warning = self.find(key, recipe.fromTemplate)
            except Refused as refused:
                raise _NeedsImage(0, refused.message) from None
        else:
            await self._check_image(built, recipe)
        envs = {**built.envs, **_envs_of(recipe.steps)}
        if sum(len(name) + len(value) for name, value in envs.items()) > _MOST_ENV_BYTES:
            raise _NeedsImage(0, f"ENV: variables of a template have at most {_MOST_ENV_BYTES} characters together")
        for command, given in (("startCmd", recipe.startCmd), ("readyCmd", recipe.readyCmd)):
            if given:
                raise _NeedsImage(len(recipe.steps), f"{command}: start it with commands.run in each sandbox")
        built.envs = envs
        place = built.environment or self._service.settings.environment
        built.log.append(f"{built.name} is the environment {place!r} of this server; no image was pulled")

    async def _check_image(self, built: Template, recipe: _Recipe) -> None:
        image = recipe.fromImage or "e2bdev/base"
        if recipe.fromImageRegistry is None and _E2B_IMAGE.fullmatch(image):
            return
        match = _PYTHON_IMAGE.fullmatch(image) if recipe.fromImageRegistry is None else None
        if match is None:
            raise _NeedsImage(0, f"FROM {image[:200]}: {_NO_IMAGES} {_MAKE_ENVIRONMENT}")
        usual = self._service.settings.environment
        try:
            known = {each.name: each for each in await asyncio.to_thread(environments.all)}
        except GroundboxError as error:
            raise _NeedsImage(0, str(error)) from None
        if usual not in known:
            raise _NeedsImage(0, f"the environment {usual!r} does not exist on this server")
        wanted = [part for part in (match[1] or "").split(".")[:2] if part]
        order = [usual, *sorted(known.keys() - {usual})]
        fitting = (name for name in order if list(map(str, known[name].python_version[: len(wanted)])) == wanted)
        chosen = next(fitting, usual)
        built.environment = "" if chosen == usual else chosen
        has = ".".join(map(str, known[chosen].python_version))
        if not has.startswith(".".join(wanted)):
            built.warning = f"{image} asks for Python {'.'.join(wanted)}; no environment has it, and this one has {has}"
            built.log.append(built.warning)

    def _keep(self, key: Key, template: Template) -> None:
        self._built.pop((key.id, template.name), None)
        own = [place for place in self._built if place[0] == key.id]
        for place in own[: max(0, len(own) - _MOST_OF_A_KEY + 1)]:
            del self._built[place]
        while len(self._built) >= _MOST:
            del self._built[next(iter(self._built))]
        self._built[key.id, template.name] = template

    def _built_by(self, key: Key, name: str) -> Template | None:
        built = self._built.get((key.id, name.partition(":")[0]))
        if built is not None and built.is_called(name):
            return built
        own = (each for (key_id, _), each in self._built.items() if key_id == key.id)
        return next((each for each in own if each.template_id == name), None)

    def _named(self, request: Request) -> Template:
        """Raises Refused: 404 if this key has built no template of that name or id."""
        name = request.path_params["name"]
        built = self._built_by(_key(request), name)
        if built is None:
            raise Refused(404, "not_found", f"there is no built template {name[:200]!r} of this key")
        return built

    def _build(self, request: Request) -> Template:
        built = self._named(request)
        if built.build_id != request.path_params["build_id"]:
            raise Refused(404, "not_found", "this template has no such build")
        return built


_NO_IMAGES: Final = "images are not built here."
_MAKE_ENVIRONMENT: Final = (
    "Make an environment on the server (`groundbox environment create NAME …`) and name it as the template."
)


def _envs_of(steps: Sequence[_Step]) -> dict[str, str]:
    """Return the variables that the steps of a recipe set.

    Raises:
        _NeedsImage: A step does more than that.
    """
    if len(steps) > _MOST_STEPS:
        raise _NeedsImage(_MOST_STEPS, f"a template has at most {_MOST_STEPS} steps")
    envs: dict[str, str] = {}
    for number, step in enumerate(steps, 1):
        kind = step.type.upper()
        if kind == "ENV" and len(step.args) % 2 == 0:
            envs.update(zip(step.args[::2], step.args[1::2], strict=True))
        elif kind == "WORKDIR" and step.args and step.args[0].rstrip("/") in _FOLDERS:
            continue  # each of them is the workdir of every sandbox
        elif kind != "USER":  # there is one user, whatever its name
            line = " ".join([kind[:40], *step.args])[:200]
            raise _NeedsImage(number, f"{line}: {_NO_IMAGES} {_MAKE_ENVIRONMENT}")
    return envs


def _key(request: Request) -> Key:
    key: Key = request.scope["groundbox.key"]
    key.require("run")
    return key
