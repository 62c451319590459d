"""What the files and pictures of a run are: pages, sheets, rows, sizes, and a small picture of what is large."""
