"""Attacks on a sandbox, played within it: prints the names of those that succeed, as JSON.

`python -IS sandbox_attacks.py SETTINGS`, where SETTINGS is JSON: `home`, `cwd`, `project`, `owner` (a process
outside), `prefix` (of the interpreter), `socket` (of a service), `metadata` (whether to play what Landlock does not
cover) and `only` (attacks to play). Each is played in a process that ends with it, and changes nothing that matters if
it succeeds.
"""

import ctypes
import json
import os
import platform
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

LIBC = ctypes.CDLL(None, use_errno=True)
RDONLY, REMOUNT, BIND, RECURSIVE, DETACH = 1, 32, 4096, 16384, 2
USER, MOUNTS, PIDS, CGROUPS, NET, IPC = 0x10000000, 0x20000, 0x20000000, 0x2000000, 0x40000000, 0x8000000
Attack = Callable[[], object]


def call(number: int, *words: Any) -> bool:
    """Whether a system call succeeds; numbers are those of x86-64."""
    return platform.machine() == "x86_64" and int(LIBC.syscall(number, *words)) >= 0


def mount(source: str, target: str, kind: str | None = None, flags: int = 0, data: str | None = None) -> bool:
    words = (text.encode() if text is not None else None for text in (source, target, kind))
    return int(LIBC.mount(*words, flags, data.encode() if data else None)) == 0


def read(path: str) -> bool:
    with open(path, "rb", buffering=0) as file:
        return bool(file.read(1))


def opens(path: str, flags: int = os.O_WRONLY) -> bool:
    """Whether *path* opens for writing; nothing is written."""
    os.close(os.open(path, flags))
    return True


def plant(path: str) -> bool:
    """Whether a file can be made at *path*."""
    with open(path, "x") as file:
        file.write("evil")
    return True


def in_namespace(flags: int, attack: Attack) -> Attack:
    """*attack*, played as root of a new user namespace."""

    def play() -> object:
        uid = os.getuid()
        if LIBC.unshare(USER | flags):
            return False
        for name, text in (("setgroups", "deny"), ("uid_map", f"0 {uid} 1"), ("gid_map", f"0 {os.getgid()} 1")):
            with suppress(OSError), open(f"/proc/self/{name}", "w") as file:
                file.write(text)
        return attack()

    return play


def in_child(attack: Attack) -> Attack:
    """*attack*, played by a child: the first process of a new pid namespace."""

    def play() -> object:
        if not (pid := os.fork()):
            os._exit(0 if succeeds(attack) else 1)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0

    return play


def succeeds(attack: Attack) -> bool:
    try:
        return bool(attack())
    except (OSError, ValueError):
        return False


def writable_below(top: str, most: int = 20000) -> Iterator[str]:
    """Files below *top*, except those of processes, that open for writing."""
    for folder, names, files in os.walk(top):
        names[:] = [name for name in names if not (folder == "/proc" and (name.isdecimal() or "self" in name))]
        for name in files:
            path = os.path.join(folder, name)
            most -= 1
            if most and not os.path.islink(path) and os.access(path, os.W_OK):
                with suppress(OSError):
                    opens(path, os.O_WRONLY | os.O_NONBLOCK)
                    yield path


def memory_of(pid: int) -> bool:
    """Whether the memory of a process can be read without a trace."""
    with open(f"/proc/{pid}/maps") as file:
        start = int(file.readline().partition("-")[0], 16)
    buffer = ctypes.create_string_buffer(8)
    here = (ctypes.c_size_t * 2)(ctypes.addressof(buffer), 8)
    there = (ctypes.c_size_t * 2)(start, 8)
    return call(310, pid, here, 1, there, 1, 0)


def connects(path: str) -> bool:
    with socket.socket(socket.AF_UNIX) as one:
        one.connect(path)
    return True


def own_groups() -> list[str]:
    """The folders of the control groups of this process, as the machine has them."""
    with open("/proc/self/cgroup") as file:
        lines = [line.strip().split(":", 2) for line in file]
    return [f"/sys/fs/cgroup/{kinds or 'unified'}{path}".rstrip("/") for _, kinds, path in lines]


