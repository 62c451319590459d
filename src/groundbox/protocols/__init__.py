"""Protocols that a server speaks only if `groundbox serve --protocol NAME` asks for them, one module each.

Each is found by its entry point, as those of other packages are. Nothing outside this folder imports them.
"""
