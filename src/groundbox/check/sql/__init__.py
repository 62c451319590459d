"""Checks of a SQL query that ran: `schema` and `source` hold what is known, `rules` say what speaks against it.

A query and its database go in, `Warning`s come out. Begin with checking.py; query.py takes the query apart, finding.py
has what a rule is given and gives, tiers of codes come from calibration.py.
"""
