"""Hints for hosts that a program does not reach: no network, a refusal of the proxy, or a way around it.

The proxy says why it refused in the reason phrase of its answer, which libraries hand on in their own errors.
Settings are named as in Python; whoever shows a hint elsewhere names them as they are called there.
"""

from __future__ import annotations

import errno
import os
import re
import socket
from collections.abc import Iterator
from typing import Any, Final

from .fault import Fault

_HOST: Final = (
    re.compile(r"https?://(?:[^/@\s'\"]*@)?([A-Za-z0-9.-]+)"),
    re.compile(r"host='([A-Za-z0-9.-]+)'"),
    re.compile(r"Cannot connect to host ([A-Za-z0-9.-]+)"),
    re.compile(r"[\"'](localhost|127\.\d+\.\d+\.\d+|0\.0\.0\.0|::1)[\"']"),
)
_LOCAL: Final = re.compile(r"localhost|127\.\d+\.\d+\.\d+|0\.0\.0\.0|::1")
_ADDRESS: Final = re.compile(r"[0-9.]+|[0-9a-fA-F:]*:[0-9a-fA-F:]*")
_WORDS: Final = re.compile(
    r"Temporary failure in name resolution|Name or service not known|Network is unreachable"
    r"|nodename nor servname|Failed to resolve|Tunnel connection failed|Cannot connect to (host|proxy)"
    r"|ProxyError"
)
_REFUSAL: Final = re.compile(r"groundbox: ([!-~][ -~]{0,600})")
_END_OF_REFUSAL: Final = re.compile(r" for url: |['\"]?, url=|'\)")
_NOT_ALLOWED: Final = re.compile(r'(\S+?)(?::80|:443)? is not allowed; allow it with Network\(allow=\["([^"]+)"\]\)')
_NOT_PUBLIC: Final = re.compile(r"(\S+):\d+ resolves to an address that is not public")
_BY_TOOLS: Final = "A function of the host that asks a service there can be granted: Sandbox(tools=[function])."
_NEVER: Final = re.compile(r"(\S+):\d+ resolves to an address that is never allowed")
_NO_ADDRESS: Final = re.compile(r"(\S+):\d+ has no address")
_SPEAKS_HTTP: Final = frozenset({"requests", "urllib", "urllib3", "http", "httpx", "httpcore", "aiohttp", "pandas"})
_CONNECTS: Final = _SPEAKS_HTTP | {"socket", "asyncio", "_socket", "socketserver"}


def unreachable_host(fault: Fault) -> list[str]:
    """What fails because the network is off, the proxy refuses, or a library does not ask the proxy."""
    told = min(filter(None, (refusal(_text(link)) for link in fault.chain())), key=len, default=None)
    if told is not None:
        return [told]
    if not is_network(fault):
        return []
    host = next(_hosts(fault), None)
    if host is not None and _LOCAL.fullmatch(host):
        return [_local(fault, host)]
    return [_around(fault)] if behind_proxy() else [_off(fault, host)]


def refusal(text: str) -> str | None:
    """A hint made of what the proxy said when it refused, if `text` quotes it."""
    found = _REFUSAL.search(text)
    if found is None:
        return None
    said = _END_OF_REFUSAL.split(found[1])[0].rstrip(". '\")\\")
    for pattern, words in (
        (_NOT_PUBLIC, "`{}` is allowed, and its name leads to an address that is not public. "
         'For services of your own network: Network(private_ranges=["10.0.0.0/8"]), with the range of that address.'),
        (_NEVER, "`{}` is allowed, but its name leads to the host machine itself or to a link-local address, "
         "which no setting allows."),
        (_NO_ADDRESS, "`{}` is allowed, but has no address: the name does not resolve. Look at its spelling."),
    ):  # fmt: skip
        if match := pattern.match(said):
            return words.format(match[1])
    if match := _NOT_ALLOWED.match(said):
        return f"`{match[1]}` is not among the allowed hosts. To allow it: {allowing(match[2])}."
    return f"The sandbox's proxy said: {said}."


