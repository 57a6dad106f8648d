"""Teams as Python has them: nodes, arrows, and the flows made of them.

Other packages import `agents`, `build`, `programs`; the rest is internal.
"""
