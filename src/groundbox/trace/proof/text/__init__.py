"""A text as it stands: plain, in tokens and sentences, with the expressions that it writes. Claims nothing yet."""
