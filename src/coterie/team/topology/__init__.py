"""The topology model: frozen values, and the checks on them.

Other packages import `block`, `checks`, `checks.codes`, `checks.composition`, `checks.facts`, `checks.names`,
`checks.operation`, `checks.patterns`, `checks.systems`, `composition`, `conditions`, `diff`, `drawing`, `events`,
`expressions`, `graph`, `loop`, `loops`, `model`, `outline`, `patterns.configs`, `patterns.faults`, `patterns.inputs`,
`patterns.kinds`, `patterns.model`, `patterns.names`, `plugin_names`, `system.checklist`, `system.diff`,
`system.fields`, `system.model`, `system.outline`, `typed.fits`, `typed.flow`, `typed.functions`, `typed.program`,
`typed.values`; the rest is internal.
"""
