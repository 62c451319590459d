"""Heads of HTTP/1.1 messages: what the guest asks, and what is forwarded of it.

Strict where RFC 9112 lets a recipient choose, so that no server behind the proxy can see other
requests than the proxy saw. Nothing of a head is forwarded as bytes: it is parsed whole, and what
is sent on is written anew from the parts, with one Host, at most one Content-Length and no other
framing.

A request body needs a Content-Length. A chunked one is refused with 411: to know where it ends,
the proxy would have to parse the body too, and every parser of chunks has been fooled.

No I/O here, and nothing is raised but ProxyRefusal.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from typing import Final, NamedTuple, NoReturn

from groundbox.errors import InvalidArgument
from groundbox.limits import KiB
from groundbox.network import canonical_host, is_address_like
from groundbox.sandbox.egress.refusal import ProxyRefusal, Reason, printable

MAX_HEAD_BYTES: Final = 32 * KiB
MAX_FIELDS: Final = 100
MAX_RESPONSE_HEAD_BYTES: Final = 64 * KiB
_MAX_RESPONSE_FIELDS: Final = 250

_REQUEST_LINE: Final = re.compile(rb"([!-~]+) ([!-~]+) HTTP/1\.[01]")
_STATUS_LINE: Final = re.compile(rb"HTTP/1\.[01] ([2-5][0-9]{2}|1[0-9]{2})( [\t\x20-\x7e\x80-\xff]*)?")
_METHOD: Final = re.compile(r"[A-Z][A-Z-]{0,31}")
# Answered with the request itself, credential included.
_ECHOING_METHODS: Final = frozenset({"TRACE", "TRACK"})
# Matched against text whose length the guest chooses: none of these may backtrack.
_FIELD: Final = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):([\t\x20-\x7e\x80-\xff]*)")
_TARGET: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/?#]*)([^#]*)")
_PORT: Final = re.compile(r"[1-9][0-9]{0,4}")
_LENGTH: Final = re.compile(rb"[0-9]{1,15}")

_FRAMING: Final = frozenset({b"content-length", b"transfer-encoding", b"host"})
# RFC 9110, 7.6.1, and what older proxies used.
_HOP_BY_HOP: Final = frozenset({b"connection", b"keep-alive", b"te", b"trailer", b"upgrade"})


class Field(NamedTuple):
    """One header field, as bytes because HTTP has no encoding."""

    name: bytes
    value: bytes


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    """A request as the guest made it, reduced to what may be forwarded.

    Attributes:
        method: Upper case. `CONNECT` asks for a tunnel.
        host: Canonical.
        port: As in the URL, 80 if it has none.
        path: Path and query; empty for `CONNECT`.
        fields: End-to-end fields without Host and Content-Length, in order.
        content_length: Bytes of body that follow, None where the guest did not say (there are none).
        expects_continue: The guest waits for `100 Continue` before it sends the body.
    """

    method: str
    host: str
    port: int
    path: str
    fields: tuple[Field, ...]
    content_length: int | None
    expects_continue: bool


class Response(NamedTuple):
    """The head of a response.

    Attributes:
        status: The status code, 100 to 599.
        head: What the guest is sent of it.
        length: Bytes of body that follow, None where the end of the connection ends it, or chunks do.
    """

    status: int
    head: bytes
    length: int | None


def parse_request(head: bytes) -> Request:
    """The request of `head`, which ends with its empty line. Raises ProxyRefusal."""
    if len(head) > MAX_HEAD_BYTES:
        raise head_too_large()
    request_line, *lines = _lines(head)
    if not (match := _REQUEST_LINE.fullmatch(request_line)):
        _malformed("the request line must be METHOD URL HTTP/1.1")
    method, target = (part.decode("ascii") for part in match.groups())
    if method == "CONNECT":
        host, port = _parse_authority(target, default_port=None)
        path = ""
    else:
        host, port, path = _parse_url(target)
    if not _METHOD.fullmatch(method) or method in _ECHOING_METHODS:
        raise ProxyRefusal(
            Reason.METHOD,
            f"{host}:{port} is not sent the method {printable(method, 32)}",
            host=host,
            port=port,
        )
    return _with_fields(_parse_fields(lines, MAX_FIELDS), method, host, port, path)


def render_request(request: Request, *, port: int, tls: bool, added: Sequence[Field]) -> bytes:
    """The head to send to the host, in origin form. `added` replaces the guest's fields of those names."""
    authority = request.host if port == (443 if tls else 80) else f"{request.host}:{port}"
    replaced = {_folded(name) for name, _ in added}
    fields = [Field(b"Host", authority.encode("ascii"))]
    fields += [field for field in request.fields if _folded(field.name) not in replaced]
    fields += added
    if request.content_length is not None:
        fields.append(Field(b"Content-Length", b"%d" % request.content_length))
    fields.append(Field(b"Connection", b"close"))
    return _render(f"{request.method} {request.path} HTTP/1.1".encode("ascii"), fields)


def parse_response(head: bytes, *, method: str) -> Response:
    """The response to a request of `method`. Raises ProxyRefusal.

    Its fields are kept but for those between hops; the guest is told that the connection ends.
    """
    status_line, *lines = _lines(head)
    if not (match := _STATUS_LINE.fullmatch(status_line)):
        _malformed("the status line must be HTTP/1.1 STATUS")
    status = int(match[1])
    fields = _parse_fields(lines, _MAX_RESPONSE_FIELDS)
    length = _content_length(fields)
    kept = _end_to_end(fields)
    if _values(fields, b"transfer-encoding"):
        length = None
        kept = [field for field in kept if _folded(field.name) != b"content-length"]
    if method == "HEAD" or status in (204, 304):
        length = 0
    return Response(status, _render(status_line, [*kept, Field(b"Connection", b"close")]), length)


