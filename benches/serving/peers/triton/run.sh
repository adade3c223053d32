#!/bin/sh
# Serves MobileNetV2 and a model that returns its inputs with NVIDIA's Triton: HTTP on PORT, gRPC on PORT+1, its metrics on PORT+2.
# MODEL is the ONNX file, PYTHON a Python that has nvidia-pytriton (its wheel holds the server itself) and onnxruntime; it must be one with a shared libpython.
set -eu
cd "$(dirname "$0")"
python=${PYTHON:-python3}
triton=$("$python" -c 'import importlib.util; print(importlib.util.find_spec("pytriton").submodule_search_locations[0])')/tritonserver
version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
# The backend looks for its helper next to itself; the wheel keeps one for each version of Python elsewhere.
cp -n "$triton/python_backend_stubs/$version/triton_python_backend_stub" "$triton/backends/python/" || true
PATH="$(dirname "$python"):$PATH" LD_LIBRARY_PATH="$triton/../../nvidia_pytriton.libs" exec "$triton/bin/tritonserver" --model-repository=models --backend-directory="$triton/backends" \
    --model-control-mode=explicit --load-model='*' --log-info=false --exit-timeout-secs=1 --http-address=127.0.0.1 --http-port="$1" --grpc-address=127.0.0.1 --grpc-port="$(($1 + 1))" \
    --metrics-address=127.0.0.1 --metrics-port="$(($1 + 2))"
