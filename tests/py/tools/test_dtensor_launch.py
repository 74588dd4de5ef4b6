"""dtensor-launch, with programs that need no jax; real clients are in clients/."""

import os
import pty
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dtensor.tools.dtensor_launch import main

ROOT = Path(__file__).resolve().parents[3]
ME = "import os, sys, time; me = int(os.environ['DTENSOR_CLIENT_ID'])\n"


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "dtensor.tools.dtensor_launch", *arguments]


def launch(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*arguments), cwd=ROOT, capture_output=True, text=True, check=False, timeout=60
    )


def hearing_command(*arguments: str) -> list[str]:
    """The command, with the signals that a shell switches off for what it starts in background."""
    program = (
        "import signal, sys; from dtensor.tools.dtensor_launch import main\n"
        "for number in (signal.SIGINT, signal.SIGHUP): signal.signal(number, signal.SIG_DFL)\n"
        "sys.exit(main(sys.argv[1:]))"
    )
    return [sys.executable, "-c", program, *arguments]


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"  # it has ended, and nobody has asked how


@pytest.fixture
def program(tmp_path: Path) -> Path:
    return tmp_path / "program.py"


def test_every_line_has_its_client_before_it(program: Path) -> None:
    program.write_text(
        ME + "print('first', *sys.argv[1:]); sys.stdout.write('é last')\n"
        "print('trouble', file=sys.stderr)"
    )
    done = launch("-n", "3", str(program), "--steps", "2", "-n")
    assert done.returncode == 0
    lines = sorted(done.stdout.splitlines())
    assert lines == sorted(
        line for i in range(3) for line in (f"[{i}] first --steps 2 -n", f"[{i}] é last")
    )
    assert sorted(done.stderr.splitlines()) == [f"[{i}] trouble" for i in range(3)]


def test_clients_get_their_variables(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DTENSOR_NUM_CLIENTS", "7")
    names = ["DTENSOR_JOBS", "DTENSOR_CLIENT_ID", "JAX_NUM_CPU_DEVICES", "CUDA_VISIBLE_DEVICES"]
    program.write_text(
        f"import os; print(*map(os.environ.get, {names}), 'DTENSOR_NUM_CLIENTS' in os.environ)"
    )
    options = ["--devices-per-client", "3", "--gpus-per-client", "2", "--port", "4567"]
    done = launch("-n", "2", *options, str(program))
    jobs = "localhost:4567,localhost:4568"
    assert sorted(done.stdout.splitlines()) == [
        f"[0] {jobs} 0 3 0,1 False",
        f"[1] {jobs} 1 3 2,3 False",
    ]
    ports = re.findall(r"localhost:(\d+)", launch("-n", "2", str(program)).stdout)
    assert len(ports) == 4
    assert ports[:2] == ports[2:]
    assert ports[0] != ports[1]


def test_clients_that_share_a_gpu_are_hosts_of_their_own_for_nccl(program: Path) -> None:
    names = ["CUDA_VISIBLE_DEVICES", "NCCL_HOSTID", "XLA_PYTHON_CLIENT_PREALLOCATE"]
    program.write_text(f"import os; print(*map(os.environ.get, {names}))")
    done = launch("-n", "3", "--clients-per-gpu", "2", str(program))
    assert sorted(done.stdout.splitlines()) == [
        "[0] 0 client0 false",
        "[1] 0 client1 false",
        "[2] 1 client2 false",
    ]
    both = launch("-n", "2", "--clients-per-gpu", "2", "--gpus-per-client", "1", str(program))
    assert "--gpus-per-client and --clients-per-gpu say two things; give one" in both.stderr


def test_a_module_can_be_launched(program: Path) -> None:
    done = launch("-n", "1", "-m", "platform", "--terse")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("[0] ")


def test_when_one_fails_all_are_stopped(program: Path) -> None:
    program.write_text(
        ME
        + "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN if me else signal.SIG_DFL)\n"
        "print('up')\n"
        "if me == 2: time.sleep(0.5); sys.exit('no data')\n"
        "time.sleep(50)"
    )
    start = time.monotonic()
    done = launch("-n", "4", str(program))
    assert time.monotonic() - start < 10
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        "[2] no data",
        "dtensor-launch: client 2 failed with exit status 1; stopping the others",
    ]


