"""The stages of a build, one per file: each takes items and gives items, and says of every one that it drops why."""
