"""Protocols of clients that exist already, one file or folder each, over `groundbox.server.service.Service`.

A module has `routes(service) -> list of Starlette routes`, and maps what its protocol cannot say as its page in
docs/wires tells. One whose clients bring other secrets than keys has `admission(service)`, too (`guard.Admission`).
`application.py` lists the modules.
"""
