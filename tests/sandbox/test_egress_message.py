"""The parser of request and response heads, without any connection."""

from __future__ import annotations

import contextlib
import http.server
import io
import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from groundbox.sandbox.egress.message import (
    MAX_FIELDS,
    MAX_HEAD_BYTES,
    Field,
    Request,
    Response,
    parse_request,
    parse_response,
    render_request,
)
from groundbox.sandbox.egress.refusal import ProxyRefusal

SECRET = Field(b"Authorization", b"Bearer s3cret")


def _refused(head: bytes) -> tuple[str, int, str, str, int]:
    with pytest.raises(ProxyRefusal) as caught:
        parse_request(head)
    refusal = caught.value
    return refusal.reason.code, refusal.reason.status, refusal.explanation, refusal.host, refusal.port


def test_a_request_is_reduced_to_what_may_be_forwarded() -> None:
    head = (
        b"POST http://Example.ORG.:8080/a/b?c=d&e=%20 HTTP/1.1\r\n"
        b"Host: somewhere.else\r\n"
        b"Accept:*/*\r\n"
        b"X-Empty:\r\n"
        b"X-Latin: \xe9t\xe9 \t\r\n"
        b"Content-Length: 5\r\n"
        b"Connection: close, X-Hop\r\n"
        b"X-Hop: 1\r\n"
        b"Keep-Alive: timeout=5\r\n"
        b"Proxy-Connection: keep-alive\r\n"
        b"Proxy-Authorization: Basic Zm9v\r\n"
        b"TE: trailers\r\n"
        b"Trailer: X\r\n"
        b"Upgrade: websocket\r\n"
        b"Expect: 100-continue\r\n"
        b"\r\n"
    )

    request = parse_request(head)

    assert request == Request(
        method="POST",
        host="example.org",
        port=8080,
        path="/a/b?c=d&e=%20",
        fields=(Field(b"Accept", b"*/*"), Field(b"X-Empty", b""), Field(b"X-Latin", b"\xe9t\xe9")),
        content_length=5,
        expects_continue=True,
    )
    assert render_request(request, port=8080, tls=False, added=()) == (
        b"POST /a/b?c=d&e=%20 HTTP/1.1\r\n"
        b"Host: example.org:8080\r\n"
        b"Accept: */*\r\n"
        b"X-Empty: \r\n"
        b"X-Latin: \xe9t\xe9\r\n"
        b"Content-Length: 5\r\n"
        b"Connection: close\r\n"
        b"\r\n"
    )


@pytest.mark.parametrize(
    ("target", "port", "tls", "line_and_host"),
    [
        (b"http://example.org", 80, False, b"GET / HTTP/1.1\r\nHost: example.org\r\n"),
        (b"HTTP://example.org?q", 80, False, b"GET /?q HTTP/1.1\r\nHost: example.org\r\n"),
        (b"http://example.org:443/", 443, False, b"GET / HTTP/1.1\r\nHost: example.org:443\r\n"),
        (b"http://example.org/", 443, True, b"GET / HTTP/1.1\r\nHost: example.org\r\n"),
        (b"http://example.org:8443/", 8443, True, b"GET / HTTP/1.1\r\nHost: example.org:8443\r\n"),
        (b"http://example.org//x/../y", 80, False, b"GET //x/../y HTTP/1.1\r\nHost: example.org\r\n"),
    ],
)
def test_the_url_becomes_a_path_and_a_host(target: bytes, port: int, tls: bool, line_and_host: bytes) -> None:
    request = parse_request(b"GET " + target + b" HTTP/1.1\r\n\r\n")

    rendered = render_request(request, port=port, tls=tls, added=())

    assert rendered == line_and_host + b"Connection: close\r\n\r\n"


