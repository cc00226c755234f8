"""A real Ray cluster of one node on loopback, for the length of a test."""

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def ray_cluster(log: Path) -> Iterator[str]:
    """Gives its address."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    options = ["--node-ip-address=127.0.0.1", f"--port={port}", "--num-cpus=2", "--block"]
    options += ["--include-dashboard=false", "--disable-usage-stats"]
    ray = Path(sys.executable).with_name("ray")
    with open(log, "w") as output:
        head = subprocess.Popen(
            ["setpriv", "--pdeathsig=TERM", "--", str(ray), "start", "--head", *options],
            stdout=output,
            stderr=output,
        )
    try:
        for _ in range(600):
            if "Ray runtime started" in log.read_text():
                break
            assert head.poll() is None, log.read_text()
            time.sleep(0.1)
        yield f"127.0.0.1:{port}"
    finally:
        head.terminate()
        head.wait()
