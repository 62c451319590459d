"""E2B: sandboxes as the E2B SDKs ask for them, with both of its planes on one origin.

`E2B_API_URL` and `E2B_SANDBOX_URL` name this server. The control plane (`control.py`) makes and ends sandboxes for who
has an API key. The data plane (`code.py`, `files.py`, `processes.py`) serves one sandbox, which `E2b-Sandbox-Id` names,
to who has its token; `access.py` says who that is. docs/wires/e2b.md has what is supported, mapped and refused.
"""

from __future__ import annotations

from starlette.routing import BaseRoute

from groundbox.server.service import Service
from groundbox.server.wires.e2b.access import admission
from groundbox.server.wires.e2b.code import Code
from groundbox.server.wires.e2b.control import Control
from groundbox.server.wires.e2b.files import Files
from groundbox.server.wires.e2b.processes import ProcessRpc
from groundbox.server.wires.e2b.templates import Templates

__all__ = ["admission", "routes"]


def routes(service: Service) -> list[BaseRoute]:
    """All of the wire's."""
    templates = Templates(service)
    return [
        *Control(service, templates).routes(),
        *templates.routes(),
        *Code(service).routes(),
        *Files(service).routes(),
        *ProcessRpc(service).routes(),
    ]
