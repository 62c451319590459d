"""Checks of a SQL query that ran: `schema` and `source` hold what is known, `rules` say what speaks against it."""
