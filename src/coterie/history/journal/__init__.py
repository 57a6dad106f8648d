"""Journals of runs: records, their codec, and the stores that keep them.

Other packages import `background`, `base`, `codec`, `export`, `jsonl`, `lines`, `lock`, `memory`, `owned`, `postgres`,
`records`, `records.actor`, `records.base`, `relocation`, `rules`, `runs`, `status`, `writer`; the rest is internal.
"""
