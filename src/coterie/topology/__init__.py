"""What a team is: frozen values, and the checks on them."""
