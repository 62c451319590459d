"""The OpenAPI document of `/v1`, made of the schemas that requests are decoded by."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
from starlette.routing import BaseRoute, Route

from groundbox.execution import Execution
from groundbox.server import processes, schemas
from groundbox.server.protocol import WireProtocol
from groundbox.version import own_version

_BODIES: Final = (
    schemas.RunAsked,
    schemas.RunInAsked,
    schemas.BatchAsked,
    schemas.CreateAsked,
    schemas.TimeAsked,
    schemas.UndoAsked,
    schemas.ForkAsked,
    schemas.PathAsked,
    schemas.KeyAsked,
    schemas.QuestionAsked,
    processes.StartAsked,
    processes.SignalAsked,
    processes.ResizeAsked,
)
_IN_PATHS: Final = ("sandbox_id", "checkpoint_id", "execution_id", "conversation_id", "key_id", "path", "stream", "pid")
_ANY: Final[dict[str, Any]] = {"type": "object"}
_ID: Final = {"type": "string", "pattern": "^[0-9a-zA-Z_-]{1,64}$"}
_PATHS_NAMES: Final[dict[str, dict[str, Any]]] = {
    "path": {"type": "string", "minLength": 1, "maxLength": 4096},
    "stream": {"enum": ["stdout", "stderr"]},
    "pid": {"type": "integer", "minimum": 1},
}
_BYTES: Final = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
_REFUSALS: Final = {
    "400": "The request cannot be meant; nothing ran.",
    "401": "No key, or none that is known.",
    "403": "The key lacks a scope, or a page of another server asks.",
    "404": "There is no such thing, or it belongs to another key.",
    "409": "It cannot be done in this state, such as in a sandbox whose process is gone, or that cannot be copied now.",
    "410": "The sandbox is closed, or the checkpoint is gone.",
    "422": "The Idempotency-Key was used for another request.",
    "429": "Too much at once; `Retry-After` says when to ask again.",
    "503": "This server or its machine failed; nothing is known of the program, so do not count it.",
}


@functools.cache
def document() -> dict[str, Any]:
    """OpenAPI 3.1, as plain data."""
    models, components = msgspec.json.schema_components(_BODIES, ref_template="#/components/schemas/{name}")
    body = dict(zip((each.__name__ for each in _BODIES), models, strict=True))
    components["Execution"] = _execution()
    components["Refusal"] = _refusal()
    ref: dict[str, Any] = {"$ref": "#/components/schemas/Execution"}
    box = "/v1/sandboxes/{sandbox_id}"
    run = "/v1/executions/{execution_id}"
    components |= _events()
    executed = {"application/json": {"schema": ref}, **_stream("RunEvent")}
    example = {"code": "print(6 * 7)"}
    heartbeat = _query("heartbeat_s", {"type": "number", "minimum": 1, "maximum": 3600}, "Blanks before a late reply.")
    paths: dict[str, dict[str, Any]] = {
        "/v1/run": {
            "post": _operation(
                "run", "Run a program in a fresh sandbox.", executed, body["RunAsked"], example, [heartbeat]
            )
        },
        "/v1/batch": {
            "post": _operation(
                "batch",
                "Run many programs, each in a fresh sandbox.",
                _json(_ANY),
                body["BatchAsked"],
                {"programs": [example, {"code": "SELECT 42", "language": "sql"}]},
                [heartbeat],
            )
        },
        "/v1/sandboxes": {
            "get": _operation("list_sandboxes", "List sandboxes.", _json(_ANY), queries=[_label()]),
            "post": _operation(
                "create_sandbox",
                "Make a sandbox that keeps its variables and files.",
                _json(_ANY),
                body["CreateAsked"],
                {"labels": {"user": "ada"}, "idle_s": 600, "undo": 8},
                status="201",
            ),
            "delete": _operation("close_sandboxes", "Close sandboxes by label.", _json(_ANY), queries=[_label()]),
        },
        box: {
            "get": _operation("show_sandbox", "Tell of a sandbox.", _json(_ANY)),
            "delete": _operation("close_sandbox", "Close a sandbox.", status="204"),
        },
        f"{box}/run": {
            "post": _operation(
                "run_in", "Run a program in a sandbox.", executed, body["RunInAsked"], {"code": "x = 1"}, [heartbeat]
            )
        },
        f"{box}/interrupt": {"post": _operation("interrupt", "Stop the cell that runs; keep variables.", _json(_ANY))},
        f"{box}/cancel": {"post": _operation("cancel", "Call off the runs that go on.", _json(_ANY))},
        f"{box}/restart": {"post": _operation("restart", "Begin afresh with the same files.", _json(_ANY))},
        f"{box}/checkpoints": {
            "get": _operation("list_checkpoints", "List the checkpoints of a sandbox.", _json(_ANY)),
            "post": _operation(
                "checkpoint",
                "Keep the state of this moment: variables, files, environment.",
                _json(_ANY),
                status="201",
            ),
        },
        box + "/checkpoints/{checkpoint_id}": {
            "get": _operation("show_checkpoint", "Tell of a checkpoint, and why it is lost.", _json(_ANY)),
            "delete": _operation("drop_checkpoint", "Give back what a checkpoint holds.", status="204"),
        },
        box + "/checkpoints/{checkpoint_id}/restore": {
            "post": _operation("restore", "Go back to a checkpoint, which stays.", _json(_ANY))
        },
        f"{box}/undo": {
            "post": _operation(
                "undo", "Go back to the state before the n-th last run.", _json(_ANY), body["UndoAsked"], {"n": 1}
            )
        },
        f"{box}/fork": {
            "post": _operation(
                "fork",
                "Make sandboxes that begin with the state of this one.",
                _json(_ANY),
                body["ForkAsked"],
                {"n": 3},
                status="201",
            )
        },
        f"{box}/timeout": {
            "post": _operation(
                "set_timeout", "Say when to close it.", _json(_ANY), body["TimeAsked"], {"total_s": 3600}
            )
        },
        f"{box}/hold": {
            "get": _operation(
                "hold",
                "Keep it for as long as this stream is read, however idle; when the stream ends, it is closed.",
                _stream(None),
            )
        },
        f"{box}/processes": {
            "get": _operation("list_processes", "List the processes that were started and live.", _json(_ANY)),
            "post": _operation(
                "start_process",
                "Start a program that goes on beside runs.",
                _json(_ANY),
                body["StartAsked"],
                {"command": "python server.py"},
                status="201",
            ),
        },
        box + "/processes/{pid}": {
            "get": _operation(
                "show_process",
                "Describe a process, and how it ended.",
                _json(_ANY),
                queries=[_query("wait_s", {"type": "number", "minimum": 0}, "How long to wait for its end.")],
            )
        },
        box + "/processes/{pid}/output": {
            "get": _operation("follow_process", "Follow the output of a process.", _stream("ProcessEvent"))
        },
        box + "/processes/{pid}/stdin": {
            "post": _operation(
                "write_to_process",
                "Write to the standard input of a process.",
                status="204",
                raw=True,
                queries=[_query("close", {"type": "string"}, "Close it afterwards, if this is not empty.")],
            )
        },
        box + "/processes/{pid}/signal": {
            "post": _operation(
                "signal_process", "Send a signal to a process.", None, body["SignalAsked"], {"signal": 15}, status="204"
            )
        },
        box + "/processes/{pid}/resize": {
            "post": _operation(
                "resize_terminal",
                "Give the terminal of a process another size.",
                None,
                body["ResizeAsked"],
                {"rows": 40, "columns": 120},
                status="204",
            )
        },
        f"{box}/files": {"get": _operation("list_files", "List the files of the workdir.", _json(_ANY))},
        box + "/files/{path}": {
            "get": _operation("read_file", "Read a file.", _BYTES),
            "put": _operation(
                "write_file",
                "Write a file.",
                raw=True,
                status="204",
                queries=[_query("mode", {"type": "string", "pattern": "^[0-7]{3,4}$"}, "Permission bits in octal.")],
            ),
            "delete": _operation("remove_file", "Remove a file or a folder.", status="204"),
        },
        box + "/folders/{path}": {"put": _operation("make_folder", "Make a folder.", status="204")},
        f"{box}/guest-files": {
            "post": _operation(
                "guest_files",
                "Ask for files as the guest's programs see them.",
                _json(_ANY),
                body["PathAsked"],
                {"op": "list", "path": "/tmp"},
            )
        },
        "/v1/executions": {
            "get": _operation(
                "list_executions",
                "List executions that are kept.",
                _json(_ANY),
                queries=[
                    _query("sandbox", {"type": "string"}, "Of this sandbox alone."),
                    _query("limit", {"type": "integer", "minimum": 1, "maximum": 1000}, "As many at most."),
                ],
            )
        },
        run: {"get": _operation("show_execution", "Tell of an execution.", _json(ref))},
        run + "/output/{stream}": {
            "get": _operation(
                "read_output",
                "Read a page of all that a program printed.",
                _BYTES,
                queries=[
                    _query("offset", {"type": "integer", "minimum": 0}, "In bytes."),
                    _query("size", {"type": "integer", "minimum": 1}, "In bytes."),
                ],
            )
        },
        f"{run}/search": {
            "get": _operation(
                "search_output",
                "Find lines that contain a text.",
                _json(_ANY),
                queries=[
                    _query(
                        "text",
                        {"type": "string", "minLength": 1, "maxLength": 1000},
                        "Letter by letter.",
                        required=True,
                    ),
                    _query("stream", {"enum": ["stdout", "stderr"]}, "Where to look."),
                    _query("limit", {"type": "integer", "minimum": 1, "maximum": 1000}, "As many at most."),
                ],
            )
        },
        run + "/artifacts/{path}": {"get": _operation("read_artifact", "Read a file that a run left.", _BYTES)},
        f"{run}/trace": {"get": _operation("read_trace", "Read a run's trace, as JSON Lines.", _BYTES)},
        "/v1/conversations": {
            "get": _operation(
                "list_conversations",
                "List conversations, and the model's name.",
                _json(_ANY),
                queries=[_query("sandbox", _ID, "Only those of this sandbox.")],
            ),
            "post": _operation(
                "ask",
                "Ask the server's model a question, which it answers by programs in a sandbox.",
                _json(_ANY),
                body["QuestionAsked"],
                {"question": "Which month had the highest sales?", "files": {"sales.csv": "month,sales\n1,20\n2,30\n"}},
                status="201",
            ),
        },
        "/v1/conversations/{conversation_id}": {
            "get": _operation("read_conversation", "Read a conversation with its events.", _json(_ANY))
        },
        "/v1/conversations/{conversation_id}/events": {
            "get": _operation(
                "follow_conversation", "Follow a conversation: its events as they come.", _stream("ConversationEvent")
            )
        },
        "/v1/conversations/{conversation_id}/cancel": {
            "post": _operation("cancel_conversation", "Call a conversation off.", _json(_ANY))
        },
        "/v1/environments": {"get": _operation("list_environments", "List environments.", _json(_ANY))},
        "/v1/languages": {"get": _operation("list_languages", "List languages.", _json(_ANY))},
        "/v1/keys": {
            "get": _operation("list_keys", "List keys, without secrets.", _json(_ANY)),
            "post": _operation(
                "make_key", "Make a key.", _json(_ANY), body["KeyAsked"], {"owner": "ada"}, status="201"
            ),
        },
        "/v1/keys/{key_id}": {"delete": _operation("revoke_key", "Revoke a key.", status="204")},
    }
    for path, item in paths.items():
        item["parameters"] = [
            {"name": name, "in": "path", "required": True, "schema": _PATHS_NAMES.get(name, _ID)}
            for name in _IN_PATHS
            if f"{{{name}}}" in path
        ]
    return {
        "openapi": "3.1.0",
        "info": {"title": "groundbox", "version": own_version(), "description": (__doc__ or "").splitlines()[0]},
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"key": []}],
    }


def of_protocols(
    protocols: Mapping[str, WireProtocol], routes: Mapping[str, Sequence[BaseRoute]]
) -> dict[str, dict[str, Any]]:
    """Return `paths` and `schemas` of the protocols that are switched on, made of their routes and docstrings."""
    paths: dict[str, Any] = {}
    components: dict[str, Any] = {}
    for name, protocol in protocols.items():
        kinds = list(protocol.bodies.values())
        template = f"#/components/schemas/{name}.{{name}}"
        models, defined = msgspec.json.schema_components(kinds, ref_template=template)
        components |= {f"{name}.{each}": schema for each, schema in defined.items()}
        bodies = dict(zip(protocol.bodies, models, strict=True))
        for route in routes[name]:
            if not isinstance(route, Route):
                continue
            path = re.sub(r"{(\w+):\w+}", r"{\1}", route.path)
            item = paths.setdefault(path, {"parameters": [_in_path(each) for each in re.findall(r"{(\w+)}", path)]})
            about = (route.endpoint.__doc__ or route.name).strip().splitlines()[0]
            for method in sorted((route.methods or {"GET"}) - {"HEAD"}):
                operation = _operation(f"{name}_{method.lower()}_{re.sub(r'[^a-z0-9]+', '_', path.lower())}", about)
                if (body := bodies.get((method, route.path))) is not None:
                    operation["requestBody"] = {"content": {"application/json": {"schema": body}}}
                item[method.lower()] = {**operation, "tags": [name]}
    return {"paths": paths, "schemas": components}


def joined(whole: dict[str, Any], described: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the document with what `of_protocols` described; a path that it has already stays as it is."""
    schemas_of = {**described.get("schemas", {}), **whole["components"]["schemas"]}
    return {
        **whole,
        "paths": {**described.get("paths", {}), **whole["paths"]},
        "components": {**whole["components"], "schemas": schemas_of},
    }