@pytest.mark.parametrize("name", [b"authorization", b"AUTHORIZATION", b"Authorization"])
def test_a_credential_replaces_what_the_guest_sends_under_its_name(name: bytes) -> None:
    request = parse_request(b"GET http://a.example/ HTTP/1.1\r\n" + name + b": mine\r\nX: y\r\n\r\n")

    rendered = render_request(request, port=443, tls=True, added=[SECRET])

    assert rendered == (
        b"GET / HTTP/1.1\r\nHost: a.example\r\nX: y\r\nAuthorization: Bearer s3cret\r\nConnection: close\r\n\r\n"
    )


def test_a_credential_replaces_the_name_that_a_cgi_server_takes_for_the_same() -> None:
    request = parse_request(b"GET http://a.example/ HTTP/1.1\r\nX_Api_Key: mine\r\n\r\n")

    rendered = render_request(request, port=443, tls=True, added=[Field(b"X-Api-Key", b"s3cret")])

    assert b"mine" not in rendered


def test_the_guest_cannot_have_a_credential_removed_as_hop_by_hop() -> None:
    request = parse_request(b"GET http://a.example/ HTTP/1.1\r\nConnection: authorization, host\r\n\r\n")

    rendered = render_request(request, port=443, tls=True, added=[SECRET])

    assert rendered == (
        b"GET / HTTP/1.1\r\nHost: a.example\r\nAuthorization: Bearer s3cret\r\nConnection: close\r\n\r\n"
    )


GET = b"GET http://example.org/ HTTP/1.1\r\n"
LINE = "the request line must be METHOD URL HTTP/1.1"
BREAKS = "the head holds a NUL byte, or a CR or LF on its own"
FIELD = "a header line must be NAME: VALUE, on one line and without a space before the colon"
LENGTH = "Content-Length must be one decimal number"
ORIGIN = "this is a proxy, not a web server: send absolute URLs (GET http://example.org/) or CONNECT"
URL = "the URL must be http://HOST/PATH without a fragment"
UNDERSCORE = "some servers take Content_Length for Content-Length"
USER = "the URL holds a user name; send an Authorization header instead"


