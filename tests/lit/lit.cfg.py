"""What lit needs to know: which files are tests, and what the tools in RUN lines are."""

import os
import sys

import lit.formats

root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

config.name = "dtensor"
config.test_format = lit.formats.ShTest()  # lit's own shell: pipes, `not`, `diff`, `cat`, `env`
config.suffixes = [".mlir"]
config.test_exec_root = os.path.join(root, "build", "lit")

# The tools of the Python that runs lit, so that an activated environment is not needed. The
# module is run from the checkout itself; a RUN line may say `dtensor-opt` or `%dtensor-opt`.
tools = {"dtensor-opt": "dtensor.tools.dtensor_opt", "filecheck": "filecheck"}
for name, module in tools.items():
    command = f'"{sys.executable}" -m {module}'
    config.substitutions.append((rf"(?<![\w./-])%?{name}(?![\w./-])", command))

config.environment["PYTHONPATH"] = root
config.environment["OPENBLAS_NUM_THREADS"] = "1"  # numpy then starts no threads: tests are short