def _in_path(name: str) -> dict[str, Any]:
    return {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}


def _operation(
    name: str,
    summary: str,
    content: dict[str, Any] | None = None,
    body: dict[str, Any] | None = None,
    example: dict[str, Any] | None = None,
    queries: list[dict[str, Any]] | None = None,
    *,
    status: str = "200",
    raw: bool = False,
) -> dict[str, Any]:
    done: dict[str, Any] = {"description": "Done."}
    if content is not None:
        done["content"] = content
    refusal = {"application/json": {"schema": {"$ref": "#/components/schemas/Refusal"}}}
    told: dict[str, Any] = {
        "operationId": name,
        "summary": summary,
        "responses": {
            status: done,
            **{number: {"description": why, "content": refusal} for number, why in _REFUSALS.items()},
        },
    }
    if queries:
        told["parameters"] = queries
    if body is not None:
        told["requestBody"] = {"required": True, "content": {"application/json": {"schema": body, "example": example}}}
    elif raw:
        told["requestBody"] = {"content": _BYTES}
    return told


def _json(schema: dict[str, Any]) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}


def _query(name: str, schema: dict[str, Any], about: str, *, required: bool = False) -> dict[str, Any]:
    return {"name": name, "in": "query", "required": required, "schema": schema, "description": about}


