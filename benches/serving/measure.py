"""Loads a server with one request over and over and prints what it bears.

    measure.py URL BODY [--grpc] [--connections 16] [--seconds 15] [--shares 0.5,0.8,1] [--server PID]

BODY is a file of `bodies.py`; BODY.headers next to it names its headers. First a closed loop: CONNECTIONS callers, each sends when it was answered:
the rate at saturation. Then open loops at SHARES of that rate: requests are due at fixed times whether or not earlier ones were answered, and
a latency counts from the time a request was due, so that a stall is felt by all that should have been sent meanwhile.
The load comes from `oha` (`cargo install oha --locked --no-default-features --features native-tls`; the environment's OHA may name it). --server sums the processor time of
that process and those it started. With --grpc, URL is http://HOST:PORT/inference.GRPCInferenceService/ModelInfer and BODY a .frame file:
oha does not read gRPC's own status, so one request is sent beforehand to see that it succeeds.
"""

import argparse
import json
import os
import pathlib
import resource
import subprocess
import sys
import tempfile
import time
import urllib.request


def headers_of(body):
    return dict(line.split(": ", 1) for line in pathlib.Path(f"{body}.headers").read_text().splitlines())


def family(root):
    """A process and all that it started."""
    parents = {}
    for entry in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = entry.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        parents[int(entry.parent.name)] = int(fields[1])
    found = {root}
    while more := {child for child, parent in parents.items() if parent in found} - found:
        found |= more
    return found


def processor(root):
    """The seconds of processor time that a process and its children have used."""
    ticks = 0
    for each in family(root) if root else ():
        try:
            fields = pathlib.Path(f"/proc/{each}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def oha(options, *more):
    command = [os.environ.get("OHA", "oha"), "--no-tui", "--output-format", "json", "-m", "POST", "-D", str(options.body), "-z", f"{options.seconds}s", "--wait-ongoing-requests-after-deadline"]
    for name, value in headers_of(options.body).items():
        command += ["-T", value] if name.lower() == "content-type" else ["-H", f"{name}: {value}"]
    if options.grpc:
        command += ["--http2"]
    with tempfile.TemporaryFile() as output:
        before, own, start = resource.getrusage(resource.RUSAGE_CHILDREN), processor(options.server), time.perf_counter()
        subprocess.run(command + list(more) + [options.url], stdout=output, check=True)
        after, passed = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter() - start
        output.seek(0)
        result = json.load(output)
    client = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return result, passed, client, processor(options.server) - own


def line(name, measured, server, due=None):
    result, passed, client, used = measured
    answered = sum(result["statusCodeDistribution"].values())
    if due and answered >= due:
        # Over HTTP/2, callers that had nothing left to send are counted as errors: all that was due has been answered.
        result["errorDistribution"].pop("aborted due to deadline", None)
    times = {each: f"{(result['latencyPercentiles'][each] or 0) * 1e3:.1f}" for each in ("p50", "p99", "p99.9")}
    rate = result["statusCodeDistribution"].get("200", 0) / passed
    cost = f", server {used / max(answered, 1) * 1e3:.2f} ms of processor a request" if server else ""
    errors = "".join(f", {count} x {text}" for text, count in result["errorDistribution"].items())
    print(
        f"{name}: {rate:.1f} good answers/s, p50 {times['p50']} ms, p99 {times['p99']} ms, p99.9 {times['p99.9']} ms, "
        f"{f'{due} due, ' if due else ''}statuses {result['statusCodeDistribution']}{errors}{cost}, client {client / max(answered, 1) * 1e3:.2f} ms a request",
        flush=True,
    )
    return rate


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url")
    parser.add_argument("body", type=pathlib.Path)
    parser.add_argument("--grpc", action="store_true")
    parser.add_argument("--connections", type=int, default=16)
    parser.add_argument("--seconds", type=int, default=15)
    parser.add_argument("--shares", type=lambda text: [float(share) for share in text.split(",")], default=[0.8])
    parser.add_argument("--rate", type=float, help="the open loop's rate itself, without the closed loop")
    parser.add_argument("--server", type=int, default=0)
    options = parser.parse_args()
    if not options.grpc:
        request = urllib.request.Request(options.url, options.body.read_bytes(), headers_of(options.body))
        with urllib.request.urlopen(request, timeout=60) as answer:  # raises unless it succeeds
            answer.read()
    else:
        see_grpc(options)
    rates = [options.rate]
    if not options.rate:
        bears = line(f"closed loop, {options.connections} callers", oha(options, "-c", str(options.connections)), options.server)
        if bears <= 0:
            sys.exit("nothing was answered")
        rates = [share * bears for share in options.shares]
    for rate in rates:
        # Enough callers that none has to wait for another: an open loop must not become a closed one.
        rate = max(1, round(rate))
        line(f"open loop at {rate}/s", oha(options, "-c", "128", "-q", str(rate), "--latency-correction"), options.server, rate * options.seconds)


def see_grpc(options):
    import grpc

    host, _, path = options.url.removeprefix("http://").partition("/")
    channel = grpc.insecure_channel(host, [("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1)])
    channel.unary_unary(f"/{path}")(options.body.read_bytes()[5:], timeout=60)
    channel.close()


main()
