"""A supervised system as `topology.yaml` describes it: supervision tree, transport, plugins."""