def _label() -> dict[str, Any]:
    return _query("label", {"type": "array", "items": {"type": "string"}}, "NAME=VALUE; repeatable.")


def _execution() -> dict[str, Any]:
    return {**Execution.__get_pydantic_json_schema__(None, None), "description": "docs/results.md tells each key."}


def _stream(events: str | None) -> dict[str, Any]:
    """Server-sent events of this schema; None for comments alone. A line `event:` is the name, a line `data:` JSON."""
    items: dict[str, Any] = {"type": "string"} if events is None else {"$ref": f"#/components/schemas/{events}"}
    return {"text/event-stream": {"schema": {"type": "array", "items": items}}}


def _events() -> dict[str, Any]:
    """Schemas of events, by the name of their stream."""
    text = _object(text={"type": "string"})
    whole = {"$ref": "#/components/schemas/Execution"}
    failed = {"failed": {"$ref": "#/components/schemas/Refusal"}}
    run = {
        "stdout": text,
        "stderr": text,
        "clear": _object(
            text={"const": ""},
            waits={"type": "boolean", "description": "What was shown stays until something else is there."},
        ),
        "display": _object(
            display={"type": "object", "description": "Representations by their media types."},
            display_id={
                "type": ["string", "null"],
                "description": "The program's own name for it.",
            },
            updates={"type": "boolean", "description": "It replaces what was shown under that name."},
        ),
        "end": _object(execution=whole),
    }
    data = _object(base64={"type": "string", "contentEncoding": "base64"})
    number = {"type": ["integer", "null"]}
    process = {"stdout": data, "stderr": data, "pty": data, "exit": _object(code=number, signal=number)}
    told = {"type": "object", "properties": {"event": {"type": "string"}}, "required": ["event"]}
    conversation = dict.fromkeys(("replied", "started", "observed", "noticed", "ended"), told)
    streams = {"RunEvent": run, "ProcessEvent": process, "ConversationEvent": conversation}
    return {
        name: {"oneOf": [_object(event={"const": kind}, data=each) for kind, each in {**kinds, **failed}.items()]}
        for name, kinds in streams.items()
    }


def _object(**properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties)}


def _refusal() -> dict[str, Any]:
    return {
        "type": "object",
        "required": ["code", "message", "error"],
        "properties": {
            "code": {"type": "integer"},
            "message": {"type": "string"},
            "error": {
                "type": "object",
                "required": ["code", "message"],
                "properties": {
                    "code": {"type": "string"},
                    "message": {"type": "string"},
                    "retry_after_s": {"type": "number"},
                },
            },
        },
    }