def handle_of_root() -> bool:
    """Whether a file is opened by its number, past every folder."""
    handle = (ctypes.c_uint32 * 6)(8, 1, 2, 0, 0, 0)
    fd = os.open("/etc", os.O_RDONLY)
    return call(304, fd, handle, os.O_RDONLY)


def with_mount(source: str, kind: str, then: str, data: str | None = None, flags: int = os.O_WRONLY) -> Attack:
    def play() -> object:
        os.makedirs("m", exist_ok=True)
        return mount(source, "m", kind, 0, data) and opens(f"m/{then}", flags)

    return play


def of_mounts(home: str) -> dict[str, Attack]:
    """What changes the file system that the agent sees."""
    secret, new = f"{home}/.ssh/id_rsa", f"{home}/planted"
    return {
        "remount /": lambda: mount("none", "/", flags=REMOUNT | BIND) and plant(new),
        "remount the home": lambda: mount("none", home, flags=REMOUNT | BIND) and plant(new),
        "remount /proc/sys": lambda: mount("none", "/proc/sys", flags=REMOUNT | BIND),
        "umount the home": lambda: LIBC.umount2(home.encode(), DETACH) == 0,
        "umount /tmp": lambda: LIBC.umount2(b"/tmp", DETACH) == 0,
        "umount /proc": lambda: LIBC.umount2(b"/proc", DETACH) == 0,
        "umount /": lambda: LIBC.umount2(b"/", DETACH) == 0,
        "mount over the home": lambda: mount("none", home, "tmpfs"),
        "bind / elsewhere": lambda: mount("/", os.getcwd(), None, BIND | RECURSIVE),
        "mount a new proc": with_mount("proc", "proc", "sys/vm/swappiness"),
        "mount a new sysfs": with_mount("sysfs", "sysfs", "kernel/uevent_helper"),
        "mount cgroup2": with_mount("none", "cgroup2", "cgroup.procs"),
        "mount cgroup": with_mount("none", "cgroup", "cgroup.procs", "freezer"),
        "mount devpts": with_mount("none", "devpts", "ptmx"),
        "mount the disk": lambda: any(mount(f"/dev/{name}", os.getcwd(), "ext4", RDONLY) for name in ("vda", "sda")),
        "mount an overlay": lambda: mount("none", home, "overlay", 0, f"lowerdir=/,upperdir={os.getcwd()},workdir=w"),
        "open_tree": lambda: call(428, -100, b"/", 1 | 0o2000000 | 0x8000),
        "fsopen": lambda: call(430, b"tmpfs", 0),
        "mount_setattr": lambda: call(442, -100, b"/", 0x8000, (ctypes.c_uint64 * 4)(0, RDONLY, 0, 0), 32),
        "move_mount": lambda: call(429, -100, home.encode(), -100, os.getcwd().encode(), 0),
        "pivot_root": lambda: call(155, os.getcwd().encode(), os.getcwd().encode()),
        "chroot": lambda: LIBC.chroot(os.getcwd().encode()) == 0,
        "read by a handle": handle_of_root,
        "leave by an open folder": lambda: read(f"/proc/self/cwd/../../../../..{secret}"),
    }


def of_namespaces(home: str) -> dict[str, Attack]:
    """The same, with the capabilities of a new user namespace."""
    fresh = {f"{name}, in new namespaces": in_namespace(MOUNTS, play) for name, play in of_mounts(home).items()}
    fresh.pop("mount an overlay, in new namespaces")
    fresh.pop("chroot, in new namespaces")  # shows nothing that it does not see
    fresh.pop("bind / elsewhere, in new namespaces")
    fresh.pop("open_tree, in new namespaces")
    fresh.pop("fsopen, in new namespaces")
    fresh.pop("mount over the home, in new namespaces")
    fresh |= {
        "cgroup2 in a new namespace of groups": in_namespace(MOUNTS | CGROUPS, of_mounts(home)["mount cgroup2"]),
        "cgroup in a new namespace of groups": in_namespace(MOUNTS | CGROUPS, of_mounts(home)["mount cgroup"]),
        "proc in a new namespace of processes": in_namespace(
            MOUNTS | PIDS, in_child(of_mounts(home)["mount a new proc"])
        ),
        "sysfs in a new network": in_namespace(MOUNTS | NET, of_mounts(home)["mount a new sysfs"]),
        "kernel files in a new user namespace": in_namespace(0, lambda: any(writable_below("/proc"))),
        "shared memory of a new namespace": in_namespace(IPC, lambda: opens("/proc/sys/kernel/shmmax")),
    }
    return fresh


