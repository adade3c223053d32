#!/bin/sh
# Serves MobileNetV2 with Ray Serve on PORT (HTTP).
# MODEL is the ONNX file, PYTHON a Python that has ray[serve] and onnxruntime.
# Batches of up to 8, gathered for at most WINDOW seconds (10 ms is Ray Serve's default).
set -eu
cd "$(dirname "$0")"
# A busy machine starts Ray's parts more slowly than it waits for them by default.
# It also gives its workers the lowest place beside other processes; here they stand like those of the others.
export RAY_USAGE_STATS_ENABLED=0 RAY_SERVE_PROXY_READY_CHECK_TIMEOUT_S=60 RAY_worker_niceness=0
exec "${PYTHON:-python3}" service.py "$1"