def head_too_large() -> ProxyRefusal:
    return ProxyRefusal(
        Reason.HEAD_TOO_LARGE,
        f"the request head is larger than {MAX_HEAD_BYTES} bytes or has more than {MAX_FIELDS} fields",
    )


def _with_fields(fields: list[Field], method: str, host: str, port: int, path: str) -> Request:
    if len(_values(fields, b"host")) > 1:
        _malformed("there is more than one Host")
    length = _content_length(fields)
    if _values(fields, b"transfer-encoding"):
        if length is not None:
            _malformed("there are both Content-Length and Transfer-Encoding")
        raise ProxyRefusal(
            Reason.LENGTH_REQUIRED,
            f"{host}:{port} was sent a chunked body; send it with Content-Length",
            host=host,
            port=port,
        )
    if method == "CONNECT" and length:
        _malformed("CONNECT has no body")
    dropped = {b"host", b"content-length", b"expect"}
    return Request(
        method=method,
        host=host,
        port=port,
        path=path,
        fields=tuple(field for field in _end_to_end(fields) if _folded(field.name) not in dropped),
        content_length=length,
        expects_continue=any(value.lower() == b"100-continue" for value in _values(fields, b"expect")),
    )


def _parse_url(target: str) -> tuple[str, int, str]:
    """Host, port and path of a URL in absolute form."""
    if target.startswith("/") or target == "*":
        raise ProxyRefusal(
            Reason.NOT_A_PROXY_REQUEST,
            "this is a proxy, not a web server: send absolute URLs (GET http://example.org/) or CONNECT",
        )
    match = _TARGET.fullmatch(target)
    if match is None:
        _malformed("the URL must be http://HOST/PATH without a fragment")
    scheme, authority, path = match.groups()
    if scheme.lower() != "http":
        _malformed(f"the proxy forwards http:// URLs and tunnels (CONNECT), not {printable(scheme, 32)}://")
    host, port = _parse_authority(authority, default_port=80)
    return host, port, path if path.startswith("/") else f"/{path}"


def _parse_authority(authority: str, *, default_port: int | None) -> tuple[str, int]:
    """Canonical host and port of `HOST[:PORT]`. No user, no percent-encoding, no address."""
    if "@" in authority:  # a password may stand there too: say and keep nothing of it
        raise ProxyRefusal(Reason.BAD_HOST, "the URL holds a user name; send an Authorization header instead")
    host, colon, digits = authority.partition(":")
    port = _parse_port(digits) if colon else default_port
    if is_address_like(authority.lower()):
        host, port = authority, None
    if is_address_like(host.lower().removesuffix(".")):
        raise ProxyRefusal(
            Reason.ADDRESS,
            f"{printable(host, 253)} is an address; name the host instead, as in "
            'Network(allow=["example.org"]) or --allow-host example.org',
            host=host,
            port=port or 0,
        )
    try:
        name = canonical_host("host", host)
    except InvalidArgument as error:
        raise ProxyRefusal(Reason.BAD_HOST, error.problem, host=host, port=port or 0) from None
    if port is None:
        raise ProxyRefusal(Reason.BAD_HOST, f"{name} needs a port from 1 to 65535", host=name)
    return name, port


def _parse_port(digits: str) -> int | None:
    return int(digits) if _PORT.fullmatch(digits) and int(digits) < 65536 else None


def _lines(head: bytes) -> list[bytes]:
    """The start line and the field lines, which hold no line break of any kind."""
    if not head.endswith(b"\r\n\r\n"):
        _malformed("the head does not end with an empty line")
    lines = head[:-4].split(b"\r\n")
    if any(character in line for line in lines for character in (b"\r", b"\n", b"\0")):
        _malformed("the head holds a NUL byte, or a CR or LF on its own")
    return lines


def _parse_fields(lines: list[bytes], max_count: int) -> list[Field]:
    if len(lines) > max_count:
        raise head_too_large()
    fields: list[Field] = []
    for line in lines:
        match = _FIELD.fullmatch(line)
        if match is None:
            _malformed("a header line must be NAME: VALUE, on one line and without a space before the colon")
        field = Field(match[1], match[2].strip(b"\t "))
        if b"_" in field.name and _folded(field.name) in _FRAMING:
            _malformed("some servers take Content_Length for Content-Length")
        fields.append(field)
    return fields


def _content_length(fields: list[Field]) -> int | None:
    values = _values(fields, b"content-length")
    if not values:
        return None
    if len(values) > 1 or not _LENGTH.fullmatch(values[0]):
        _malformed("Content-Length must be one decimal number")
    return int(values[0])


def _end_to_end(fields: list[Field]) -> list[Field]:
    """Without the fields that concern one hop, such as those that Connection names."""
    nominated = {
        _folded(token.strip()) for value in _values(fields, b"connection") for token in value.split(b",")
    } - _FRAMING
    hop_by_hop = _HOP_BY_HOP | nominated
    return [
        field for field in fields if (name := _folded(field.name)) not in hop_by_hop and not name.startswith(b"proxy-")
    ]


def _values(fields: list[Field], name: bytes) -> list[bytes]:
    return [field.value for field in fields if field.name.lower() == name]


def _folded(name: bytes) -> bytes:
    """As servers that hand headers on as environment variables (CGI, WSGI) see the name."""
    return name.lower().replace(b"_", b"-")


def _render(start_line: bytes, fields: Sequence[Field]) -> bytes:
    return b"\r\n".join([start_line, *(b"%s: %s" % field for field in fields), b"", b""])


def _malformed(problem: str) -> NoReturn:
    raise ProxyRefusal(Reason.BAD_REQUEST, problem)
