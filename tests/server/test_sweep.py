"""Every route with adversarial values in each field: nobody waits, nothing breaks, and memory stays within its bound.

Routes are found in the OpenAPI document, and in the application for protocols that it does not describe, so that a new
one is driven without being named here. How late the event loop was is asked of the server itself. Other work on the
machine delays a loop, too: what was late is asked again, and counts only if it is late each time.

The short form takes one value for each field. `GROUNDBOX_SWEEP=long` takes all of them, and larger bodies.
"""

import contextlib
import http.client
import inspect
import itertools
import json
import os
import random
import re
import sys
import urllib.parse

import pytest

pytest.importorskip("starlette", reason="the extra `server` is not installed here")

import msgspec

from groundbox.server.application import application
from groundbox.server.keys import Keys
from groundbox.server.service import Service
from groundbox.server.settings import Settings

from .conftest import TOKEN, serving

IS_LONG = os.environ.get("GROUNDBOX_SWEEP") == "long"
MIB = 1024 * 1024
LARGE_BYTES = (64 if IS_LONG else 4) * MIB
LATE_S = 0.05
TRIES = 8
PROTOCOLS = ("judge0", "piston", "opensandbox", "librechat", "containers")
NOT_SWEPT = {"/console/logout", "/login", "/console/login"}
"""They end or begin what a browser holds, and read 4 KiB at most without a key."""

