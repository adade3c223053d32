"""Times Dala Compute's kernels beside OpenCV and NumPy, and prints the ratios.

    pip install -r benches/peers/requirements.txt
    cargo build -p dala-compute --example peers
    python benches/peers/run.py [cpu|vulkan|gl] [start of a row's name]

Both sides run on the same machine in turn, several rounds each; the peers with two threads, Dala Compute with as many as
the machine has cores: compare on two. The shortest time of each counts. A
ratio below 1 means that Dala Compute is faster.
"""

import os
import statistics
import subprocess
import sys
import time

THREADS = 2
ROUNDS = 5
os.environ["OPENBLAS_NUM_THREADS"] = str(THREADS)

import cv2  # noqa: E402
import numpy as np  # noqa: E402

cv2.setNumThreads(THREADS)


def best(call, patience=0.4):
    """The shortest time of a call, in milliseconds."""
    for _ in range(3):
        call()
    shortest, start = float("inf"), time.perf_counter()
    while time.perf_counter() - start < patience:
        before = time.perf_counter()
        call()
        shortest = min(shortest, time.perf_counter() - before)
    return shortest * 1e3


def calls():
    """What the peers do, under the names that the example prints. Outputs are allocated once, as ours are."""
    rng = np.random.default_rng(1)
    image = rng.integers(0, 256, (1080, 1920, 4), dtype=np.uint8)
    same, gray = np.empty_like(image), np.empty((1080, 1920), np.uint8)
    small, edge = np.empty((720, 1280, 4), np.uint8), cv2.BORDER_REPLICATE
    binomial = np.array([1, 2, 1], np.float32) / 4
    sharp = -np.outer(binomial, binomial)
    sharp[1, 1] += 2

    def resize(how):
        return lambda: cv2.resize(image, (1280, 720), dst=small, interpolation=how)

    table = {
        "blur": ("GaussianBlur 7x7", lambda: cv2.GaussianBlur(image, (7, 7), 1.5, dst=same, borderType=edge)),
        "blur_20": ("GaussianBlur 41x41", lambda: cv2.GaussianBlur(image, (41, 41), 7.0, dst=same, borderType=edge)),
        "sharpen": ("filter2D 3x3", lambda: cv2.filter2D(image, -1, sharp, dst=same, borderType=edge)),
        "grayscale": ("cvtColor", lambda: cv2.cvtColor(image, cv2.COLOR_RGBA2GRAY, dst=gray)),
        "brightness_contrast": ("convertScaleAbs", lambda: cv2.convertScaleAbs(image, dst=same, alpha=1.2, beta=-25)),
        "flip": ("flip", lambda: cv2.flip(image, 1, dst=same)),
        # The only way of OpenCV to shrink without aliases is INTER_AREA; without antialias, bilinear is INTER_LINEAR.
        "resize": ("INTER_AREA", resize(cv2.INTER_AREA)),
        "resize_linear": ("INTER_LINEAR", resize(cv2.INTER_LINEAR)),
        "resize_area": ("INTER_AREA", resize(cv2.INTER_AREA)),
    }
    for n in (256, 512, 1024):
        a, b = (rng.standard_normal((n, n), dtype=np.float32) for _ in range(2))
        c = np.empty_like(a)
        table[f"matmul_{n}"] = ("numpy.matmul", lambda a=a, b=b, c=c: np.matmul(a, b, out=c))
    x, row = a, np.empty(1024, np.float32)

    def softmax():
        e = np.exp(x - x.max(-1, keepdims=True))
        e /= e.sum(-1, keepdims=True)
        return e

    table["softmax"] = ("numpy", softmax)
    table["transpose"] = ("numpy", lambda: np.copyto(c, x.T))
    table["reduce_sum_rows"] = ("numpy", lambda: np.sum(x, axis=1, out=row))
    table["reduce_sum_columns"] = ("numpy", lambda: np.sum(x, axis=0, out=row))
    return table


def example():
    target = os.environ.get("CARGO_TARGET_DIR", "target")
    return os.path.join(target, "debug", "examples", "peers")


def main():
    device = sys.argv[1] if len(sys.argv) > 1 else "cpu"
    wanted = sys.argv[2] if len(sys.argv) > 2 else ""
    peers = {name: peer for name, peer in calls().items() if name.startswith(wanted)}
    ours, theirs, ratios = {}, {}, {}
    for _ in range(ROUNDS):
        lines = subprocess.run([example(), device, wanted], check=True, capture_output=True, text=True).stdout.splitlines()
        round_ours = {name: float(ms) for name, ms in (line.split() for line in lines)}
        for name, (_, call) in peers.items():
            their = best(call)
            ratios.setdefault(name, []).append(round_ours[name] / their)
            ours[name] = min(ours.get(name, float("inf")), round_ours[name])
            theirs[name] = min(theirs.get(name, float("inf")), their)
    print(f"{'kernel':<22}{'ours ms':>9}{'peer ms':>9}{'best/best':>11}{'median of rounds':>18}  peer")
    for name, (peer, _) in peers.items():
        ratio, median = ours[name] / theirs[name], statistics.median(ratios[name])
        print(f"{name:<22}{ours[name]:>9.3f}{theirs[name]:>9.3f}{ratio:>11.2f}{median:>18.2f}  {peer}")


if __name__ == "__main__":
    main()
