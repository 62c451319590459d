"""A refusal: what the proxy says when it does not do what the guest asked."""

from __future__ import annotations

import dataclasses
import enum
import logging
from typing import Final

logger = logging.getLogger(__name__)

_KEPT: Final = 100


class Reason(enum.Enum):
    """Why a request was refused; `code` is what `X-Groundbox-Refused` and `Refusal.reason` say."""

    BAD_REQUEST = ("bad-request", 400)
    BAD_HOST = ("bad-host", 400)
    NOT_A_PROXY_REQUEST = ("not-a-proxy-request", 400)
    ADDRESS = ("address", 403)
    NOT_ALLOWED = ("not-allowed", 403)
    NOT_PUBLIC = ("not-public", 403)
    USE_HTTP = ("use-http", 403)
    BYTE_LIMIT = ("byte-limit", 403)
    METHOD = ("method", 405)
    HEAD_TIMEOUT = ("head-timeout", 408)
    LENGTH_REQUIRED = ("length-required", 411)
    BODY_TOO_LARGE = ("body-too-large", 413)
    HEAD_TOO_LARGE = ("head-too-large", 431)
    UNRESOLVED = ("unresolved", 502)
    UNREACHABLE = ("unreachable", 502)
    CERTIFICATE = ("certificate", 502)
    BAD_RESPONSE = ("bad-response", 502)
    CONNECT_TIMEOUT = ("connect-timeout", 504)
    IDLE_TIMEOUT = ("idle-timeout", 504)

    def __init__(self, code: str, status: int) -> None:
        self.code = code
        self.status = status


class ProxyRefusal(Exception):
    """The request is not carried out. Never leaves the proxy.

    Attributes:
        reason: What kind of refusal.
        explanation: A sentence for the guest; printable ASCII.
        host: As the guest wrote it, printable ASCII; empty where the request did not say.
        port: 0 where the request did not say.
    """

    def __init__(self, reason: Reason, explanation: str, *, host: str = "", port: int = 0) -> None:
        super().__init__(explanation)
        self.reason = reason
        self.explanation = printable(explanation, 600)
        self.host = printable(host, 253)
        self.port = port

    def response(self, *, with_body: bool = True) -> bytes:
        """The whole HTTP response; without its body it answers HEAD.

        The explanation is the reason phrase too: for a refused CONNECT that is all
        that http.client, and so requests and pip, show of it.
        """
        line = f"groundbox: {self.explanation}"
        return (
            f"HTTP/1.1 {self.reason.status} {line}\r\n"
            "Content-Type: text/plain; charset=utf-8\r\n"
            f"Content-Length: {len(line) + 1}\r\n"
            "Connection: close\r\n"
            f"X-Groundbox-Refused: {self.reason.code}\r\n"
            "\r\n" + (f"{line}\n" if with_body else "")
        ).encode("ascii")


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Refusal:
    """What the guest tried and did not get.

    Attributes:
        host: As the guest wrote it, printable ASCII, cut at 253 characters;
            empty where the request did not say.
        port: 0 where the request did not say.
        reason: A `Reason.code`, such as `not-allowed`.
        count: How many times.
    """

    host: str
    port: int
    reason: str
    count: int


class RefusalLog:
    """The refusals of one proxy, equal ones counted together.

    Attributes:
        dropped: Refusals that are in no entry, because 100 different ones were kept already.
    """

    def __init__(self) -> None:
        self._counts: dict[tuple[str, int, str], int] = {}
        self.dropped = 0

    @property
    def entries(self) -> tuple[Refusal, ...]:
        """In the order of their first try."""
        return tuple(
            Refusal(host=host, port=port, reason=reason, count=count)
            for (host, port, reason), count in self._counts.items()
        )

    def add(self, refusal: ProxyRefusal) -> None:
        """Count it, and log it once: a guest can cause as many refusals as it likes."""
        key = (refusal.host, refusal.port, refusal.reason.code)
        if key not in self._counts and len(self._counts) >= _KEPT:
            self.dropped += 1
            return
        if key not in self._counts:
            logger.info("egress refused (%s): %s", refusal.reason.code, refusal.explanation)
        self._counts[key] = self._counts.get(key, 0) + 1


def printable(text: str, max_length: int) -> str:
    """`text` as printable ASCII, cut with a count of what is missing."""
    escaped = "".join(character if " " <= character <= "~" else ascii(character)[1:-1] for character in text)
    excess = len(escaped) - max_length
    return escaped if excess <= 0 else f"{escaped[:max_length]}... ({excess} more)"
