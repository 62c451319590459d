"""Records that the tracer wrote, and the program that they are about.

In: JSON Lines of a guest, which may claim anything, and the source. Out: a `Trace` of records that were checked.
Open `reading.py` first. `schema.py` has a class for each record and `value.py` the values in them; `checking.py`
holds records against the ones before; `syntax.py` and `operands.py` say what stands where in the source.
"""