def of_kernel() -> dict[str, Attack]:
    """What reaches the kernel."""
    names = ("/proc/sys/kernel/core_pattern", "/proc/sys/kernel/modprobe", "/proc/sys/vm/drop_caches")
    names += ("/proc/sysrq-trigger", "/proc/mtrr", "/proc/sys/user/max_user_namespaces", "/proc/sys/fs/file-max")
    names += (
        "/proc/1/oom_score_adj_outside",
        "/sys/kernel/uevent_helper",
        "/sys/power/state",
        "/sys/kernel/mm/ksm/run",
    )
    names += ("/dev/mem", "/dev/kmsg", "/dev/vda", "/dev/sda", "/dev/loop-control", "/dev/fuse", "/dev/net/tun")
    attacks: dict[str, Attack] = {f"write {name}": (lambda name=name: opens(name)) for name in names}
    return attacks | {
        "write any file of /proc": lambda: list(writable_below("/proc")),
        "write any file of /sys": lambda: list(writable_below("/sys")),
        "write its control group": lambda: any(succeeds(lambda g=g: opens(f"{g}/cgroup.procs")) for g in own_groups()),
        "make a device": lambda: os.mknod("disk", 0o60600, os.makedev(254, 0)) or read("disk"),
        "load a module": lambda: call(175, b"", 0, b"") or ctypes.get_errno() not in (1, 38),
        "load a program into the kernel": lambda: call(321, 0, (ctypes.c_uint32 * 8)(1, 4, 4, 1), 32),
        "watch all processes": lambda: call(298, (ctypes.c_uint32 * 16)(1, 64), -1, 0, -1, 0),
        "set the host's name": lambda: LIBC.sethostname((name := os.uname().nodename).encode(), len(name)) == 0,
        "raise its priority": lambda: os.nice(-1) < 0,
        "read the kernel's log": lambda: call(103, 3, ctypes.create_string_buffer(64), 64),
        "read kernel memory": lambda: read("/proc/kcore"),
    }


def of_processes(owner: int, home: str) -> dict[str, Attack]:
    """What reaches the process *owner*, which is outside."""
    proc, spaces = f"/proc/{owner}", ("mnt", "pid", "user", "net")

    def joins(name: str, pid: int | str) -> bool:
        fd = os.open(f"/proc/{pid}/ns/{name}", os.O_RDONLY)
        return os.readlink(f"/proc/{pid}/ns/{name}") != os.readlink(f"/proc/self/ns/{name}") and LIBC.setns(fd, 0) == 0

    return {
        "its environment": lambda: read(f"{proc}/environ"),
        "its memory": lambda: opens(f"{proc}/mem", os.O_RDONLY),
        "its memory, by a call": lambda: memory_of(owner),
        "its root": lambda: read(f"{proc}/root{home}/.ssh/id_rsa"),
        "its folder": lambda: os.listdir(f"{proc}/cwd"),
        "its files": lambda: os.readlink(f"{proc}/fd/0"),
        "its threads' roots": lambda: read(f"{proc}/task/{owner}/root{home}/.netrc"),
        "any process's root": lambda: any(
            succeeds(lambda n=n: read(f"/proc/{n}/root{home}/.netrc")) for n in os.listdir("/proc") if n.isdecimal()
        ),
        "its score": lambda: opens(f"{proc}/oom_score_adj"),
        "trace it": lambda: LIBC.ptrace(16, owner, 0, 0) == 0,
        "seize it": lambda: LIBC.ptrace(0x4206, owner, 0, 0) == 0,
        "signal it": lambda: os.kill(owner, 0) or os.kill(owner, signal.SIGCONT) is None,
        "take its descriptors": lambda: call(438, os.pidfd_open(owner), 0, 0),
        **{f"join its {name}": (lambda name=name: joins(name, owner)) for name in spaces},
        "join the first process": lambda: joins("mnt", 1),
    }