@pytest.mark.parametrize(
    ("head", "code", "status", "explanation"),
    [
        (b"\r\n\r\n", "bad-request", 400, LINE),
        (b"GET\r\n\r\n", "bad-request", 400, LINE),
        (b"\r\n" + GET + b"\r\n", "bad-request", 400, LINE),
        (b"GET  http://example.org/ HTTP/1.1\r\n\r\n", "bad-request", 400, LINE),
        (b"GET http://example.org/ HTTP/1.1 \r\n\r\n", "bad-request", 400, LINE),
        (b"GET http://example.org/a b HTTP/1.1\r\n\r\n", "bad-request", 400, LINE),
        (b"GET http://example.org/\xe9 HTTP/1.1\r\n\r\n", "bad-request", 400, LINE),
        (b"GET http://example.org/ HTTP/2.0\r\n\r\n", "bad-request", 400, LINE),
        (b"GET http://example.org/ http/1.1\r\n\r\n", "bad-request", 400, LINE),
        (b"GET http://example.org/\r\n\r\n", "bad-request", 400, LINE),
        (b"PRI * HTTP/2.0\r\n\r\n", "bad-request", 400, LINE),
        (b"\x05\x01\x00\r\n\r\n", "bad-request", 400, BREAKS),
        (GET + b"A: \0\r\n\r\n", "bad-request", 400, BREAKS),
        (b"CONNECT evil.test\0.example.org:443 HTTP/1.1\r\n\r\n", "bad-request", 400, BREAKS),
        (GET + b"A: b\nC: d\r\n\r\n", "bad-request", 400, BREAKS),
        (GET + b"A: b\rC: d\r\n\r\n", "bad-request", 400, BREAKS),
        (GET + b"A: b\r\r\n\r\n", "bad-request", 400, BREAKS),
        (GET + b"A: b\r\n C: d\r\n\r\n", "bad-request", 400, FIELD),
        (GET + b"A: b\r\n\tC: d\r\n\r\n", "bad-request", 400, FIELD),
        (GET + b"A : b\r\n\r\n", "bad-request", 400, FIELD),
        (GET + b" A: b\r\n\r\n", "bad-request", 400, FIELD),
        (GET + b": b\r\n\r\n", "bad-request", 400, FIELD),
        (GET + b"A\r\n\r\n", "bad-request", 400, FIELD),
        (GET + b"A(: b\r\n\r\n", "bad-request", 400, FIELD),
        (GET + b"\xc3\xa9: b\r\n\r\n", "bad-request", 400, FIELD),
        (GET + b"A: \x7f\r\n\r\n", "bad-request", 400, FIELD),
        (GET + b"A: \x0b\r\n\r\n", "bad-request", 400, FIELD),
        (GET + b"Host: a\r\nHost: a\r\n\r\n", "bad-request", 400, "there is more than one Host"),
        (GET + b"Content-Length: 1\r\nContent-Length: 1\r\n\r\n", "bad-request", 400, LENGTH),
        (GET + b"Content-Length: 1, 1\r\n\r\n", "bad-request", 400, LENGTH),
        (GET + b"Content-Length: +1\r\n\r\n", "bad-request", 400, LENGTH),
        (GET + b"Content-Length: -1\r\n\r\n", "bad-request", 400, LENGTH),
        (GET + b"Content-Length: 0x1\r\n\r\n", "bad-request", 400, LENGTH),
        (GET + b"Content-Length: 1_0\r\n\r\n", "bad-request", 400, LENGTH),
        (GET + b"Content-Length: \xb2\r\n\r\n", "bad-request", 400, LENGTH),
        (GET + b"Content-Length:\r\n\r\n", "bad-request", 400, LENGTH),
        (GET + b"Content-Length: 9999999999999999\r\n\r\n", "bad-request", 400, LENGTH),
        (GET + b"Content_Length: 1\r\n\r\n", "bad-request", 400, UNDERSCORE),
        (GET + b"Transfer_Encoding: chunked\r\n\r\n", "bad-request", 400, UNDERSCORE),
        (
            GET + b"Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
            "bad-request",
            400,
            "there are both Content-Length and Transfer-Encoding",
        ),
        (
            b"CONNECT example.org:443 HTTP/1.1\r\nContent-Length: 1\r\n\r\n",
            "bad-request",
            400,
            "CONNECT has no body",
        ),
        (b"GET / HTTP/1.1\r\nHost: example.org\r\n\r\n", "not-a-proxy-request", 400, ORIGIN),
        (b"OPTIONS * HTTP/1.1\r\n\r\n", "not-a-proxy-request", 400, ORIGIN),
        (b"GET //example.org/ HTTP/1.1\r\n\r\n", "not-a-proxy-request", 400, ORIGIN),
        (b"GET example.org:80 HTTP/1.1\r\n\r\n", "bad-request", 400, URL),
        (b"GET http:/example.org/ HTTP/1.1\r\n\r\n", "bad-request", 400, URL),
        (b"GET http://example.org/#x HTTP/1.1\r\n\r\n", "bad-request", 400, URL),
        (
            b"GET https://example.org/ HTTP/1.1\r\n\r\n",
            "bad-request",
            400,
            "the proxy forwards http:// URLs and tunnels (CONNECT), not https://",
        ),
        (b"GET http://user:pw@example.org/ HTTP/1.1\r\n\r\n", "bad-host", 400, USER),
        (b"CONNECT example.org:443@evil.test:443 HTTP/1.1\r\n\r\n", "bad-host", 400, USER),
        (b"CONNECT user@example.org:443 HTTP/1.1\r\n\r\n", "bad-host", 400, USER),
    ],
)
def test_what_can_be_read_in_two_ways_is_refused(head: bytes, code: str, status: int, explanation: str) -> None:
    assert _refused(head) == (code, status, explanation, "", 0)


