"""Runs on more than one machine: Temporal drives them, workers perform their turns, an export keeps their journals.

Everyone who reaches Temporal's server can start workflows, send signals and updates, poll the queues of nodes and
answer for them. So nothing counts for having come through it. Each machine has a key (keys), and what programs say
to each other is sealed with it (seals): a signature of the value, its purpose, and its run or activity.

- A submission makes a *charter*: the run's id and the public keys by which its programs sign. The beginning of each
  link holds it. A workflow checks the beginning against the charter, and fails without one; it fails the same wherever
  it is replayed. Whether the charter's own key is trusted is a question for each node: one that does not trust it does
  not decide, which the run shows as a failed workflow task until an operator adds the key.
- A workflow's *orders* to nodes (orders) name its execution and the activity. A node performs one only below a
  charter that it trusts, and each turn once: it claims the order in the export, which only nodes can write.
- Results, signs of life and events carry a node's signature for that activity, events also a number. A result without
  one is none: the turn is lost and tried again, the driver orders other work again.
- Messages are sealed for their run; their ids are recorded, so a copy has no further effect. Verdicts, the newest
  records and the end of a run are sealed by the node that drives it, and commands believe no others.
- A beginning is claimed in the export for one execution, so a copy of it begins nothing.

The workflow signs with the key of the node on which it runs. That is no decision: a replay elsewhere makes other
signatures of the same commands, and Temporal compares commands by activity alone. Turns have queues of another name
than in releases that signed nothing, whose runs end on nodes of that release.

Still possible without a key: to read histories, and to cancel, terminate, reset or delay a run.

Other packages import `address`, `files`, `keys`, `node_secrets`, `releases`, `runs`, `serve`, `servers`, `submit`,
`wire`; the rest is internal.
"""
