"""The seven collaborations, each a plain generator, and the rules that they share."""
