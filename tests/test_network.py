"""What a guest may reach, as a value."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping

import pytest

from groundbox.errors import InvalidArgument
from groundbox.network import Network, canonical_host, is_address_like, split_host_port
from groundbox.sandbox.egress.addresses import permits


@pytest.mark.parametrize(
    ("host", "canonical"),
    [
        ("example.org", "example.org"),
        ("EXAMPLE.Org", "example.org"),
        ("example.org.", "example.org"),
        ("localhost", "localhost"),
        ("_service.a-b.example", "_service.a-b.example"),
        ("bücher.example", "xn--bcher-kva.example"),
        ("ｅxample。org", "example.org"),
        ("a" * 63 + ".example", "a" * 63 + ".example"),
        ("a." * 126 + "a", "a." * 126 + "a"),
        ("1.example", "1.example"),
        ("0x1.example", "0x1.example"),
    ],
)
def test_a_host_has_one_spelling(host: str, canonical: str) -> None:
    assert canonical_host("allow", host) == canonical
    assert canonical_host("allow", canonical) == canonical


@pytest.mark.parametrize(
    "host",
    ["", ".", "..", "example.org..", "a..b", ".a", "-a", "a-", "*.example.org", "a b", "a\0.example.org",
     "a\n", "a%2eb", "user@example.org", "https://example.org", "example.org/x", "example.org:80", "a" * 64,
     "a." * 126 + "ab", "é" * 200, "a\\b", "a,b"],
)  # fmt: skip
def test_what_is_no_host_name_is_refused(host: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        canonical_host("allow", host)

    assert str(caught.value) == f"allow: {host!r} is not a host name such as 'example.org'"


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "127.0.0.1.", "127.1", "1", "2130706433", "0177.0.0.1", "0x7f.1", "a.0X7F", "0x",
     "１２７.0.0.1", "::1", "[::1]", "fe80::1%eth0", "::ffff:127.0.0.1"],
)  # fmt: skip
def test_an_address_is_refused_however_it_is_written(host: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        canonical_host("allow", host)

    assert str(caught.value) == f"allow: {host!r} is an address; name the host instead"


@pytest.mark.parametrize("host", ["straße.example", "STRAẞE.example", "ς.example", "a\u200db.example"])
def test_a_name_that_two_standards_read_as_two_hosts_is_refused(host: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        canonical_host("allow", host)

    assert str(caught.value) == f"allow: {host!r} is two hosts; write the one you mean as 'xn--…'"


def test_a_host_that_is_no_text_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="^allow: 5 is not a host name such as 'example.org'$"):
        canonical_host("allow", 5)  # type: ignore[arg-type]


@pytest.mark.parametrize(("host", "like"), [("a:b", False), ("a:1:b", True), ("a.1", True), ("1.a", False)])
def test_the_last_label_or_two_colons_make_an_address(host: str, like: bool) -> None:
    assert is_address_like(host) is like


def test_a_host_without_a_port_means_http_and_https() -> None:
    assert split_host_port("allow", "Example.org") == ("example.org", (80, 443))
    assert split_host_port("allow", "example.org:8443") == ("example.org", (8443,))
    assert split_host_port("allow", "example.org.:65535") == ("example.org", (65535,))


@pytest.mark.parametrize("port", ["", "0", "65536", "-1", "+1", " 80", "80:80", "http", "８０", "9" * 5000])
def test_a_port_that_is_none_is_refused(port: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        split_host_port("allow", f"example.org:{port}")

    assert str(caught.value) == f"allow: {f'example.org:{port}'!r} must be HOST or HOST:PORT"


def test_the_default_is_no_network() -> None:
    assert Network().off
    assert not Network(loopback=True).off
    assert not Network(allow=["example.org"]).off


def test_one_host_in_place_of_a_list_is_refused() -> None:
    with pytest.raises(InvalidArgument) as caught:
        Network(allow="example.org")

    assert str(caught.value) == "allow: must be a list of hosts, such as ['example.org']"


@pytest.mark.parametrize(
    ("headers", "problem"),
    [
        ({"b.example": {"X": "y"}}, "'b.example' must also be in allow"),
        ({"a.example": {"X": "y"}, "A.example.": {"X": "z"}}, "'a.example' is named twice"),
        ({"a.example": "X: y"}, "'a.example' must have a mapping of header names to values"),
        ({"a.example": {"": "y"}}, "'' is no header name"),
        ({"a.example": {"X Y": "y"}}, "'X Y' is no header name"),
        ({"a.example": {"X:": "y"}}, "'X:' is no header name"),
        ({"a.example": {"É": "y"}}, "'É' is no header name"),
        ({"a.example": {"host": "y"}}, "host is set by the proxy itself"),
        ({"a.example": {"Content-Length": "5"}}, "Content-Length is set by the proxy itself"),
        ({"a.example": {"Transfer-Encoding": "chunked"}}, "Transfer-Encoding is set by the proxy itself"),
        ({"a.example": {"Proxy-Authorization": "y"}}, "Proxy-Authorization is set by the proxy itself"),
        ({"a.example": {"X": "s3cret\r\nY: z"}}, "the value of X holds a line break"),
        ({"a.example": {"X": "s3cret\0"}}, "the value of X holds a line break"),
        ({"a.example": {"X": "s3cret\x1b"}}, "the value of X is not text in Latin-1"),
        ({"a.example": {"X": "s3cret€"}}, "the value of X is not text in Latin-1"),
        ({"a.example": {"X": b"s3cret"}}, "the value of X is not text in Latin-1"),
    ],
)
def test_headers_that_cannot_be_sent_are_refused_without_showing_them(
    headers: Mapping[str, Mapping[str, str]], problem: str
) -> None:
    with pytest.raises(InvalidArgument) as caught:
        Network(allow=["a.example"], headers=headers)

    assert str(caught.value) == f"headers: {problem}"


def test_repr_hides_the_values_of_headers() -> None:
    network = Network(allow=["a.example"], headers={"a.example": {"X-Key": "s3cret"}})

    assert repr(network) == ("Network(allow=['a.example'], loopback=False, headers={'a.example': {'X-Key': '***'}})")


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ("everything", "'everything' is not a range such as '10.1.0.0/16'"),
        ("10.1.0.1/16", "'10.1.0.1/16' is not a range such as '10.1.0.0/16'"),
        ("127.0.0.0/8", "'127.0.0.0/8' is never allowed: it reaches the host itself"),
        ("169.254.0.0/16", "'169.254.0.0/16' is never allowed: it reaches the host itself"),
    ],
)
def test_a_private_range_must_be_one_that_can_be_meant(entry, problem):
    with pytest.raises(InvalidArgument) as caught:
        Network(allow=["example.org"], private_ranges=[entry])

    assert str(caught.value) == f"private_ranges: {problem}"


def test_a_named_private_range_is_permitted_and_no_other():
    permitted = permits(Network(allow=["example.org"], private_ranges=["10.1.0.0/16"]))

    judged = {a: permitted(ipaddress.ip_address(a)) for a in ("10.1.2.3", "10.2.0.1", "127.0.0.1", "169.254.169.254")}

    assert judged == {"10.1.2.3": True, "10.2.0.1": False, "127.0.0.1": False, "169.254.169.254": False}
