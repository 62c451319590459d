"""What runs Python programs inside the wall: cells, scripts, displays and failures.

Standard library only. Libraries of the environment are used when the program imported them.
"""