@pytest.mark.parametrize("method", [b"TRACE", b"TRACK", b"get", b"G3T", b"G*", b"A" * 33])
def test_methods_that_echo_credentials_or_are_misspelt_are_refused(method: bytes) -> None:
    said = method.decode() if len(method) < 33 else "A" * 32 + "... (1 more)"

    refusal = _refused(method + b" http://example.org/ HTTP/1.1\r\n\r\n")

    assert refusal == ("method", 405, f"example.org:80 is not sent the method {said}", "example.org", 80)


def test_a_chunked_body_is_refused_with_what_to_do_instead() -> None:
    refusal = _refused(b"POST http://example.org/ HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n")

    explanation = "example.org:80 was sent a chunked body; send it with Content-Length"
    assert refusal == ("length-required", 411, explanation, "example.org", 80)


@pytest.mark.parametrize(
    ("host", "port"),
    [
        ("127.0.0.1", 443),
        ("127.0.0.1.", 443),
        ("127.1", 443),
        ("2130706433", 443),
        ("0x7f000001", 443),
        ("0X7F.1", 443),
        ("0177.0.0.1", 443),
        ("127.0.0.0x", 443),
        ("169.254.169.254", 443),
        ("8.8.8.8", 443),
        ("[::1]:443", 0),
        ("[::ffff:127.0.0.1]:443", 0),
        ("[fe80::1%25eth0]:443", 0),
        ("::1:443", 0),
        ("[example.org]:443", 0),
    ],
)
def test_addresses_are_refused_however_they_are_written(host: str, port: int) -> None:
    authority = f"{host}:{port}" if port else host

    refusal = _refused(f"CONNECT {authority} HTTP/1.1\r\n\r\n".encode())

    advice = 'name the host instead, as in Network(allow=["example.org"]) or --allow-host example.org'
    assert refusal == ("address", 403, f"{host} is an address; {advice}", host, port)


@pytest.mark.parametrize(
    "host",
    [
        "",
        ".",
        "example..org",
        "example.org..",
        "-a.org",
        "*.org",
        "example%2eorg",
        "a" * 64,
        "a." * 127 + "b",
        "a,b",
        "a\\b",
    ],
)
def test_what_is_no_host_name_is_refused(host: str) -> None:
    refusal = _refused(f"CONNECT {host}:443 HTTP/1.1\r\n\r\n".encode())

    explanation = f"{host!r} is not a host name such as 'example.org'"
    assert refusal == (
        "bad-host",
        400,
        explanation,
        host if len(host) < 254 else host[:253] + "... (2 more)",
        443,
    )


@pytest.mark.parametrize("port", ["", ":", ":0", ":65536", ":080", ":+80", ":80:80", ":8 0", ":99999999999", ":８０"])
def test_a_tunnel_needs_a_port_in_decimal(port: str) -> None:
    reason, status, *_ = _refused(f"CONNECT example.org{port} HTTP/1.1\r\n\r\n".encode())

    assert (reason, status) in {("bad-host", 400), ("bad-request", 400)}


def test_a_head_may_have_the_limit_and_not_one_byte_more() -> None:
    frame = len(GET) + len(b"A: \r\n\r\n")
    largest = GET + b"A: " + b"x" * (MAX_HEAD_BYTES - frame) + b"\r\n\r\n"

    assert len(parse_request(largest).fields[0].value) == MAX_HEAD_BYTES - frame
    assert _refused(largest.replace(b"A: ", b"AA: ")) == (
        "head-too-large",
        431,
        "the request head is larger than 32768 bytes or has more than 100 fields",
        "",
        0,
    )


def test_a_head_may_have_as_many_fields_as_the_limit_and_not_one_more() -> None:
    most = GET + b"A: b\r\n" * MAX_FIELDS

    assert len(parse_request(most + b"\r\n").fields) == MAX_FIELDS
    assert _refused(most + b"A: b\r\n\r\n")[:2] == ("head-too-large", 431)


