"""The command line: commands parse their arguments, call the library, print the result and return a status.

`coterie.interfaces.cli.commands` lists the commands, `coterie.interfaces.cli.app` runs one. A command imports what it
needs when it is called, so that `coterie --help` is fast. `coterie.interfaces.cli.text` has all texts for people.

Other packages import `app`, `overview`; the rest is internal.
"""
