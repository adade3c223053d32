"""What a full mesh of Erlang nodes costs: starts small nodes on this machine, and prints a row for each size.

    python3 benches/fleet/mesh.py [--star] [--idle SECONDS] [SIZE...] > mesh.csv

Nodes have one scheduler, an `epmd` of their own on another port, and the loopback only. All of them end with this program. With
`--star` only the first is connected to all others, as a caller's node that servers need not know each other for.
"""

import argparse
import collections
import os
import pathlib
import queue
import secrets
import statistics
import subprocess
import sys
import tempfile
import threading
import time

PORT = "4470"
COLUMNS = "nodes,connections,connect_s,connect_cpu_s,rss_alone_mb,rss_mb,pss_mb,cpu_alone_ms_min,cpu_ms_min,pg_median_ms,pg_worst_ms"
# Of all nodes, so that a wrong argument does not fill the machine.
MOST_MB = 8000
ROUNDS = 20


class Said:
    """What all nodes say: for each word a queue of when it was said, and of how many connections the node had then."""

    def __init__(self):
        self.words = collections.defaultdict(queue.Queue)

    def wait_for(self, word, count, seconds):
        until, found = time.monotonic() + seconds, []
        while len(found) < count:
            try:
                found.append(self.words[word].get(timeout=max(until - time.monotonic(), 0.001)))
            except queue.Empty:
                raise SystemExit(f"only {len(found)} of {count} said {word} within {seconds} s") from None
        return found


class Node:
    """One Erlang node."""

    def __init__(self, number, size, star, folder, cookie, said):
        words = ["erl", "+S", "1:1", "+SDcpu", "1:1", "+SDio", "1", "+A", "1", "-noshell", "-pa", folder]
        words += ["-name", f"n{number}@127.0.0.1", "-setcookie", cookie]
        words += ["-connect_all", "false"] if star else []
        words += ["-kernel", "inet_dist_use_interface", "{127,0,0,1}", "-run", "mesh", "start", "-extra", str(size)]
        here = {**os.environ, "ERL_EPMD_PORT": PORT, "ERL_EPMD_ADDRESS": "127.0.0.1", "HOME": folder}
        self.process = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=here
        )
        threading.Thread(target=self.read, args=(said,), daemon=True).start()

    def read(self, said):
        for line in self.process.stdout:
            what, at, nodes = line.split()
            said.words[what].put((int(at), int(nodes)))

    def tell(self, what):
        self.process.stdin.write(what + "\n")
        self.process.stdin.flush()

    def memory(self):
        """Resident megabytes: all that it maps, and its part of what it shares with the others."""
        with open(f"/proc/{self.process.pid}/smaps_rollup", encoding="ascii") as file:
            rows = dict(line.split(":", 1) for line in file if ":" in line and "-" not in line.split(":")[0])
        return [int(rows[row].split()[0]) / 1024 for row in ("Rss", "Pss")]

    def processor(self):
        """Milliseconds that its threads ran."""
        total = 0
        for task in pathlib.Path(f"/proc/{self.process.pid}/task").iterdir():
            total += int((task / "schedstat").read_text(encoding="ascii").split()[0])
        return total / 1e6


def idle(nodes, seconds):
    """Milliseconds of processor for each node and minute, while nothing is asked of them."""
    before = [node.processor() for node in nodes]
    time.sleep(seconds)
    return statistics.mean(node.processor() - was for node, was in zip(nodes, before)) * 60 / seconds


def joins(nodes, star, said):
    """Milliseconds until the last node has seen that a process of one joined a group."""
    took = []
    for turn in range(ROUNDS):
        node = nodes[1 + turn % (len(nodes) - 1)]
        node.tell("join")
        [(started, _)] = said.wait_for("join", 1, 10)
        # Its own node sees it, too.
        took.append((max(at for at, _ in said.wait_for("seen", 2 if star else len(nodes), 30)) - started) / 1e3)
        node.tell("leave")
        time.sleep(0.3)
    return took


def measure(size, seconds, star, folder):
    said, cookie, nodes = Said(), secrets.token_hex(16), []
    try:
        for number in range(1, size + 1):
            nodes.append(Node(number, size, star, folder, cookie, said))
            if number % 4 == 0:
                said.wait_for("ready", 4, 60)
        said.wait_for("ready", size % 4, 60)
        time.sleep(5)
        alone = statistics.mean(node.memory()[0] for node in nodes)
        if alone * size > MOST_MB:
            raise SystemExit(f"{size} nodes of {alone:.0f} MB are too many")
        idle_alone = idle(nodes, seconds)
        before = sum(node.processor() for node in nodes)
        nodes[0].tell("connect")
        [(started, _)] = said.wait_for("connect", 1, 10)
        connected = (max(at for at, _ in said.wait_for("full", 1 if star else size, 300)) - started) / 1e6
        time.sleep(10)
        spent = (sum(node.processor() for node in nodes) - before) / 1e3
        idle_connected = idle(nodes, seconds)
        memory = [node.memory() for node in nodes]
        took = joins(nodes, star, said)
        for node in nodes:
            node.tell("count")
        connections = sum(count for _, count in said.wait_for("count", size, 30)) // 2
        rss, pss = (statistics.mean(column) for column in zip(*memory))
        return (
            f"{size},{connections},{connected:.3f},{spent:.2f},{alone:.1f},{rss:.1f},{pss:.1f},{idle_alone:.1f},{idle_connected:.1f},"
            f"{statistics.median(took):.2f},{max(took):.2f}"
        )
    finally:
        for node in nodes:
            node.process.kill()
        for node in nodes:
            node.process.wait()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--star", action="store_true")
    parser.add_argument("--idle", type=float, default=60)
    parser.add_argument("sizes", nargs="*", type=int, default=[10, 20, 40, 80, 120])
    arguments = parser.parse_args()
    here = pathlib.Path(__file__).parent
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["erlc", "-o", folder, str(here / "mesh.erl")], check=True)
        names = subprocess.Popen(["epmd", "-port", PORT, "-address", "127.0.0.1"])
        try:
            print(COLUMNS, flush=True)
            for size in arguments.sizes:
                print(measure(size, arguments.idle, arguments.star, folder), flush=True)
        finally:
            names.kill()
            names.wait()


if __name__ == "__main__":
    sys.exit(main())
