#!/bin/sh
# Serves MobileNetV2 with BentoML on PORT (HTTP): bytes at /raw, or, with FORM=json, JSON at /predict.
# MODEL is the ONNX file, PYTHON a Python that has bentoml and onnxruntime.
# Batches of up to 8; the window is BentoML's own: it adapts to the times it measures.
set -eu
cd "$(dirname "$0")"
export BENTOML_DO_NOT_TRACK=true
[ "${FORM:-raw}" = json ] && service=Classifier || service=Raw
exec "${PYTHON:-python3}" -m bentoml serve "service:$service" --host 127.0.0.1 --port "$1"
