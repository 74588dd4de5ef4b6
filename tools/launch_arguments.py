"""The command line of dtensor-launch, and which machine of several it is on."""

from __future__ import annotations

import argparse
import os
import re
from pathlib import Path

from dtensor.tools import add_version
from dtensor.tools.command_line import UsageError

_DESCRIPTION = """\
Starts N copies of a Python program on this machine, the clients of one run, each with its own
DTENSOR_CLIENT_ID and all with the same DTENSOR_JOBS. The program calls
dtensor.initialize_accelerator_system(), which connects them. Each line they print gets the number
of its client before it: [2] loss 0.31

On several machines start it once on each, with --nnodes, --node-rank and --address, or as one task
per machine under srun, mpirun or torchrun, which say the three. The clients then get torchrun's
variables MASTER_ADDR, MASTER_PORT, RANK and WORLD_SIZE in place of DTENSOR_JOBS.
"""
_EPILOG = """\
examples:
  dtensor-launch -n 4 train.py --steps 100           4 clients, with the devices each one finds
  dtensor-launch -n 2 --devices-per-client 4 train.py   each with 4 virtual CPU devices
  dtensor-launch -n 2 --gpus-per-client 4 train.py      each with 4 of this machine's GPUs
  dtensor-launch -n 8 --clients-per-gpu 8 train.py      8 clients on one GPU, to try what takes 8
  dtensor-launch -n 2 -m package.train               a module
  dtensor-launch -n 8 --max-restarts 3 train.py      that goes on from its last checkpoint
  srun --ntasks-per-node=1 dtensor-launch -n 8 train.py   8 clients on each machine of the job

When a client fails, the others get 1 s to end by themselves and are then stopped. Ctrl-C is a
KeyboardInterrupt in every client, which has 2 s for it. With --max-restarts, all clients are then
started again, on every machine; the program goes on from its last checkpoint. Options come before
the program; what comes after it is the program's.

exit status: 0 all clients ended well; that of the client that failed first, 128 + the signal if one
killed it; 1 if what they print cannot be written; 124 after --timeout; 130 after Ctrl-C; 2 for a
command line that cannot be followed.
"""
_LONGEST_SECONDS = 1e6
_LAUNCHERS = ("MASTER_ADDR", "OMPI_COMM_WORLD_SIZE", "SLURM_STEP_NODELIST")


def parser() -> argparse.ArgumentParser:
    """The command line of dtensor-launch."""
    it = argparse.ArgumentParser(
        prog="dtensor-launch",
        usage="dtensor-launch -n N [options] PROGRAM.py [arguments]",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = it.add_argument
    add("-n", "--clients", type=int, required=True, metavar="N", help="how many clients")
    add("--devices-per-client", type=int, metavar="K", help="virtual CPU devices of each client")
    add("--gpus-per-client", type=int, metavar="K", help="GPUs of each client: 0 to K-1, K to ...")
    add(
        "--clients-per-gpu", type=int, metavar="K", help="clients that share a GPU; slow, for tests"
    )
    add("--port", type=int, metavar="P", help="port of client 0, the others follow; default: free")
    add("--nnodes", type=int, metavar="M", help="machines, each with N clients; default: 1")
    add("--node-rank", type=int, metavar="R", help="which of them this is, from 0 on")
    add("--address", metavar="HOST:PORT", help="where client 0 listens, on the machine of rank 0")
    add("--max-restarts", type=int, default=0, metavar="K", help="start all again, so many times")
    add("--timeout", type=float, metavar="S", help="stop all clients after S seconds")
    add("-m", "--module", action="store_true", help="PROGRAM is a module, as with python -m")
    add_version(it)
    add("program", metavar="PROGRAM", help="the program each client runs")
    rest = add("arguments", nargs=argparse.REMAINDER, metavar="...", help="the program's arguments")
    rest.required = False  # or errors would name it
    return it


def problem(options: argparse.Namespace) -> str | None:
    """What is wrong with a command line; None if it can be followed."""
    if options.gpus_per_client is not None and options.clients_per_gpu is not None:
        return "--gpus-per-client and --clients-per-gpu say two things; give one"
    for name in (
        *("clients", "nnodes", "devices_per_client", "gpus_per_client", "clients_per_gpu"),
        "timeout",
    ):
        value = getattr(options, name)
        # jax numbers the CPU devices of a process so that there can be no more.
        most = 2048 if name == "devices_per_client" else _LONGEST_SECONDS
        if value is not None and not 0 < value <= most:
            return f"--{name.replace('_', '-')} is {value}; it must be above 0, up to {most:.0f}"
    if options.max_restarts < 0:
        return f"--max-restarts is {options.max_restarts}; it must be 0 or more"
    if options.port is not None and options.nnodes > 1:
        return (
            "--port is for clients of one machine; on several, --address has the port of client 0"
        )
    if options.port is not None and not 1 <= options.port <= 65536 - options.clients:
        return (
            f"--port is {options.port}; it must be 1 to {65536 - options.clients}, so that "
            f"{options.clients} ports follow"
        )
    if not 0 <= options.node_rank < options.nnodes:
        return f"--node-rank is {options.node_rank}; it must be below {options.nnodes}, --nnodes"
    if (options.nnodes > 1 or options.address is not None) and not _is_address(options.address):
        return (
            f"--address is {options.address}; with --nnodes it must be HOST:PORT of client 0, the "
            "port 1 to 65535"
        )
    if not options.module and not Path(options.program).is_file():
        return f"there is no file {options.program}"
    return None


def _is_address(text: str | None) -> bool:
    found = re.fullmatch(r".+:(\d{1,5})", text or "")
    return found is not None and 1 <= int(found[1]) <= 65535


def find_place(options: argparse.Namespace) -> None:
    """Fill in which machine of how many this is, as a launcher of this launcher says.

    Raises:
        DTensorError: its variables are malformed, or the command line says which machine this is
            and not of how many.
    """
    for name in ("node_rank", "address"):
        if options.nnodes is None and getattr(options, name) is not None:
            raise UsageError(
                f"--{name.replace('_', '-')} is for several machines; say of how many, by "
                "--nnodes, or leave it out"
            )
    place = None
    given = (options.nnodes, options.node_rank, options.address)
    if given == (None, None, None) and any(name in os.environ for name in _LAUNCHERS):
        from dtensor.runtime.clients import environment  # it asks jax

        place = None if os.environ.get(environment.JOBS) else environment.seat()
    if place is not None:
        options.nnodes, options.node_rank = place.count, place.index
        options.address = place.address
    options.nnodes = 1 if options.nnodes is None else options.nnodes
    options.node_rank = 0 if options.node_rank is None else options.node_rank
