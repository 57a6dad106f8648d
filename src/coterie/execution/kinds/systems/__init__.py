"""A supervised system and its run: the actors live beside the run, which records their lifecycle."""
