"""Traced runs: reading what the tracer recorded, asking about it, showing it, telling it in English, checking tellings.

In: the records of a run (docs/trace.md). Out: a `Trace`, its state at any record and its tree of steps and loops, forms
as text and as a page, narrations, and proofs of what others say about the run.
Open `record/reading.py` first: `Trace` is the door. `record` is below `run`, which is below `query` and `show`;
`narrate` and `claims` stand on `run` and share no code, so that the one can be checked by the other.
"""
