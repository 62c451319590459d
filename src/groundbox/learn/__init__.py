"""Training and evaluation on what was made elsewhere."""
