"""A recorded run told in English, every statement of it taken from the trace.

In: a `Trace`, a style, a level of detail and a seed. Out: a `Narration`: sentences, and the claims that each makes.
Open `narrator.py` first, which walks the tree of the run; `statements.py`, `loops.py` and `calls.py` tell its parts,
`phrases.py` has the wordings, and `document.py` writes the claims as docs/proof.md has them.
"""
