"""What a text of any writer claims about a run, held against its record.

In: a text in English, by a model or a person, and a trace. Out: a `Proof` with each claim supported, refuted by a named
record, not found, or about something else than the run; and which of the text's numbers stand in what is supported.
Open `proving.py` first; `english.py` is the table of wordings, `items.py` finds code and values in prose, `run.py` is
what happened, in the order in which it did.
"""

from groundbox.trace.claims.model import Claim, Kind, Proof, Status, Verdict
from groundbox.trace.claims.proving import prove

__all__ = ["Claim", "Kind", "Proof", "Status", "Verdict", "prove"]
