"""A supervised system as described by a `topology.yaml`: supervision tree, transport, plugins."""