def test_a_killed_client_counts_as_failed(program: Path) -> None:
    program.write_text(ME + "os.kill(os.getpid(), 11) if me else time.sleep(50)")
    done = launch("-n", "2", str(program))
    assert done.returncode == 128 + 11
    assert "dtensor-launch: client 1 was killed by SIGSEGV; stopping the others" in done.stderr


def test_a_client_that_ended_because_of_another_one_is_not_the_first(program: Path) -> None:
    program.write_text(ME + "time.sleep(0.3 if me == 1 else 0); sys.exit([75, 9, 75][me])")
    done = launch("-n", "3", str(program))
    assert done.returncode == 9
    assert (
        done.stderr == "dtensor-launch: client 1 failed with exit status 9; stopping the others\n"
    )
    program.write_text("raise SystemExit(75)")
    assert launch("-n", "2", str(program)).returncode == 75


def test_processes_that_clients_started_are_stopped_too(program: Path, tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    program.write_text(
        "import pathlib, subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(50)'])\n"
        f"pathlib.Path({str(pid)!r}).write_text(str(child.pid)); time.sleep(50)"
    )
    done = launch("-n", "1", "--timeout", "1", str(program))
    assert done.returncode == 124
    assert "dtensor-launch: after 1 s still running: client 0; stopping all" in done.stderr
    deadline = time.monotonic() + 10
    while is_running(int(pid.read_text())):
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupt_stops_all_and_lets_them_clear_up(
    program: Path, number: signal.Signals
) -> None:
    program.write_text(
        "import time\n"
        "try: print('up', flush=True); time.sleep(50)\n"
        "except KeyboardInterrupt: print('clear')"
    )
    with subprocess.Popen(
        hearing_command("-n", "2", str(program)),
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as started:
        assert started.stdout is not None
        assert {started.stdout.readline(), started.stdout.readline()} == {"[0] up\n", "[1] up\n"}
        started.send_signal(number)
        started.send_signal(number)  # somebody who is impatient
        out, err = started.communicate(timeout=60)
    assert started.returncode == 130
    assert err == "dtensor-launch: interrupted; stopping all clients\n"
    assert sorted(out.splitlines()) == ["[0] clear", "[1] clear"]


def test_an_interrupt_stops_also_those_who_do_not_hear_it(program: Path) -> None:
    program.write_text(
        "import signal, time\n"
        "for number in (signal.SIGINT, signal.SIGTERM): signal.signal(number, signal.SIG_IGN)\n"
        "print('up', flush=True); time.sleep(90)"
    )
    with subprocess.Popen(
        hearing_command("-n", "1", str(program)),
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as it:
        assert it.stdout is not None
        assert it.stdout.readline() == b"[0] up\n"
        it.send_signal(signal.SIGINT)
        it.communicate(timeout=60)
    assert it.returncode == 130


def test_what_clients_leave_behind_does_not_hold_the_launcher_up(program: Path) -> None:
    program.write_text(
        "import subprocess, sys\n"
        "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(20)'])"
    )
    start = time.monotonic()
    assert launch("-n", "8", str(program)).returncode == 0
    assert time.monotonic() - start < 15


def test_of_a_line_that_is_written_over_the_last_state_counts(program: Path) -> None:
    program.write_text("print('\\r 10%\\r 99%\\r100%')")
    assert launch("-n", "1", str(program)).stdout == "[0] 100%\n"


def test_long_lines_and_bytes_that_are_no_text_are_passed_on(program: Path) -> None:
    program.write_text("import sys; sys.stdout.buffer.write(b'\\xff' + b'y' * 300_000)")
    assert launch("-n", "1", str(program)).stdout == "[0] \ufffd" + "y" * 300_000 + "\n"


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is always full")
def test_output_that_is_lost_is_an_error_unless_nobody_wants_it(program: Path) -> None:
    program.write_text("for number in range(9): print(number, flush=True)")
    theirs, gone = os.pipe()
    os.close(theirs)
    said = "dtensor-launch: error: output of clients is lost: No space left on device; write it "
    for out, status, start in ((os.open("/dev/full", os.O_WRONLY), 1, said), (gone, 0, "")):
        done = subprocess.run(
            command("-n", "2", str(program)),
            cwd=ROOT,
            stdout=out,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
        os.close(out)
        assert done.returncode == status
        assert done.stderr.startswith(start)
        assert done.stderr.count("\n") == status


def test_on_a_terminal_clients_have_colours(program: Path) -> None:
    program.write_text("print('[red]text[/red] ' + 'x' * 200)")
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        command("-n", "1", str(program)),
        cwd=ROOT,
        env={**os.environ, "TERM": "xterm", "NO_COLOR": ""},
        stdout=theirs,
        stderr=subprocess.DEVNULL,
    ) as started:
        assert started.wait(30) == 0
    os.close(theirs)
    said = os.read(ours, 4096).decode()
    os.close(ours)
    assert "\x1b[36m[0] \x1b[0m[red]text[/red] " + "x" * 200 in said


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["-n", "0", "program.py"], "--clients is 0; it must be above 0"),
        (["-n", "2", "--devices-per-client", "-1", "x.py"], "--devices-per-client is -1; it must"),
        (["-n", "2", "--devices-per-client", "4096", "x.py"], "--devices-per-client is 4096; it"),
        (["-n", "2", "--timeout", "nan", "x.py"], "--timeout is nan; it must be above 0"),
        (["-n", "2", "--timeout", "inf", "x.py"], "--timeout is inf; it must be above 0, up to 1"),
        (["-n", "2", "--port", "65535", "x.py"], "--port is 65535; it must be 1 to 65534"),
        (
            ["-n", "2", "--nnodes", "2", "--address", "a:1", "--port", "9000", "x.py"],
            "--port is for clients of one machine; on several, --address has the port of client 0",
        ),
        (["-n", "2", "--max-restarts", "-1", "x.py"], "--max-restarts is -1; it must be 0 or more"),
        (
            ["-n", "2", "--nnodes", "2", "--node-rank", "2", "x.py"],
            "--node-rank is 2; it must be below 2, --nnodes",
        ),
        (
            ["-n", "2", "--node-rank", "0", "x.py"],
            "--node-rank is for several machines; say of how",
        ),
        (["-n", "2", "--address", "a:1", "x.py"], "--address is for several machines; say of how"),
        (["-n", "2", "--nnodes", "1", "--address", "nope", "x.py"], "--address is nope; with --nn"),
        (
            ["-n", "2", "--nnodes", "2", "--address", "b:99999", "x.py"],
            "--address is b:99999; with",
        ),
        (["-n", "2", "--nnodes", "2", "x.py"], "--address is None; with --nnodes it must be HOST:"),
        (["-n", "2", "missing.py"], "there is no file missing.py"),
    ],
)
def test_what_cannot_be_followed(
    arguments: list[str], problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    assert capsys.readouterr().err.startswith(f"dtensor-launch: error: {problem}")


def test_more_clients_than_the_machine_can_start(program: Path) -> None:
    program.write_text("")
    limited = "import resource, sys; resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40)); "
    limited += (
        f"from dtensor.tools.dtensor_launch import main; main(['-n', '60', {str(program)!r}])"
    )
    done = subprocess.run([sys.executable, "-c", limited], cwd=ROOT, capture_output=True, text=True)
    start = "dtensor-launch: error: cannot start 60 clients: Too many open files; start fewer"
    assert done.stderr.splitlines() == [start]


def test_ports_that_cannot_be_used(program: Path) -> None:
    program.write_text("")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = launch("-n", "1", "--port", str(port), str(program))
    assert done.returncode == 2
    assert done.stderr == (
        "dtensor-launch: error: cannot start 1 clients: Address already in use, for a port from "
        f"{port} on; choose others, or leave --port out\n"
    )


@pytest.mark.parametrize("arguments", [[], ["-n"], ["-n", "two", "x.py"], ["-n", "2"]])
def test_what_argparse_refuses(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(arguments)
    assert end.value.code == 2
    said = capsys.readouterr().err
    assert "dtensor-launch: error: " in said
    assert "..." not in said.rpartition("error: ")[2]


def test_the_help_helps(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["--help"])
    assert not end.value.code
    said = capsys.readouterr().out
    for word in ("examples:", "exit status:", "--devices-per-client", "DTENSOR_CLIENT_ID"):
        assert word in said


def test_starting_does_not_import_jax() -> None:
    program = "import sys, dtensor.tools.dtensor_launch; sys.exit('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=False).returncode == 0
