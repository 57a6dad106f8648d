"""What is measured of a file."""

import ast


def longest_function(text: str) -> tuple[str, int]:
    """The name of the longest function of *text*, and its lines; `-` and 0 where there is none."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    found = [node for node in ast.walk(ast.parse(text)) if isinstance(node, kinds)]
    sizes = [((node.end_lineno or node.lineno) - node.lineno + 1, node.name) for node in found]
    size, name = max(sizes, default=(0, "-"))
    return name, size
