"""Meaning of records: the state of a program at each of them, and the tree of its calls, steps, loops and iterations.

In: a `Trace`. Out: a `State` for one record, a `Structure` for all of them, values as Python values and as text.
Open `structure.py` first for the tree, `state.py` for the state. `lines.py` sorts records by frame and line, and
`loops.py` makes steps and loops of these lines; `folding.py` decides what is passed over where a run is shown.
"""
