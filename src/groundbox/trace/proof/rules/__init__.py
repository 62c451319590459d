"""How words become claims: one room for each kind of statement. Knows the text and no trace.

A rule is given the sentence so far and the place of a word, and says whether it made a claim of it.
The rooms of `moments` that have the same names look for what is claimed.
"""
