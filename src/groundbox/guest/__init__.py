"""What runs inside the wall. Standard library only; nothing of groundbox outside this package."""
