"""The HTTP server: one process, one engine, many wires.

Requests of clients that exist already come in, results of runs in sandboxes go out. `application.py` puts it together;
`service.py` is all that wires share (keys, sandboxes, turns, the audit log, metrics); `api.py` is the native interface
`/v1`, and each file in `wires/` one foreign protocol. `guard.py` stands before all of them. Open `service.py` first.
"""
