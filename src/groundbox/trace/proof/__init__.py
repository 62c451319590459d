"""Narrations of a run checked against its trace, claim by claim. Start in `prover`; docs/proof.md explains it."""
