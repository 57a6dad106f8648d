"""HTTP surfaces of a system: the server that they share, the gateway to agents, and the topology server."""
