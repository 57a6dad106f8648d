"""HTTP interfaces of a system: the gateway to agents, the topology server, and the server that both use."""
