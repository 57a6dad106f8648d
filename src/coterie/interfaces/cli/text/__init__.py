"""Every text that a command prints for people: values in, text out. Nothing is printed here."""
