"""Drawings of a team: one value, `Graph`, and a text writer for each format.

draw(topology)  ──▶  Graph  ──▶  mermaid · dot · svg
"""

from coterie.team.topology.drawing.dot import dot
from coterie.team.topology.drawing.graph import Arrow, Box, Graph, Phase, draw
from coterie.team.topology.drawing.mermaid import mermaid
from coterie.team.topology.drawing.svg import placed, svg

__all__ = ["Arrow", "Box", "Graph", "Phase", "dot", "draw", "mermaid", "placed", "svg"]
