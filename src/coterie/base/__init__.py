"""What every other package builds on: time, identity, files, faults of a file as data.

Other packages import every module.
"""
