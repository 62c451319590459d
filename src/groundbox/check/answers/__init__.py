"""Checks that the statements of an answer were shown by the runs it speaks of.

An answer is read for numbers, dates, quoted texts, code spans and file names (`mentions`); the runs are read for
everything that they showed (`sources`); each mention is then looked for in what was shown, or derived from it by
few and simple steps (`derivations`). No model takes part, and the same input gives the same report.
"""
