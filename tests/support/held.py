"""What a process holds: memory, descriptors, tasks and threads."""

import asyncio
import gc
import os
import sys
import threading


def held() -> dict[str, float]:
    """What this process holds now, without the threads of asyncio's pool, which fills up as it happens to be asked."""
    gc.collect()
    gc.collect()
    return {
        "blocks": sys.getallocatedblocks(),
        "descriptors": len(os.listdir("/dev/fd")),
        "tasks": len(asyncio.all_tasks()),
        "threads": sum(not one.name.startswith("asyncio_") for one in threading.enumerate()),
    }
