"""The native recorder: C sources, what compiles them, and what connects them. Standard library only."""