@pytest.mark.parametrize(
    "head",
    [
        GET + b"A: " + b" " * 32000 + b"\x01\r\n\r\n",
        GET + b"A" * 32000 + b"\r\n\r\n",
        GET + b"Connection: " + b"," * 32000 + b"\r\n\r\n",
        b"GET http://" + b"0" * 32000 + b"/ HTTP/1.1\r\n\r\n",
        b"GET http://" + b"a:" * 16000 + b"/ HTTP/1.1\r\n\r\n",
        b"GET http://" + b"a." * 16000 + b"/ HTTP/1.1\r\n\r\n",
        b"CONNECT " + b"[" * 32000 + b" HTTP/1.1\r\n\r\n",
        b"A" * 32000 + b"\r\n\r\n",
    ],
)
def test_the_largest_heads_are_judged_in_no_time(head: bytes) -> None:
    started = time.process_time()

    with contextlib.suppress(ProxyRefusal):
        parse_request(head)

    assert time.process_time() - started < 0.1


_PIECES = st.sampled_from(
    [
        b"GET ", b"POST ", b"CONNECT ", b"http://", b"https://", b"example.org", b"EXAMPLE.org.", b":80",
        b":443", b"127.0.0.1", b"[::1]", b"/", b"?q", b"#", b"@", b"%2e", b" HTTP/1.1", b" HTTP/1.0",
        b"\r\n", b"\r\n", b"\r\n\r\n", b"\r", b"\n", b"\0", b" ", b"\t", b":", b"_", b"Host: a", b"0",
        b"Content-Length: 5",
        b"Content_Length: 5", b"Transfer-Encoding: chunked", b"Connection: x, content-length",
        b"Expect: 100-continue", b"X: y", b"\x80", b"\xff", b"a", b",",
    ]
)  # fmt: skip
_VALUES = st.binary(max_size=12) | st.sampled_from([b"5", b"chunked", b"close, x", b"example.org", b"a\tb "])
_NAMES = st.sampled_from(
    [
        b"Host",
        b"X",
        b"x_y",
        b"Content-Length",
        b"Connection",
        b"Transfer-Encoding",
        b"TE",
        b"Cookie",
        b"Proxy-X",
    ]
)
_LIKELY = st.builds(
    lambda method, url, version, fields: b"".join(
        [method, b" ", url, b" ", version, b"\r\n", *(b"%s: %s\r\n" % field for field in fields), b"\r\n"]
    ),
    st.sampled_from([b"GET", b"POST", b"CONNECT", b"OPTIONS", b"M-SEARCH"]),
    st.sampled_from([b"http://example.org", b"http://a.b:81/x?y", b"example.org:443", b"http://a//", b"http://a?"]),
    st.sampled_from([b"HTTP/1.1", b"HTTP/1.0"]),
    st.lists(st.tuples(_NAMES, _VALUES), max_size=6),
)
_HEADS = st.binary(max_size=200) | st.lists(_PIECES, max_size=20).map(b"".join) | _LIKELY


class _Recorder(http.server.BaseHTTPRequestHandler):
    """The standard library's server as a second opinion on where a request ends."""

    protocol_version = "HTTP/1.1"

    def __init__(self, stream: bytes) -> None:
        self.rfile = io.BytesIO(stream)
        self.wfile = io.BytesIO()
        self.requestline = ""
        self.client_address = ("guest", 0)
        self.seen: list[tuple[str, str, list[tuple[str, str]]]] = []
        self.close_connection = True
        self.handle_one_request()

    def __getattr__(self, name: str) -> object:
        if name.startswith("do_"):
            return lambda: self.seen.append((self.command, self.path, self.headers.items()))
        raise AttributeError(name)


@given(_HEADS)
@example(GET + b"X: \x80\x85\r\n\r\n")
def test_any_bytes_are_a_request_or_a_refusal(head: bytes) -> None:
    try:
        request = parse_request(head)
    except ProxyRefusal as refusal:
        said = refusal.explanation + refusal.host
        answer = refusal.response()
    else:
        said = request.method + request.host + request.path
        answer = b"\r\n\r\n"

    assert said.isascii()
    assert said.isprintable()
    assert answer.count(b"\r\n\r\n") == 1


