"""Git work trees of runs, snapshots of their files at each turn's end, and merging their work.

The layout. A run with a work tree has a folder, and the tree has two repositories:

    <state_dir>/worktrees/<run>/tree       the files
                                git        the private repository of the agents
                                link       what `.git` in the tree is for them: `gitdir: …/git`
                                refs       the refs that were copied into it
                                meta.json  the `WorkTree`
    <state_dir>/worktrees/<run>/<turn>/…   the same for a turn with `isolation: worktree`, or a branch of a wave

- The *owner's* is a linked work tree of the user's repository, as `git worktree add` makes it. `.git` in the tree names
  it, so people and Coterie see the run's branch, with an index and a configuration that no agent writes. The owner
  calls git with `GIT_DIR` and `GIT_WORK_TREE` (`worktree.repository_of`), and never asks the tree which repository it
  is.
- The *private* one (`private.py`) is a whole repository with separate refs, HEAD, index, stash, logs and configuration;
  only the user's objects are borrowed, by `objects/info/alternates`. In a sandbox with mounts `link` is mounted
  over `.git`, and of the user's git folder only the objects are there, read-only. Without mounts `.git` itself is
  written while an attempt lives.

Before an attempt `private.enter` fetches back what may be there, and moves the private branch to the run's branch,
which the owner may have moved: it commits what is uncommitted, and merges branches of waves. After the attempt
`private.fetch_back` takes the run's branch, and every commit that only the private repository has, as the stream of an
`upload-pack` that runs where it sees nothing else. So the run's branch in the user's repository is the only thing that
is merged (`merge.py`), if nothing is in the way (`obstacles.py`), and signed as the user would (`signing.py`).

A private repository, and files, that are as they were when they were last looked at are not read again (`stamps.py`).

`workspace.py` has the trees of a running run, and finds that of a *place*, a run or `RUN/TURN`: its own, or the nearest
above. A tree below that of a run (`branches.py`) begins with the run's files, and is merged into them once no attempt
works there (`visits.py`).

Refs of a run, all below `refs/coterie/RUN/` and removed with it: `snapshots`; `base/BRANCH`, while the tree is there;
`lost/N`, commits that no branch of an agent's had at the end; `work/BRANCH/…`, commits of a branch that was squashed.

Agents that work in the user's own checkout have such a repository, too, where a sandbox can mount it: `checkout.py`. So
have those on the nodes of a cluster, whose trees belong to a repository of the node.

A tree of an earlier release has no `WorkTree.git`: its agents share the user's repository, and it ends as it began.

Nothing here touches the stash or the files of the user's checkout, except the merge of a finished run: git itself moves
the branch that is checked out, and refuses if it would overwrite changes. The index moves in `checkout_state.py`.
"""
