"""Hands the socket of a kernel process to the process that has the callable: python relay.py PATH

tokitai check starts this program; the program connects to the Unix socket at PATH and passes on the socket in TOKITAI_FD
with its own standard output and error. It ends as the process ends that serves in its place: with the same exit code, or
by the same signal."""

import os
import resource
import signal
import socket
import sys


def main() -> int:
    with socket.socket(socket.AF_UNIX) as home:
        home.connect(sys.argv[1])
        socket.send_fds(home, [os.environ.get("TOKITAI_SEED", "").encode() + b"\n"], [int(os.environ["TOKITAI_FD"]), 1, 2])
        os.close(int(os.environ["TOKITAI_FD"]))
        return end_as(home.recv(64).decode())


def end_as(status: str) -> int:
    """Ends this process as another one ended: returns its exit code, or dies by its signal."""
    how, _, number = status.partition(" ")
    if how == "signal":
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        signal.signal(int(number), signal.SIG_DFL) if int(number) != signal.SIGKILL else None
        os.kill(os.getpid(), int(number))
    return int(number) if how == "exit" else 1


if __name__ == "__main__":
    sys.exit(main())
