"""The settled rule: which marked nodes may start.

A marked node starts as soon as nothing in flight upstream of it could still mark it by a forward arrow. Running nodes
and marked nodes of lower rank are in flight. So a join waits for exactly the branches that are coming, and since the
lowest marked node waits for running work only, nothing deadlocks.
"""

from collections.abc import Container

from coterie.team.topology.graph import FlowGraph


class Readiness:
    """The marked and running nodes of a flow.

    A node that has to wait is checked again when one node that it waits for ends, so the cost of a step depends on what
    it changes, not on the width of the flow.
    """

    def __init__(self, graph: FlowGraph) -> None:
        self._graph = graph
        self._rank = graph.rank
        self._names = list(graph.rank)
        self._running = 0  # bit masks by rank
        self._marked = 0
        self._marks: dict[str, set[int]] = {}  # the groups whose arrows marked the node
        self._waiting: dict[int, list[int]] = {}  # by the rank of the node they wait for
        self._due: set[int] = set()  # ranks to check

    def mark(self, node: str, group: int | None = None) -> None:
        """Mark *node* on its arrow of *group*, or as an entry. Marks on one arrow do not add up."""
        marks = self._marks.get(node)
        if marks is None:
            rank = self._rank[node]
            marks = self._marks[node] = set()
            self._marked |= 1 << rank
            self._due.add(rank)
        if group is not None:
            marks.add(group)

    def end(self, node: str) -> None:
        """Note that the turn of *node* has ended and its groups were evaluated."""
        rank = self._rank[node]
        self._running ^= 1 << rank
        if node in self._marks:
            self._due.add(rank)
        if rank in self._waiting:
            self._due.update(self._waiting.pop(rank))

    def check_again(self, node: str) -> None:
        """Check *node* again, if the flow has it, because its agent is free."""
        if node in self._rank:
            self._due.add(self._rank[node])

    def start(self, busy: Container[str], mapped: Container[str] = ()) -> list[tuple[str, list[str]]]:
        """Start the ready nodes in rank order, except those whose agent is *busy*, up to one that is *mapped*.

        Its set may end at once, before the next node starts. Returns each with the sources that marked it, in the
        source order of the arrows that fired.
        """
        started: list[tuple[str, list[str]]] = []
        if not self._due:
            return started
        due, self._due = sorted(self._due), set()
        for n, rank in enumerate(due, 1):
            node, bit = self._names[rank], 1 << rank
            if node not in self._marks or node in busy or self._running & bit:
                continue  # its end checks it again
            awaited = self._awaited(node, rank)
            if awaited is not None:
                self._waiting.setdefault(awaited, []).append(rank)
                continue
            self._marked ^= bit
            self._running |= bit
            started.append((node, self._sources(self._marks.pop(node))))
            if node in mapped:
                self._due.update(due[n:])
                break
        return started

    def _awaited(self, node: str, rank: int) -> int | None:
        """The rank of one node that *node* has to wait for, or None. *node* is still marked."""
        if not self._running and len(self._marks) == 1:
            return None
        upstream = self._graph.upstream(node)
        running = self._running & upstream
        if running:
            return running.bit_length() - 1  # of several branches the last, which is likely to end last
        marked = self._marked & upstream
        lowest = (marked & -marked).bit_length() - 1
        return lowest if 0 <= lowest < rank else None

    def _sources(self, marks: set[int]) -> list[str]:
        groups = self._graph.groups
        if len(marks) == 1:
            return [groups[next(iter(marks))].source]
        return list(dict.fromkeys([groups[i].source for i in sorted(marks)]))
