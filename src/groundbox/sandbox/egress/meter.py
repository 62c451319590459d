"""What one proxy may use, and how much of it was used."""

from __future__ import annotations

import dataclasses
from typing import Final

from groundbox.errors import InvalidArgument
from groundbox.limits import GiB
from groundbox.sandbox.egress.refusal import ProxyRefusal, Reason

DEFAULT_TOTAL_BYTES: Final = 1 * GiB


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class EgressLimits:
    """Bounds on one proxy. Seconds are of the host's monotonic clock.

    Attributes:
        connection_count: Connections served at once. Reached: others wait in the guest's kernel.
        connections_per_s: How fast connections are accepted after a burst of as many.
            Reached: others wait in the guest's kernel. The time to serve them is the host's.
        head_s: For the guest to send the head of its request. Reached: 408.
        connect_s: To resolve the host, connect, and shake hands over TLS. Reached: 504.
        idle_s: Without a byte in either direction. Reached: 504 if nothing was answered yet;
            the connection is reset otherwise.
        linger_s: For the guest to hang up once it was answered. Reached: we do.
        total_bytes: Sent and received by all connections together, None for no limit.
            Reached: nothing more is forwarded, open connections are reset, new ones answered 403.
    """

    connection_count: int = 32
    connections_per_s: float = 200.0
    head_s: float = 10.0
    connect_s: float = 10.0
    idle_s: float = 60.0
    linger_s: float = 2.0
    total_bytes: int | None = DEFAULT_TOTAL_BYTES

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if value is not None and value <= 0:
                raise InvalidArgument(field.name, f"must be above 0, not {value!r}")


class Meter:
    """Bytes that went through one proxy.

    Attributes:
        sent: From the guest to hosts outside, counted before encryption.
        received: From hosts outside to the guest, counted after decryption.
    """

    def __init__(self, total: int | None) -> None:
        self._total = total
        self.sent = 0
        self.received = 0

    @property
    def left(self) -> int | None:
        """Bytes that may still pass, None for no limit."""
        return None if self._total is None else self._total - self.sent - self.received

    def send(self, count: int) -> None:
        """Call before forwarding. Raises ProxyRefusal if `count` bytes may not pass any more."""
        self._check(count)
        self.sent += count

    def receive(self, count: int) -> None:
        """As `send`, for the other direction."""
        self._check(count)
        self.received += count

    def _check(self, count: int) -> None:
        if self.left is not None and count > self.left:
            raise ProxyRefusal(
                Reason.BYTE_LIMIT,
                f"this sandbox has used up its {self._total} bytes of network traffic; "
                "allow more with EgressLimits(total_bytes=...)",
            )
