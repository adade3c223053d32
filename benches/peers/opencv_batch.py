"""Runs a folder of photos through a filter chain of OpenCV's with two threads, and prints its milliseconds.

    python benches/peers/opencv_batch.py INPUT_FOLDER OUTPUT_FOLDER COUNT

A line `batch` decodes, filters and encodes all of them; `filters` only filters, COUNT pictures out of a few that are
decoded once. Threads of Python's with one thread of OpenCV's each, or one thread of Python's with two of OpenCV's:
whichever is faster here.
"""

import concurrent.futures
import os
import sys
import time

import cv2
import numpy as np

THREADS = 2
QUALITY = [cv2.IMWRITE_JPEG_QUALITY, 90]
# Pictures that are kept decoded.
KEPT = 16

source, target, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
names = sorted(os.listdir(source))
edge = cv2.BORDER_REPLICATE
binomial = np.array([1, 2, 1], np.float32) / 4
# x + 0.5 * (x - blurred), as one filter: OpenCV's fastest way.
kernel = -0.5 * np.outer(binomial, binomial)
kernel[1, 1] += 1.5


def chain(image):
    soft = cv2.GaussianBlur(image, (7, 7), 1.5, borderType=edge)
    sharp = cv2.filter2D(soft, -1, kernel, borderType=edge)
    return cv2.cvtColor(sharp, cv2.COLOR_BGR2GRAY)


def convert(name):
    image = cv2.imread(os.path.join(source, name), cv2.IMREAD_COLOR)
    cv2.imwrite(os.path.join(target, name), chain(image), QUALITY)


kept = [cv2.imread(os.path.join(source, name), cv2.IMREAD_COLOR) for name in names[:KEPT]]
pool = concurrent.futures.ThreadPoolExecutor(THREADS)


def filter_only(number):
    chain(kept[number % len(kept)])


def run(work, items, pooled):
    cv2.setNumThreads(1 if pooled else THREADS)
    start = time.perf_counter()
    for _ in pool.map(work, items) if pooled else map(work, items):
        pass
    return (time.perf_counter() - start) * 1e3


kinds = {"batch": (convert, names), "filters": (filter_only, range(count))}
# Found out on a few.
pooled = {
    kind: min(run(work, items[:12], True) for _ in range(2)) <= min(run(work, items[:12], False) for _ in range(2))
    for kind, (work, items) in kinds.items()
}
print("ready", flush=True)
for line in sys.stdin:
    kind = line.strip()
    work, items = kinds[kind]
    print(f"{run(work, items, pooled[kind]):.4f}", flush=True)
