"""What happened in a run, indexed: frames, course, histories, objects. Start in `ledger`.

Knows no text and no claim.
"""
