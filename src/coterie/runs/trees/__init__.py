"""The files of runs, through git: work trees of their own, what the files were at each turn's end, and the way back.

Nothing here touches the index, the stash or the files of the user's checkout, but for the one step that brings a
finished run's work back: there git itself moves the branch that is checked out, and refuses where it would overwrite.
"""
