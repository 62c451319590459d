"""Where a claim holds: one room for each kind of claim, and those that find its words in the program.

A moment is the number of a record. Start in `finder`.
"""
