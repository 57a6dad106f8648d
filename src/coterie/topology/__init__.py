"""The topology model: frozen values, and the checks on them."""
