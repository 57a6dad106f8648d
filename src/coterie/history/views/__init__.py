"""Views of runs: folds of their records for people and programs.

Other packages import every module.
"""
