"""What a guest may not do: one file per kernel mechanism.

`enter` holds the ordered lists of steps, `probe` tells which mechanisms this host has.
Everything here needs the standard library only and imports nothing of groundbox outside this package,
because it is loaded into template processes that run on an environment's own interpreter.
"""

NAMESPACES, LANDLOCK, BARE, GVISOR = "namespaces", "landlock", "bare", "gvisor"
"""Backends: ways to build a wall. They stand here, because asking for one by name should import no mechanism."""
