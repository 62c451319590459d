"""What a sandbox may reach on the network. By default: nothing, not even its own loopback."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from groundbox.errors import InvalidArgument
from groundbox.suggestions import named_only

if TYPE_CHECKING:
    import ipaddress

_LABEL: Final = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?", re.ASCII)
# What inet_aton(3) reads as a number; a name that ends so is an IPv4 address to some resolver.
_NUMBER: Final = re.compile(r"[0-9]+|0x[0-9a-f]*", re.ASCII)
_IPV6: Final = re.compile(r"\[.*|[0-9a-f]*:[0-9a-f]*:[0-9a-f:.]*(%.*)?", re.ASCII | re.DOTALL)
# IDNA 2003 (Python's codec) and IDNA 2008 (registries) make different hosts of names with these.
_AMBIGUOUS: Final = re.compile("[\u00df\u1e9e\u03c2\u200c\u200d]")
_HEADER_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", re.ASCII)
_HEADER_VALUE: Final = re.compile(r"[\t\x20-\x7e\x80-\xff]*")
_LISTS: Final = {"allow": ("hosts", "example.org"), "private_ranges": ("ranges", "10.1.0.0/16")}
# These say where a message goes and where it ends, which is the proxy's to say.
_PROXY_HEADERS: Final = frozenset(
    {"connection", "content-length", "expect", "host", "te", "trailer", "transfer-encoding", "upgrade"}
)


@named_only
@dataclasses.dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class Network:
    """What the guest may reach.

    An empty `allow` means no host at all. Hosts match exactly: no wildcard, no subdomain.

    Attributes:
        allow: Host names, each with an optional port (`example.org`, `example.org:8443`).
            Without a port, 80 and 443 are meant.
        loopback: Whether the guest has a loopback of its own (never the host's),
            on which its processes can talk to each other. Implied by `allow`.
        headers: Host name to headers that the proxy adds on the way out, so that the guest
            never holds the credential. The guest uses `http://HOST/…`; the proxy speaks HTTPS
            to that host. Hosts named here must be in `allow`. A host that repeats in its answer
            what it was sent tells the guest the credential. `repr` hides the values.
        private_ranges: Address ranges (`10.1.0.0/16`) that allowed names may resolve to although they are not
            public: services of your own network. Loopback and link-local addresses are refused even so.
    """

    allow: Sequence[str] = ()
    loopback: bool = False
    headers: Mapping[str, Mapping[str, str]] = dataclasses.field(default_factory=dict)
    private_ranges: Sequence[str] = ()

    def __post_init__(self) -> None:
        for name, (kind, example) in _LISTS.items():
            given = getattr(self, name)
            if isinstance(given, str):
                raise InvalidArgument(name, f"must be a list of {kind}, such as [{given!r}]")
            if not isinstance(given, Iterable):
                raise InvalidArgument(name, f"must be a list of {kind}, such as [{example!r}]")
        if not isinstance(self.loopback, bool):
            raise InvalidArgument("loopback", f"must be True or False, not {self.loopback!r}")
        if not isinstance(self.headers, Mapping):
            raise InvalidArgument("headers", "must map hosts to their headers, such as {'example.org': {'X-Key': '…'}}")
        allowed = {split_host_port("allow", entry)[0] for entry in self.allow}
        for entry in self.private_ranges:
            private_range(entry)
        seen: set[str] = set()
        for host, headers in self.headers.items():
            name = canonical_host("headers", host)
            if name not in allowed:
                raise InvalidArgument("headers", f"{host!r} must also be in allow")
            if name in seen:
                raise InvalidArgument("headers", f"{name!r} is named twice")
            seen.add(name)
            _check_headers(host, headers)

    def __repr__(self) -> str:
        hidden = {host: dict.fromkeys(headers, "***") for host, headers in self.headers.items()}
        ranges = f", private_ranges={self.private_ranges!r}" if self.private_ranges else ""
        return f"Network(allow={self.allow!r}, loopback={self.loopback!r}, headers={hidden!r}{ranges})"

    @property
    def off(self) -> bool:
        """Whether the guest gets no network at all."""
        return not self.allow and not self.loopback


def private_range(entry: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
    """One entry of `private_ranges`.

    Raises:
        InvalidArgument: It is no address range, or one of loopback, link-local or multicast addresses.
    """
    import ipaddress

    try:
        found = ipaddress.ip_network(entry)
    except ValueError:
        raise InvalidArgument("private_ranges", f"{entry!r} is not a range such as '10.1.0.0/16'") from None
    if found.is_loopback or found.is_link_local or found.is_multicast or found.is_unspecified:
        raise InvalidArgument("private_ranges", f"{entry!r} is never allowed: it reaches the host itself")
    return found


def _check_headers(host: str, headers: object) -> None:
    """Raises InvalidArgument, which never shows a value: it may be a credential."""
    if not isinstance(headers, Mapping):
        raise InvalidArgument("headers", f"{host!r} must have a mapping of header names to values")
    for name, value in headers.items():
        if not isinstance(name, str) or not _HEADER_NAME.fullmatch(name):
            raise InvalidArgument("headers", f"{name!r} is no header name")
        if name.lower() in _PROXY_HEADERS or name.lower().startswith("proxy-"):
            raise InvalidArgument("headers", f"{name} is set by the proxy itself")
        if isinstance(value, str) and re.search(r"[\r\n\0]", value):
            raise InvalidArgument("headers", f"the value of {name} holds a line break")
        if not isinstance(value, str) or not _HEADER_VALUE.fullmatch(value):
            raise InvalidArgument("headers", f"the value of {name} is not text in Latin-1")


def canonical_host(argument: str, host: str) -> str:
    """`host` in lower case, IDNA-encoded, without the final dot.

    Raises:
        InvalidArgument: It is no host name. An empty label, a wildcard, a NUL byte,
            a URL and a bare IP address are all refused, and so is a name whose ASCII form
            depends on the edition of IDNA.
    """
    if not isinstance(host, str):
        raise InvalidArgument(argument, f"{host!r} is not a host name such as 'example.org'")
    if _AMBIGUOUS.search(host):
        raise InvalidArgument(argument, f"{host!r} is two hosts; write the one you mean as 'xn--…'")
    name = _ascii_host(host)
    if is_address_like(name):
        raise InvalidArgument(argument, f"{host!r} is an address; name the host instead")
    if not name or len(name) > 253 or not all(_LABEL.fullmatch(label) for label in name.split(".")):
        raise InvalidArgument(argument, f"{host!r} is not a host name such as 'example.org'")
    return name


def is_address_like(host: str) -> bool:
    """Whether some resolver would read `host` as an IP address: `127.0.0.1`, `2130706433`, `0x7f.1`, `[::1]`.

    `host` is in lower case. The rule for numbers is that of the URL standard: the last label decides.
    """
    return bool(_IPV6.fullmatch(host) or _NUMBER.fullmatch(host.rpartition(".")[2]))


def _ascii_host(host: str) -> str:
    """The name in ASCII, or as it came where IDNA has none (it is refused then)."""
    if len(host) > 254:  # the codec takes quadratic time
        return host
    try:
        return host.encode("idna").decode("ascii").lower().removesuffix(".")
    except UnicodeError:
        return host.lower()


def split_host_port(argument: str, entry: str) -> tuple[str, tuple[int, ...]]:
    """Host and the ports meant: (`example.org`, (80, 443)) for `example.org`."""
    if not isinstance(entry, str):
        raise InvalidArgument(argument, f"{entry!r} is not a host name such as 'example.org'")
    host, colon, port = entry.partition(":")
    if not colon:
        return canonical_host(argument, host), (80, 443)
    if not re.fullmatch(r"[0-9]{1,5}", port) or not 0 < int(port) < 65536:
        raise InvalidArgument(argument, f"{entry!r} must be HOST or HOST:PORT")
    return canonical_host(argument, host), (int(port),)
