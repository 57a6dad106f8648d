"""The blocks of a file beside its nodes and its flow, as frozen values, by subject.

`base` holds what all have, `conduct` what agents say of themselves, `data` what they hand on, `memory` what they
remember, `reach` what they work with, `operation` how the team is started and watched. Most files have few of them, so
each module is loaded when a file does. What a block may say, in which words: `coterie.formats.at.language`.
"""
