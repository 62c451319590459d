"""Protocols of clients that exist already, one file each, over `groundbox.server.service.Service`.

A module has `routes(service) -> list of Starlette routes`, and maps what its protocol cannot say as docs/serving.md
tells. `application.py` lists the modules.
"""
