"""The guest's side of the tool bridge: the module `tools`. Standard library only."""
