"""For those who test with groundbox, or test what they add to it: needs pytest, which groundbox itself does not."""
