"""What lit needs to know: which files are tests, and what the tools in RUN lines are."""

import atexit
import os
import shutil
import subprocess
import sys
import tempfile

import lit.formats

root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

config.name = "dtensor"
config.test_format = lit.formats.ShTest()  # lit's own shell: pipes, `not`, `diff`, `cat`, `env`
config.suffixes = [".mlir"]
config.test_exec_root = os.path.join(root, "build", "lit")

# The tools of the Python that runs lit, so that an activated environment is not needed, and the
# checkout's own. A RUN line may say `dtensor-opt` or `%dtensor-opt`.
folder = os.path.join(root, "tests", "lit")
sys.path.insert(0, root)
from tests.lit.ask import ADDRESS, MODULES  # noqa: E402

for name in MODULES:
    command = f'"{sys.executable}" -I -S "{os.path.join(folder, "ask.py")}" {name}'
    config.substitutions.append((rf"(?<![\w./-])%?{name}(?![\w./-])", command))

config.environment["PYTHONPATH"] = root
config.environment["OPENBLAS_NUM_THREADS"] = "1"  # numpy then starts no threads: tests are short


def start_server():
    """Start forks.py, which ends when lit and its workers have; gives its address."""
    home = tempfile.mkdtemp(prefix="dtensor-lit-")  # a socket's name must be short
    address = os.path.join(home, "socket")
    server = subprocess.Popen(
        [sys.executable, os.path.join(folder, "forks.py"), address],
        env={**os.environ, **config.environment},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )

    def end():
        server.communicate()
        shutil.rmtree(home)

    atexit.register(end)
    if not server.stdout.readline():
        lit_config.warning("the server of forks.py did not start: each command imports its tool")
    return address


config.environment[ADDRESS] = start_server()
