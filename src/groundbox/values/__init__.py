"""Python values as data: read and written as text and as JSON, compared, and worked out from expressions.

In: values of builtin types, or text that stands for them. Out: the same in another form, or a verdict on two of them.
Standard library only, and below everything else. Open `codec.py` first: values as JSON between host and guest, the one
file here that guests load, too. `literals.py` writes values as Python does and reads them, `equal.py` compares them,
`evaluate.py` works expressions out, `numbers.py` reads numbers in English, and `parsing.py` programs and expressions.
"""
