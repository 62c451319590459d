"""Claims of a text by any writer about a run, held against its record.

In: a text in English, by a model or a person, and a trace. Out: a `Proof` with each claim supported, refuted by a named
record, not found, or about something else than the run; and which of the text's numbers stand in what is supported.
Open `proving.py` first. Claims that come with the text: `data.py` is what its writer hands over, `verifying.py` holds
it against the record, `holding.py` the text against it. Claims read from words: `english.py` is the table of wordings,
`items.py` finds code and values in prose, `run.py` says what expressions were, `happened.py` reads it off the records.
"""

from groundbox.trace.claims.data import BadClaims, ClaimData, ClaimsData, SentenceData, decode, json_schema
from groundbox.trace.claims.model import Claim, Kind, Proof, Status, Verdict
from groundbox.trace.claims.proving import prove

__all__ = [
    "BadClaims",
    "Claim",
    "ClaimData",
    "ClaimsData",
    "Kind",
    "Proof",
    "SentenceData",
    "Status",
    "Verdict",
    "decode",
    "json_schema",
    "prove",
]
