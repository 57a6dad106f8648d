"""Teams: their values, their notations, the options of agents, and the plan made of them."""
