"""Tables of everything that files can set for agents: the backends, the options of agents, and their files.

Every notation reads its options with these tables; completion, pages and schemas are generated from them.

Other packages import every module.
"""
