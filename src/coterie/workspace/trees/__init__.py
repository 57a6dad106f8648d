"""Git work trees of runs, snapshots of their files at each turn's end, and merging their work.

Nothing here touches the index, the stash or the files of the user's checkout, except the merge of a finished run: git
itself moves the branch that is checked out, and refuses if it would overwrite changes.
"""