def network_is_off(*hosts: str) -> str:
    """That it is, and the setting that would allow these hosts."""
    if any(map(_ADDRESS.fullmatch, hosts)):
        return (
            "The network is off in this sandbox, and an address cannot be allowed: "
            f"name the host instead, as in {allowing('example.org')}."
        )
    return f"The network is off in this sandbox. To allow it: {allowing(*hosts)}."


def allowing(*hosts: str) -> str:
    """The setting that allows these hosts."""
    return "Network(allow=[{}])".format(", ".join(f'"{host}"' for host in hosts))


def behind_proxy() -> bool:
    """Whether this sandbox may reach some hosts, all of them through its proxy."""
    return "HTTPS_PROXY" in os.environ


def is_network(fault: Fault) -> bool:
    """Whether a failure is one of reaching a host."""
    for link in fault.chain():
        if isinstance(link, (socket.gaierror, ConnectionRefusedError)):
            return True
        if isinstance(link, OSError) and link.errno in (errno.ENETUNREACH, errno.EHOSTUNREACH):
            return True
        if isinstance(link, PermissionError) and fault.packages() & _CONNECTS:
            return link.filename is None
        if isinstance(link, OSError) and _WORDS.search(_text(link)):
            return True
        if type(link).__module__.partition(".")[0] in ("httpx", "httpcore") and "Connect" in type(link).__name__:
            return True
    if isinstance(fault.exc, PermissionError) and fault.line is not None:
        return "socket" in fault.line.text and fault.exc.filename is None
    return False


def _local(fault: Fault, host: str) -> str:
    if any(isinstance(link, OSError) and link.errno == errno.EPERM for link in fault.chain()):
        return (
            f"This sandbox has no network, not even a loopback: `{host}` is nothing here, and never the host machine. "
            "For programs inside it that talk to each other: Network(loopback=True). "
            f"{_BY_TOOLS}"
        )
    return (
        f"Nothing listens on that port inside the sandbox: `{host}` is the sandbox itself, and services of the host "
        f"machine cannot be reached so. {_BY_TOOLS}"
    )


def _around(fault: Fault) -> str:
    how = (
        " aiohttp uses it with ClientSession(trust_env=True)." if "aiohttp" in fault.packages() else
        " requests, urllib, pandas and curl use it by themselves; sockets and database drivers do not."
    )  # fmt: skip
    return "Allowed hosts are reached only by HTTP and HTTPS through the sandbox's proxy (HTTPS_PROXY)." + how


def _off(fault: Fault, host: str | None) -> str:
    only = "" if fault.packages() & _SPEAKS_HTTP else " It is reached by HTTP and HTTPS only."
    return f"{network_is_off(host or 'HOST')}{only} Or use data that is in the working directory."


def _hosts(fault: Fault) -> Iterator[str]:
    """Hosts that were asked for: from the frames that tried, the error's own text, or the line."""
    for link in fault.chain():
        url = getattr(getattr(link, "request", None), "url", None)
        if url is not None:
            yield from _found_in(str(url))
    for link in fault.chain():
        yield from _found_in(_text(link))
    if fault.line is not None:
        yield from _found_in(fault.line.text)
        for _, value in fault.line.values():
            if isinstance(value, str):
                yield from _found_in(value[:2000])
    for step in reversed(fault.steps):
        found = _host_in_frame(step.frame.f_locals)
        if found:
            yield found


def _host_in_frame(variables: Any) -> str | None:
    host = variables.get("host")
    if not isinstance(host, str):
        host = getattr(variables.get("self"), "host", None)
    if not isinstance(host, str):
        address = variables.get("address")
        host = address[0] if isinstance(address, tuple) and address else None
    return host if isinstance(host, str) and re.fullmatch(r"[A-Za-z0-9.-]+", host) else None


def _found_in(text: str) -> Iterator[str]:
    for pattern in _HOST:
        found = pattern.search(text)
        if found:
            yield found[1]


def _text(link: BaseException) -> str:
    try:
        return str.__str__(str(link))[:4000]
    except Exception:
        return ""
