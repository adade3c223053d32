"""Says what is in a folder of JPEG photos with OpenCV and ONNX Runtime each time a line comes in, and prints its milliseconds.

    python benches/peers/classify_photos.py PICTURES PHOTOS COUNT MODEL CLASSES THREADS

First COUNT photos are made in the folder PHOTOS: the files of the folder PICTURES, cut and scaled to the sizes that cameras and phones
have, some to any size, with the qualities that JPEG files have. MODEL is MobileNetV2, CLASSES a file with the name of a class on each
line. The line `one` reads and classifies one after the other, `pooled` reads with THREADS threads ahead of the network. The names of
the best classes are in PHOTOS/names.txt then.
"""

import concurrent.futures
import pathlib
import sys
import time

import cv2
import numpy as np
import onnxruntime

SIZES = [(640, 480), (1024, 768), (1280, 960), (1920, 1080), (2048, 1536), (3264, 2448)]
# One in so many has a size of its own.
ODD = 8
MEAN = np.array([0.485, 0.456, 0.406], np.float32).reshape(1, 3, 1, 1)
DEVIATION = np.array([0.229, 0.224, 0.225], np.float32).reshape(1, 3, 1, 1)


def make_photos(pictures, folder, count):
    sources = [image for file in sorted(pictures.iterdir()) if (image := cv2.imread(str(file))) is not None]
    random = np.random.default_rng(1)
    for number in range(count):
        image = sources[number % len(sources)]
        width, height = SIZES[random.integers(len(SIZES))]
        if number % ODD == 0:
            width, height = width + int(random.integers(-150, 150)), height + int(random.integers(-150, 150))
        if image.shape[0] > image.shape[1]:
            width, height = height, width
        # A part of the picture with the sides of the photo.
        scale = random.uniform(0.7, 1.0) * min(image.shape[1] / width, image.shape[0] / height)
        part_width, part_height = int(width * scale), int(height * scale)
        left, top = random.integers(image.shape[1] - part_width + 1), random.integers(image.shape[0] - part_height + 1)
        part = image[top : top + part_height, left : left + part_width]
        photo = cv2.resize(part, (width, height), interpolation=cv2.INTER_CUBIC)
        quality = int(random.integers(75, 96))
        cv2.imwrite(str(folder / f"{number:03}.jpg"), photo, [cv2.IMWRITE_JPEG_QUALITY, quality])


def read(file):
    image = cv2.imread(str(file))
    height, width = image.shape[:2]
    scale = 256 / min(height, width)
    size = (max(256, round(width * scale)), max(256, round(height * scale)))
    image = cv2.resize(image, size, interpolation=cv2.INTER_LINEAR)
    top, left = (size[1] - 224) // 2, (size[0] - 224) // 2
    crop = image[top : top + 224, left : left + 224]
    return (cv2.dnn.blobFromImage(crop, 1 / 255, swapRB=True) - MEAN) / DEVIATION


def main(pictures, photos, count, model, classes, threads):
    photos, threads = pathlib.Path(photos), int(threads)
    make_photos(pathlib.Path(pictures), photos, int(count))
    files = sorted(photos.glob("*.jpg"))
    classes = pathlib.Path(classes).read_text().splitlines()
    cv2.setNumThreads(threads)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    pool = concurrent.futures.ThreadPoolExecutor(threads)

    def best(blob):
        scores = session.run(None, {name: blob})[0][0]
        return classes[int(scores.argmax())]

    best(read(files[0]))
    print("ready", flush=True)
    for line in sys.stdin:
        start = time.perf_counter()
        blobs = pool.map(read, files) if line.strip() == "pooled" else map(read, files)
        names = [best(blob) for blob in blobs]
        took = (time.perf_counter() - start) * 1e3
        (photos / "names.txt").write_text("\n".join(names))
        print(f"{took:.4f}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
