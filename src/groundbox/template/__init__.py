"""The process that has done the slow work and now only forks.

It runs on an environment's own interpreter, inside the outer jail, and never executes a line of untrusted
code: everything untrusted happens in a copy of it, after that copy has entered its own jail.
"""
