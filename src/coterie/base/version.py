"""The version of coterie, which `coterie.__version__` and `coterie --version` give."""

__version__ = "0.1.0"
