"""The state of actors: an actor's checkpoint is restored when it restarts.

`base` is the protocol of a store, `plain` checks that a state can be stored, `in_memory` and `sqlite` are stores.
`checkpoints` saves and restores states for actors, with any store.
"""
