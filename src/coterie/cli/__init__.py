"""The command line: commands parse their arguments, call the library, print the result and return a status.

`coterie.cli.app` lists the commands. A command imports what it needs when it is called, so that `coterie --help` is
fast. `coterie.cli.text` has all texts for people.
"""
