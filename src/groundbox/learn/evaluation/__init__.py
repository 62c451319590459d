"""Scores of recorded programs: which of them solve their problem, told by runs that they cannot steer."""
