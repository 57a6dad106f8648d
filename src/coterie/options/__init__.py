"""What files may say of agents, described once: the backends, the options of agents, and the files of both.

Every notation reads its options by these tables; completion, pages and schemas come from them.
"""
