#!/bin/sh
# Serves MobileNetV2 and a model that returns its inputs with MLServer: HTTP on PORT, gRPC on PORT+1, its metrics on PORT+2.
# MODEL is the ONNX file, PYTHON a Python that has mlserver and onnxruntime.
# Batches of up to 8, gathered for at most 10 ms: MLServer names no value of its own ("found through experimentation").
set -eu
cd "$(dirname "$0")"
export PYTHONPATH="$PWD" MLSERVER_HOST=127.0.0.1 MLSERVER_DEBUG=false MLSERVER_PARALLEL_WORKERS="${WORKERS:-1}"
export MLSERVER_HTTP_PORT="$1" MLSERVER_GRPC_PORT="$(($1 + 1))" MLSERVER_METRICS_PORT="$(($1 + 2))" MLSERVER_GRPC_MAX_MESSAGE_LENGTH=67108864
exec "${PYTHON:-python3}" -c 'from mlserver.cli import main; main()' start models
