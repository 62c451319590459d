"""Questions to a trace.

In: a `Trace`. Out: every value that a name took (`history.py`), why a line ran or did not (`cause.py`), and where two
runs part (`difference.py`). All of them are methods of `Trace`.
Open any of the three first: none needs the others but `cause.py`, which asks for histories.
"""