@given(_HEADS, st.booleans())
def test_what_is_accepted_is_forwarded_as_exactly_one_request(head: bytes, tls: bool) -> None:
    try:
        request = parse_request(head)
    except ProxyRefusal:
        return
    if request.method == "CONNECT":
        return

    rendered = render_request(request, port=request.port, tls=tls, added=[SECRET] if tls else [])

    assert rendered.endswith(b"\r\n\r\n")
    assert rendered.count(b"\r\n\r\n") == 1
    lines = rendered[:-4].split(b"\r\n")
    assert not any(byte in line for line in lines for byte in b"\r\n\0")
    names = [line.partition(b":")[0].lower() for line in lines[1:]]
    assert names.count(b"host") == names.count(b"connection") == 1
    assert names.count(b"content-length") == (request.content_length is not None)
    assert b"transfer-encoding" not in names
    body = b"b" * min(request.content_length or 0, 10_000)
    recorder = _Recorder(rendered + body)
    assert [(method, path.lstrip("/")) for method, path, _ in recorder.seen] == [
        (request.method, request.path.lstrip("/"))
    ]
    assert recorder.rfile.read() == body


@given(_HEADS)
def test_reading_what_was_forwarded_gives_the_same_request(head: bytes) -> None:
    try:
        request = parse_request(head)
    except ProxyRefusal:
        return
    if request.method == "CONNECT":
        return
    url = f"http://{request.host}:{request.port}{request.path}".encode()

    rendered = render_request(request, port=request.port, tls=False, added=())
    again = parse_request(rendered.replace(b" /", b" " + url[: len(url) - len(request.path)] + b"/", 1))

    assert (again.method, again.host, again.port, again.path, again.fields, again.content_length) == (
        request.method,
        request.host,
        request.port,
        request.path,
        request.fields,
        request.content_length,
    )


def test_a_response_keeps_its_fields_but_for_those_between_hops() -> None:
    head = (
        b"HTTP/1.1 200 Tr\xe8s bien\r\nContent-Type: text/plain\r\nSet-Cookie: a=b\r\nSet-Cookie: c=d\r\n"
        b"Connection: X-Hop, Content-Length\r\nX-Hop: 1\r\nKeep-Alive: 5\r\nProxy-Authenticate: Basic\r\n"
        b"Upgrade: h2c\r\nContent-Length: 5\r\n\r\n"
    )

    response = parse_response(head, method="GET")

    assert response == Response(
        200,
        b"HTTP/1.1 200 Tr\xe8s bien\r\nContent-Type: text/plain\r\nSet-Cookie: a=b\r\nSet-Cookie: c=d\r\n"
        b"Content-Length: 5\r\nConnection: close\r\n\r\n",
        5,
    )


@pytest.mark.parametrize(
    ("head", "method", "length"),
    [
        (b"HTTP/1.1 200 OK\r\n\r\n", "GET", None),
        (b"HTTP/1.0 200\r\n\r\n", "GET", None),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n", "GET", 7),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n", "HEAD", 0),
        (b"HTTP/1.1 304 Not Modified\r\nContent-Length: 7\r\n\r\n", "GET", 0),
        (b"HTTP/1.1 204 No Content\r\n\r\n", "GET", 0),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 7\r\n\r\n", "GET", None),
    ],
)
def test_the_length_of_a_response_follows_from_its_head(head: bytes, method: str, length: int | None) -> None:
    assert parse_response(head, method=method).length == length


def test_a_response_with_two_framings_keeps_the_one_that_counts() -> None:
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 7\r\n\r\n"

    response = parse_response(head, method="GET")

    assert response.head == b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"


@given(st.binary(max_size=100).map(lambda tail: b"HTTP/1.1 200 OK\r\n" + tail + b"\r\n\r\n") | _HEADS)
def test_any_bytes_are_a_response_or_a_refusal(head: bytes) -> None:
    try:
        response = parse_response(head, method="GET")
    except ProxyRefusal:
        return

    assert response.head.count(b"\r\n\r\n") == 1
    assert 100 <= response.status <= 599
