"""Arithmetic that needs no sandbox: `calculate` for expressions, and Python's own straight-line arithmetic.

Nothing here is evaluated by Python: texts are read by a grammar of their own, and programs are walked node by node
with every size bounded before it is reached.
"""
