"""The command line: parse the arguments, call the library, render, return a status.

`coterie.cli.app` lists the commands. Each command's module imports what the command needs inside the command, so that
`coterie --help` stays quick; human text comes from `coterie.cli.text` alone.
"""
