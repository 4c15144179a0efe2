"""What the scripts beside it share: the peers come from PyPI into build/peers, versions as in
requirements.txt."""
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(os.path.dirname(HERE))
PEERS = os.path.join(TOP, "build", "peers")
PYTHON = os.path.join(PEERS, "venv", "bin", "python")


def install():
    requirements = os.path.join(HERE, "requirements.txt")
    stamp = os.path.join(PEERS, "requirements.txt")
    wanted = open(requirements).read()
    if os.path.exists(stamp) and open(stamp).read() == wanted:
        return
    subprocess.run([sys.executable, "-m", "venv", os.path.join(PEERS, "venv")], check=True)
    subprocess.run([PYTHON, "-m", "pip", "install", "--quiet", "-r", requirements], check=True)
    with open(stamp, "w") as file:
        file.write(wanted)