TEXTS = {
    "long": "\\" * MIB,
    "huge": "," * (5 * MIB),
    "wide": "😀" * 200_000,
    "spaces": " " * 200_000,
    "quotes": "'\"" * 100_000,
    "digits": "9" * 5_000,
    "dots": "1." * 50_000,
    "control": "a\0b\x1b[2J\u202e\r\n",
    "path": "../" * 2_000 + "etc/passwd",
    "base64": "QUJD" * 100_000,
    "not base64": "!" * 100_000,
    "nested": "(" * 50_000,
    "percent": "%" * 50_000 + "s",
    "braces": "{" * 50_000,
    "empty": "",
    "word": "nothing-of-that-name",
}
OTHERS = {
    "negative": -1,
    "large": 2**63 - 1,
    "larger": 10**400,
    "small": 1e-320,
    "float": 1.7976931348623157e308,
    "many": [{}] * 19_000,
    "too many": [[]] * 30_000,
    "texts": ["x" * 300] * 15_000,
    "names": {f"k{number}": "v" for number in range(9_000)},
    "long name": {"k" * MIB: "v"},
    "long names": {"k" * 1_000 + str(number): "v" * 1_000 for number in range(1_000)},
    "deep": json.loads("[" * 90 + "]" * 90),
    "null": None,
    "true": True,
    "object": {"a": {"b": [1, "2", None]}},
    "long inside": {"a": ["x" * (3 * MIB)]},
}
VALUES = {**TEXTS, **OTHERS}
RAW = {
    "objects": lambda: b'{"code":"1","args":[' + b"{}," * (LARGE_BYTES // 3) + b"{}]}",
    "brackets": lambda: b"[" * LARGE_BYTES,
    "escapes": lambda: b'{"code":"1","environment":"' + b"\\\\" * (LARGE_BYTES // 2) + b'"}',
    "blanks": lambda: b"{" + b" " * LARGE_BYTES + b"}",
    "digits": lambda: b'{"code":' + b"9" * LARGE_BYTES + b"}",
    "quotes": lambda: b'{"' + b'":"' * (LARGE_BYTES // 3),
    "file": lambda: b'{"code":"1","files":{"a":{"base64":"' + b"QUJD" * (LARGE_BYTES // 4) + b'"}}}',
    "text": lambda: b'{"code":"1","files":{"a":"' + "aé😀\\n".encode() * (LARGE_BYTES // 9) + b'"}}',
    "not utf-8": lambda: b'{"code":"' + b"\xff" * (LARGE_BYTES // 8) + b'"}',
    "form": lambda: (
        b'--x\r\nContent-Disposition: form-data; name="file"; filename="' + b"a" * (LARGE_BYTES // 8) + b'"\r\n\r\n\r\n'
        b"--x--\r\n"
    ),
    "parts": lambda: b"--x\r\nContent-Disposition: form-data; name=a\r\n\r\n\r\n" * 20_000 + b"--x--\r\n",
}


class Target:
    """A server, and what it says of itself."""

    def __init__(self, server):
        self.server, self.pid = server, server.process.pid
        self.host, self.port = "127.0.0.1", int(server.url.rpartition(":")[2])
        self._made = {}

    def ask(self, method, path, body=None, headers=None, *, timeout_s=120.0):
        """Status, and the beginning of the reply; what streams without end is not read to it."""
        connection = http.client.HTTPConnection(self.host, self.port, timeout=timeout_s)
        with contextlib.closing(connection):
            given = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json", **(headers or {})}
            connection.request(method, path, body, given)
            reply = connection.getresponse()
            if reply.length is not None:
                return reply.status, reply.read(65536)
            connection.sock and connection.sock.settimeout(2.0)
            with contextlib.suppress(TimeoutError):
                return reply.status, reply.read1(65536)
            return reply.status, b""

    def late(self):
        """How often the loop was later than LATE_S, and the largest bound of its histogram that was passed."""
        _, text = self.ask("GET", "/metrics")
        found = re.findall(rb'groundbox_loop_lag_seconds_bucket\{le="([^"]+)"\} (\S+)', text)
        counts = {float(bound): float(count) for bound, count in found}
        return {bound: counts[float("inf")] - count for bound, count in counts.items() if bound >= LATE_S}

    def memory_mib(self, name):
        with open(f"/proc/{self.pid}/status") as lines:
            return next(int(line.split()[1]) // 1024 for line in lines if line.startswith(name))

    def forget_peak(self):
        with open(f"/proc/{self.pid}/clear_refs", "w") as file:
            file.write("5")

    def names(self):
        """Values for names in paths: of things that live now, where there are some."""
        box = self._made.get("sandbox_id")
        if box is None or self.ask("GET", f"/v1/sandboxes/{box}")[0] != 200:
            box = json.loads(self.ask("POST", "/v1/sandboxes", b"{}")[1])["sandbox_id"]
            e2b = json.loads(self.ask("POST", "/v2/sandboxes", b'{"templateID": "base"}')[1])["sandboxID"]
            ran = json.loads(self.ask("POST", f"/v1/sandboxes/{box}/run", b'{"code": "1"}')[1])
            self._made = {"sandbox_id": box, "e2b": e2b, "execution_id": ran["execution_id"]}
        elif self.ask("GET", "/health", headers={"E2b-Sandbox-Id": self._made["e2b"]})[0] != 204:
            made = json.loads(self.ask("POST", "/v2/sandboxes", b'{"templateID": "base"}')[1])
            self._made["e2b"] = made["sandboxID"]
        return {**self._made, "path": "a.txt", "stream": "stdout"}


def resolved(schema, defined):
    while "$ref" in schema:
        schema = defined[schema["$ref"].rpartition("/")[2]]
    return schema


def sample(schema, defined, depth=0):
    """A value that fits, as small as it may be."""
    schema = resolved(schema, defined)
    for name in ("default", "const"):
        if name in schema:
            return schema[name]
    if "enum" in schema:
        return schema["enum"][0]
    for name in ("anyOf", "oneOf"):
        if name in schema:
            return sample(schema[name][0], defined, depth)
    if schema.get("type") == "object" and depth < 4:
        inner = schema.get("properties", {})
        return {name: sample(inner[name], defined, depth + 1) for name in schema.get("required", ())}
    if schema.get("type") == "array":
        count = schema.get("minItems", 0)
        fixed = [sample(each, defined, depth + 1) for each in schema.get("prefixItems", ())]
        return fixed or [sample(schema.get("items", {}), defined, depth + 1)] * count
    kinds = {"string": "1", "integer": 1, "number": 1.0, "boolean": True, "null": None}
    return kinds.get(schema.get("type"), {})


def fields(schema, defined, at=(), depth=0):
    """Where values may be put in: the path of each field, and of a member of what holds others."""
    schema = resolved(schema, defined)
    yield at
    if depth > 3:
        return
    for name in ("anyOf", "oneOf"):
        for each in schema.get(name, ()):
            if resolved(each, defined).get("type") in ("object", "array"):
                yield from itertools.islice(fields(each, defined, at, depth + 1), 1, None)
    for name, inner in schema.get("properties", {}).items():
        yield from fields(inner, defined, (*at, name), depth + 1)
    if isinstance(schema.get("additionalProperties"), dict):
        yield from fields(schema["additionalProperties"], defined, (*at, "k"), depth + 1)
    if isinstance(schema.get("items"), dict):
        yield from fields(schema["items"], defined, (*at, 0), depth + 1)


def with_value(whole, at, value):
    """A copy with this value at this place, made of what has to be around it."""
    if not at:
        return value
    name, rest = at[0], at[1:]
    if name == 0:
        first = whole[0] if isinstance(whole, list) and whole else None
        return [with_value(first, rest, value)]
    held = dict(whole) if isinstance(whole, dict) else {}
    return {**held, name: with_value(held.get(name), rest, value)}


def described(target):
    """Method, path, schema of the body or None, and names in the query, of the OpenAPI document."""
    document = json.loads(target.server.client().get("/v1/openapi.json").content)
    defined = document["components"]["schemas"]
    for path, item in document["paths"].items():
        for method, operation in item.items():
            if method == "parameters":
                continue
            content = operation.get("requestBody", {}).get("content", {})
            schema = content.get("application/json", {}).get("schema")
            queries = [each["name"] for each in operation.get("parameters", ())]
            yield method.upper(), path, schema, defined, queries


def undescribed(known):
    """The same for routes that no document describes: with every request that their module has a schema for."""
    guard = application(Service(Settings(), Keys(token=None)))
    for route in guard._app._app.routes:
        path = re.sub(r"{(\w+):\w+}", r"{\1}", route.path)
        for method in sorted(getattr(route, "methods", None) or ()):
            if (method, path) in known or method == "HEAD" or path in NOT_SWEPT:
                continue
            module = sys.modules[inspect.unwrap(getattr(route.endpoint, "__func__", route.endpoint)).__module__]
            kinds = [
                each
                for each in vars(module).values()
                if isinstance(each, type) and issubclass(each, msgspec.Struct) and each.__module__ == module.__name__
            ]
            if method == "GET" or not kinds:
                yield method, path, None, {}, ["path", "token"]
            for kind in kinds if method != "GET" else ():
                whole = msgspec.json.schema(kind)
                yield method, path, whole, whole.get("$defs", {}), []


def requests(target):
    """Everything that is asked: what it is called, method, path, body and headers."""
    rng = random.Random(7)
    routes = list(described(target))
    known = {(method, path) for method, path, *_ in routes}
    assert len(known) > 40
    for method, path, schema, defined, queries in [*routes, *undescribed(known)]:
        if schema is not None:
            whole = sample(schema, defined)
            for at in fields(schema, defined):
                names = list(VALUES) if IS_LONG else rng.sample(list(VALUES), 1)
                for name in names:
                    body = json.dumps(with_value(whole, at, VALUES[name]), ensure_ascii=False).encode("utf-8")
                    yield f"{method} {path} {'.'.join(map(str, at))} = {name}", method, path, body, {}
        for query in queries:
            for name in TEXTS if IS_LONG else rng.sample(list(TEXTS), 2):
                value = urllib.parse.quote(TEXTS[name][:3000])
                yield f"{method} {path}?{query} = {name}", method, f"{path}?{query}={value}", None, {}
        for place in re.findall(r"{\w+}", path):
            for value in ("%00", "..%2f..%2fetc%2fpasswd", "a" * 4000, "%F0%9F%98%80"):
                if IS_LONG or rng.random() < 0.3:
                    yield f"{method} {path} {place}", method, path.replace(place, value), b"{}", {}
        if method in ("POST", "PUT", "PATCH"):
            for name in RAW if IS_LONG else rng.sample(list(RAW), 2):
                kind = "multipart/form-data; boundary=x" if name in ("form", "parts") else "application/json"
                yield f"{method} {path} body {name}", method, path, RAW[name](), {"Content-Type": kind}


def driven(target, method, path, body, headers):
    """Status and reply of one request, how late the loop was (in steps of its histogram), and memory over the bound."""
    names = target.names()
    there = re.sub(r"{(\w+)}", lambda found: str(names.get(found[1], 1)), path)
    target.forget_peak()
    held, before = target.memory_mib("VmRSS"), target.late()
    status, reply = target.ask(method, there, body, {"E2b-Sandbox-Id": names["e2b"], **headers})
    after = target.late()
    late_s = max((bound for bound, count in after.items() if count > before[bound]), default=0.0)
    most_mib = held + 2 * (len(body or b"") // MIB) + 16
    return status, reply, late_s, max(0, target.memory_mib("VmHWM") - most_mib)


def fault_of(target, name, *request):
    """What is wrong with the answer to a request, or ""."""
    late, over = [], []
    for _ in range(TRIES):
        try:
            status, reply, late_s, over_mib = driven(target, *request)
        except (TimeoutError, OSError, http.client.HTTPException) as error:
            return f"{name}: {type(error).__name__}: {error}"
        if status == 500 or (status == 502 and b"was not found" not in reply):  # which E2B's clients take for its end
            return f"{name}: {status} {reply[:200]!r}"
        late.append(late_s)
        over.append(over_mib)
        if not min(late) and not min(over):
            return ""
    if min(late):
        return f"{name}: the loop was late each time, by more than {min(late)} s"
    return f"{name}: {min(over)} MiB more than twice the body and 16 MiB" if min(over) else ""


@pytest.mark.timeout(0 if IS_LONG else 1800)
def test_no_route_is_held_or_broken_by_any_value(tmp_path):
    options = [option for name in PROTOCOLS for option in ("--protocol", name)]
    with serving(tmp_path / "log", "--keys", tmp_path / "keys.db", *options) as server:
        target = Target(server)
        target.server.run("1")
        count, faults = 0, []
        for name, *request in requests(target):
            count += 1
            if count % 100 == 0:
                print(f"{count} requests", flush=True)
            if fault := fault_of(target, name, *request):
                print(fault, flush=True)
                faults.append(fault)
        log = server.stderr()

    print(f"{count} requests, {len(faults)} faults")
    assert faults == []
    assert "Traceback" not in log
