"""Tools of the host that code in a sandbox may call: what is needed to grant them (docs/tools.md)."""

from groundbox.sandbox.bridge.log import ToolLog
from groundbox.sandbox.bridge.tool import Tool, ToolFailure, tool
from groundbox.sandbox.bridge.tools import ToolQuotas, ToolRequest, Tools

__all__ = ["Tool", "ToolFailure", "ToolLog", "ToolQuotas", "ToolRequest", "Tools", "tool"]
