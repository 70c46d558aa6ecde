"""Run the embedded Milvus server until standard input ends: `serve.py FOLDER`. Prints its port once it answers."""

import os
import socket
import sys
import time
import urllib.request
from pathlib import Path

from milvus import MilvusServer, MilvusServerConfig

COMPONENTS = ("rootCoord", "proxy", "queryCoord", "queryNode", "indexCoord", "indexNode", "dataCoord", "dataNode")


def etcd_configuration(folder: Path) -> Path:
    """The etcd inside it would take ports 2379 and 2380, whatever else is there."""
    with socket.socket() as clients, socket.socket() as peers:
        urls = []
        for free in (clients, peers):
            free.bind(("127.0.0.1", 0))
            urls.append(f"http://127.0.0.1:{free.getsockname()[1]}")
    lines = [f"{kind}-client-urls: {urls[0]}" for kind in ("listen", "advertise")]
    lines += [f"{kind}-peer-urls: {urls[1]}" for kind in ("listen", "initial-advertise")]
    path = folder / "etcd.yaml"
    path.write_text("\n".join([*lines, f"initial-cluster: default={urls[1]}", ""]))
    return path


def wait_for(server: MilvusServer) -> None:
    """Until it says that it is healthy. Raises RuntimeError where it ends before."""
    while True:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{server.webservice_port}/healthz", timeout=5) as answer:
                if b"OK" in answer.read():
                    return
        except OSError:
            pass
        if server.server_proc.poll() is not None:
            raise RuntimeError(f"the server ended with code {server.server_proc.returncode}")
        time.sleep(0.1)


def main(folder: Path) -> None:
    os.environ["ETCD_CONFIG_PATH"] = str(etcd_configuration(folder))
    server = MilvusServer(MilvusServerConfig(data_dir=str(folder)), wait_for_started=False)
    for component in COMPONENTS:  # it would take, and announce, an address that others may reach
        server.config.set(f"{component}.ip", "127.0.0.1")
    # Its intervals are made for long lives; a test builds a collection of 2,000 rows and drops it.
    server.config.set("dataCoord.segment.assignmentExpiration", 200)
    server.config.set("queryCoord.checkInterval", 100)
    server.config.set("queryCoord.distPullInterval", 50)
    try:
        server.start()
        wait_for(server)
        print(server.listen_port, flush=True)
        sys.stdin.read()
    finally:
        server.stop()


main(Path(sys.argv[1]))
