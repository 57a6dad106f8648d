"""Channels, which transfer frames between two nodes once and in order, over a carrier that may lose packets."""

from collections import deque
from collections.abc import Sequence

from coterie.agents.actors.transports.wire import Frame, Packet, pack

WINDOW = 4096
"""How many frames may be in flight; others wait."""

PACKET = 128 << 10
"""The largest total size of frames in one packet, in bytes, unless a single frame is larger."""

RESEND, RESEND_MAX = 0.25, 1.0
"""Seconds without an acknowledgement after which frames are sent again: first and longest; doubled each time."""


class Channel:
    """Numbers the frames to and from one other node.

    Frames count from 1; a packet has the number of its first frame, and the last number that the sender has received.
    Frames after a gap are dropped, and sent again together with the missing ones.

    Args:
        epoch: The epoch of sent frames.
        after: Frames of this and earlier epochs of the other node are old.
    """

    def __init__(self, epoch: int = 1, after: int = 0) -> None:
        self.epoch, self.their_epoch, self._after = epoch, 0, after
        self.owes_ack = False
        self.heard = 0  # the number of the other node's last heartbeat
        self.stuck = 0  # heartbeats since the last acknowledgement, while one is due
        self._queue: deque[bytes] = deque()
        self._unacked: deque[bytes] = deque()
        self._acked = self._received = 0
        self._since, self._patience = 0.0, RESEND

    @property
    def is_idle(self) -> bool:
        """Whether all sent frames have been received."""
        return not self._queue and not self._unacked

    @property
    def epochs(self) -> tuple[int, int]:
        """The epoch of this node, and the last epoch of the other node."""
        return self.epoch, max(self.their_epoch, self._after)

    def send(self, frame: bytes) -> None:
        """Queue a frame."""
        self._queue.append(frame)

    def next_packet(self, sender: str, beat: int, now: float) -> bytes | None:
        """The next packet to send, if there is anything to send."""
        queue, unacked = self._queue, self._unacked
        room = PACKET
        frames: list[bytes] = []
        if queue and not unacked:
            self._since = now
        first = self._acked + len(unacked) + 1
        while queue and len(unacked) < WINDOW and (not frames or len(queue[0]) <= room):
            frame = queue.popleft()
            room -= len(frame)
            unacked.append(frame)
            frames.append(frame)
        if not frames and not self.owes_ack:
            return None
        self.owes_ack = False
        packet = Packet(sender, beat, self.heard, self.epoch, first, self.their_epoch, self._received, [])
        return pack(packet, frames)

    def begins_anew(self, packet: Packet) -> bool | None:
        """Whether the sender of *packet* has lost this node meanwhile; None if the packet is old."""
        if packet.epoch <= self._after or packet.epoch < self.their_epoch:
            return None
        if self.their_epoch not in (0, packet.epoch):
            return True
        self.their_epoch = packet.epoch
        return False

    def follow(self, epoch: int) -> None:
        """Expect frames of a new epoch of the other node, from its first frame on."""
        self.their_epoch, self._received = epoch, 0

    def accept(self, packet: Packet, now: float) -> Sequence[Frame]:
        """The new frames of *packet* that follow without a gap."""
        if packet.ack_epoch == self.epoch and packet.ack > self._acked:
            self._acknowledge(packet.ack, now)
        frames = packet.frames
        if not frames:
            return ()
        self.owes_ack = True
        known = self._received + 1 - packet.first
        if known < 0:
            return ()
        new = frames[known:] if known else frames
        self._received += len(new)
        return new

    def _acknowledge(self, number: int, now: float) -> None:
        arrived = min(number - self._acked, len(self._unacked) + len(self._queue))
        for _ in range(arrived):
            (self._unacked or self._queue).popleft()
        self._acked += arrived
        self._since, self._patience, self.stuck = now, RESEND, 0

    def resend(self, now: float) -> bool:
        """Queue frames again that were not acknowledged for long; return whether there are any."""
        if not self._unacked or now - self._since < self._patience:
            return False
        self._queue.extendleft(reversed(self._unacked))
        self._unacked.clear()
        self._since, self._patience = now, min(self._patience * 2, RESEND_MAX)
        return True

    def hurry(self) -> None:
        """Send unacknowledged frames again at the next check, since the other node is heard again."""
        self._since, self._patience = -RESEND_MAX, RESEND

    @property
    def is_waiting(self) -> bool:
        """Whether an acknowledgement is due from either side."""
        return self.owes_ack or bool(self._unacked)
