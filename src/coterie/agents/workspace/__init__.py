"""The files that agents work on: git work trees and their snapshots, memory and tasks.

Other packages import `base`, `notes`, `notes.entries`, `trees.branches`, `trees.confinement`, `trees.disposal`,
`trees.fork_tree`, `trees.git`, `trees.gitignore`, `trees.leftovers`, `trees.merge`, `trees.obstacles`,
`trees.preparation`, `trees.refs`, `trees.report`, `trees.signing`, `trees.snapshots`, `trees.workspace`,
`trees.worktree`; the rest is internal.
"""