def of_files(home: str, cwd: str, project: str, prefix: str, service: str) -> dict[str, Attack]:
    """What is read, written and planted outside of the agent's folders."""
    plain = f"{project}/file"

    def through(act: Callable[[str, str], object], source: str) -> Attack:
        return lambda: act(source, "within") or read("within") or opens("within")

    def reopened() -> bool:
        fd = os.open(plain, os.O_RDONLY)
        return opens(f"/proc/self/fd/{fd}")

    planted = (
        *(f"{home}/{name}" for name in (".bash_profile", ".config/systemd", ".config/autostart", ".local/bin/git")),
        *(
            f"{home}/{name}"
            for name in (".cargo/config.toml", ".config/git/attributes", ".npmrc.new", ".pam_environment")
        ),
        *(
            f"{home}/{name}"
            for name in (".claude/new", ".pi/agent/models.json", ".gemini/new", ".ssh/config", ".vimrc")
        ),
        *("/etc/ld.so.preload", "/etc/cron.d/new", "/var/spool/cron/new", "/usr/local/bin/git", "/opt/new", "/new"),
        *(f"{prefix}/new.pth", f"{project}/new", f"{project}/.git/hooks/post-commit", "/var/lib/new", "/srv/new"),
    )
    attacks: dict[str, Attack] = {f"plant {path}": (lambda path=path: plant(path)) for path in planted}
    return attacks | {
        "link a secret, soft": through(os.symlink, f"{home}/.ssh/id_rsa"),
        "link a secret, hard": through(os.link, f"{home}/.ssh/id_rsa"),
        "link a plain file, hard": lambda: os.link(plain, "hard") or opens("hard"),
        "take a plain file": lambda: os.rename(plain, "taken") is None,
        "swap its folder": lambda: os.rename(cwd, f"{cwd}2") is None,
        "truncate": lambda: os.truncate(plain, 1) is None,
        "reopen for writing": reopened,
        "write by a link": lambda: os.symlink(home, "out") or plant("out/planted"),
        "remove": lambda: os.remove(plain) is None,
        "list the home": lambda: {".ssh", ".netrc"} & set(os.listdir(home)) and read(f"{home}/.netrc"),
        "write the interpreter": lambda: opens(os.path.realpath(sys.executable)),
        "write /proc/self/exe": lambda: opens("/proc/self/exe"),
        "reach a service by its socket": lambda: connects(service),
        "read shadow": lambda: os.geteuid() == 0 and read("/etc/shadow"),
        "shared memory of others": lambda: read(f"/dev/shm/{os.path.basename(project)}"),
        "queues of others": lambda: os.listdir("/dev/mqueue"),
    }


def beyond_landlock(project: str, owner: int) -> dict[str, Attack]:
    """What changes modes, owners and times of files, and the limits of processes, which Landlock does not cover."""
    plain = f"{project}/file"
    return {
        "chmod": lambda: os.chmod(plain, 0o666) is None,
        "chown": lambda: os.chown(plain, os.getuid(), os.getgid()) is None,
        "set times": lambda: os.utime(plain, (1, 1)) is None,
        "set an attribute": lambda: os.setxattr(plain, "user.evil", b"1") is None,
        "its limits": lambda: call(302, owner, 7, None, (ctypes.c_uint64 * 2)()),
        "make a program set-uid": lambda: os.chmod(plain, 0o4755) is None,
    }


def all_attacks(given: dict[str, Any]) -> dict[str, Attack]:
    home, cwd, project, owner = given["home"], given["cwd"], given["project"], given["owner"]
    files = of_files(home, cwd, project, given["prefix"], given["socket"])
    attacks = of_mounts(home) | of_namespaces(home) | of_kernel() | of_processes(owner, home) | files
    return attacks | (beyond_landlock(project, owner) if given["metadata"] else {})


def main(settings: str) -> None:
    given = json.loads(settings)
    attacks = all_attacks(given)
    found = []
    for name, attack in attacks.items():
        if given.get("only") and not any(part in name for part in given["only"]):
            continue
        if in_child(attack)():
            found.append(name)
    print(json.dumps({"played": len(attacks), "succeeded": found}))


if __name__ == "__main__":
    main(sys.argv[1])
