"""Teams as Python has them: nodes, arrows, and the flows made of them."""
