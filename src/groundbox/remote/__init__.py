"""Sandboxes on a server: the same objects as local ones, carried out elsewhere.

A URL goes in, and out come `Sandbox`, `AsyncSandbox` and `run` that speak `/v1` of `groundbox serve`, over TCP or over
the unix socket of the engine that runs already. `connect.py` is the door, `sandbox.py` the sandbox, `transport.py`
HTTP. Open `connect.py` first.
"""
