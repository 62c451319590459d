"""The plain recorder: slow, without folding, in Python. The oracle of `native`. Standard library only."""
