"""The tools of RUN lines: `ask.py NAME WORDS` does what `python -m MODULE WORDS` does, sooner.

It hands its words, environment, folder and files to the server of `forks.py`, which has imported
the tool already, and ends as the tool does. Without a server it becomes the plain command. It is
run without the site's packages and imports only what is built in: it starts in 20 ms.
"""

import _socket
import marshal
import os
import sys

ADDRESS = "DTENSOR_LIT_SERVER"  # the environment variable that says where the server listens
LENGTH = 8  # bytes that say how long a request is
STATUS = 4  # bytes of an answer: an exit status, negative where a signal ended the tool
MODULES = {"dtensor-opt": "dtensor.tools.dtensor_opt", "filecheck": "filecheck"}


def main() -> None:
    """Run the tool that the command line names, and exit with its status."""
    server = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        server.connect(os.environ[ADDRESS])
    except (KeyError, OSError):
        name, *words = sys.argv[1:]
        os.execv(sys.executable, [sys.executable, "-m", MODULES[name], *words])
    request = marshal.dumps((sys.argv[1:], os.getcwd(), dict(os.environ)))
    files = b"".join(n.to_bytes(4, sys.byteorder) for n in (0, 1, 2))
    rights = [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, files)]
    server.sendmsg([len(request).to_bytes(LENGTH, "little")], rights)
    server.sendall(request)
    for n in (0, 1, 2):  # the tool's alone: what reads from it shall see its end
        os.close(n)
    answer = server.recv(STATUS)
    status = int.from_bytes(answer, "little", signed=True) if answer else 125
    if status < 0:
        os.kill(os.getpid(), -status)
    os._exit(status)


if __name__ == "__main__":
    main()
