"""What runs inside the wall. Standard library only; nothing of groundbox outside this package.

Begin with worker.py, which takes the host's orders: cells go to python/cells.py, programs of other languages to
command.py, SQL to sql/runner.py.
"""
