"""What a process holds: memory, descriptors, tasks and threads."""

import asyncio
import gc
import os
import sys
import threading


def held() -> dict[str, float]:
    """What this process holds now."""
    gc.collect()
    gc.collect()
    return {
        "blocks": sys.getallocatedblocks(),
        "descriptors": len(os.listdir("/dev/fd")),
        "tasks": len(asyncio.all_tasks()),
        "threads": threading.active_count(),
    }
