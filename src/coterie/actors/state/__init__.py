"""Keep the state of actors: what an actor checkpointed is there again when it restarts.

`base` is the promise of a store, `plain` checks that a state can be stored, `in_memory` and `sqlite` are stores.
`checkpoints` saves and restores states for actors, with any store.
"""
