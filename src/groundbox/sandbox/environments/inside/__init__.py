"""What runs on an environment's own interpreter while it is built or checked; standard library only."""
