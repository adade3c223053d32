"""Makes the golden files: reference inputs and results for kernels.

Each kernel that it knows gets one file, `<kernel>.safetensors`, next to
this script. The results come from independent libraries: SciPy, OpenCV,
Pillow, NumPy, and ONNX Runtime for parts of neural networks. Where two
libraries cover a kernel there are cases of both, and the name of the case
says which.

Run it with

    pip install -r requirements.txt && python make_golden.py

The packages are pinned: numpy 2.4.6, scipy 1.17.1,
opencv-python-headless 5.0.0.93, pillow 13.0.0, safetensors 0.8.0,
onnx 1.23.2 and onnxruntime 1.31.1. Running it again writes the same bytes:
every kernel starts from `numpy.random.default_rng(SEED)` of its own, so that
a change of one kernel's cases leaves the other files as they are. ONNX
Runtime chooses its code by the processor: the last bits of its sums may be
others on another one, far inside the tolerances.

What a file holds
-----------------
Tensors `<case>/in0`, `<case>/in1`, ... and `<case>/out`, row-major, and one
metadata key `golden`, a JSON text:

    {"made_with": "numpy 2.4.6, ...",
     "seed": 20240601,
     "cases": [{"name": "u8_rgba_33x17_reflect", "inputs": 1,
                "params": {"radius": 3, "border": "reflect"},
                "levels": 1,
                "reference": "scipy.ndimage.gaussian_filter"}]}

Params left out have their default. The size and type of the output are those
of `<case>/out`. An integer result may differ by `levels`; a float result `a`
from the reference `b` by `|a - b| <= absolute + relative * |b|`.

How tolerances are chosen
-------------------------
Zero where any correct program gives the very same value (moved or picked
values, comparisons, integer arithmetic). One level for other u8 results:
libraries and kernels round the last half differently. For floats the error
of plain arithmetic in the result's type, scaled by the magnitude of the
values which are added up; each kernel says how below.
"""

import json
import math
import re
from importlib.metadata import version
from pathlib import Path

import cv2
import numpy as np
import onnx
import onnxruntime
import safetensors
from PIL import Image, ImageFilter
from safetensors.numpy import save
from scipy import interpolate, ndimage, special, stats

SEED = 20240601
FOLDER = Path(__file__).resolve().parent
# Every file says what it was made with, and stays the same when others need
# more.
PACKAGES = ("numpy", "scipy", "opencv-python-headless", "pillow", "safetensors")
ONNX_PACKAGES = ("numpy", "onnx", "onnxruntime", "safetensors")

U8, F32, F64 = np.dtype("u1"), np.dtype("f4"), np.dtype("f8")
S32, S64, U32 = np.dtype("i4"), np.dtype("i8"), np.dtype("u4")
DTYPES = (U8, F32, F64, S32, S64, U32)

# --------------------------------------------------------------------------
# Recording cases
# --------------------------------------------------------------------------

KERNELS = {}


def kernel(make):
    """Registers a function which adds the cases of the kernel of its name."""
    KERNELS[make.__name__] = (make, PACKAGES)
    return make


def onnx_kernel(make):
    """The same, for cases which ONNX Runtime computes."""
    KERNELS[make.__name__] = (make, ONNX_PACKAGES)
    return make


class Golden:
    """The cases of one kernel, and the random data they are made of."""

    def __init__(self, name, packages):
        self.name = name
        self.made_with = ", ".join(f"{package} {version(package)}" for package in packages)
        self.rng = np.random.default_rng(SEED)
        self.tensors = {}
        self.cases = []

    def image(self, *shape, dtype=U8, low=0.0, high=1.0):
        """Noise of the given shape: u8 0..255, or floats in low..high."""
        if dtype == U8:
            return self.rng.integers(0, 256, shape, dtype=np.uint8)
        return self.rng.uniform(low, high, shape).astype(dtype)

    def normal(self, *shape, dtype=F32, scale=1.0):
        return (self.rng.standard_normal(shape) * scale).astype(dtype)

    def integers(self, low, high, *shape, dtype=S32):
        return self.rng.integers(low, high, shape, dtype=dtype)

    def values(self, *shape, dtype=F32):
        """Values of any type, of a size that suits the type."""
        if dtype in (F32, F64):
            return self.normal(*shape, dtype=dtype)
        info = np.iinfo(dtype)
        return self.rng.integers(info.min, info.max, shape, dtype=dtype, endpoint=True)

    def add(self, name, inputs, out, reference, params=None, **tolerance):
        """Records a case; without a tolerance the result must be exact."""
        out = np.asarray(out)
        params = params or {}
        whole = out.dtype.kind in "iu"
        if not tolerance:
            tolerance = {"levels": 0} if whole else {"absolute": 0.0, "relative": 0.0}
        assert re.fullmatch(r"[a-z0-9_]+", name), name
        assert name not in {case["name"] for case in self.cases}, (self.name, name)
        assert set(tolerance) == ({"levels"} if whole else {"absolute", "relative"}), name
        for position, tensor in enumerate(inputs):
            self._store(f"{name}/in{position}", tensor)
        self._store(f"{name}/out", out)
        if not whole:
            assert np.isfinite(out).all(), (self.name, name)
        self.cases.append(
            {
                "name": name,
                "inputs": len(inputs),
                "params": params,
                **{key: plain(value) for key, value in tolerance.items()},
                "reference": reference,
            }
        )

    def _store(self, key, tensor):
        tensor = np.asarray(tensor)
        assert tensor.dtype in DTYPES, (self.name, key, tensor.dtype)
        assert tensor.nbytes <= 100_000, (self.name, key, tensor.nbytes)
        # ascontiguousarray would turn rank 0 into rank 1.
        self.tensors[key] = tensor.copy(order="C")

    def write(self):
        header = {"made_with": self.made_with, "seed": SEED, "cases": self.cases}
        data = save(self.tensors, {"golden": encode(header)})
        path = FOLDER / f"{self.name}.safetensors"
        path.write_bytes(data)
        return path


def plain(value):
    """A Python number; floats shortened, as a tolerance needs no more."""
    return int(value) if isinstance(value, (int, np.integer)) else float(f"{float(value):.2g}")


def encode(header):
    """JSON in which every float has a decimal point (1.0e-06, not 1e-06)."""
    text = json.dumps(header)
    text = re.sub(r"(?<=[ \[])(-?\d+)(e[-+]\d+)", r"\1.0\2", text)
    assert json.loads(text) == header
    return text


# --------------------------------------------------------------------------
# Shared by several kernels
# --------------------------------------------------------------------------


def finish(values, dtype):
    """Float results as the type of the output: u8 rounds half to even."""
    if dtype == U8:
        return np.clip(np.rint(values), 0, 255).astype(np.uint8)
    return np.asarray(values).astype(dtype)


def near(dtype, absolute=1e-6, relative=2e-6):
    """One level for u8; the given float tolerance otherwise."""
    return {"levels": 1} if dtype == U8 else {"absolute": absolute, "relative": relative}


def planes(image):
    """The channels of an image, each {h, w}."""
    if image.ndim == 2:
        return [image]
    return [np.ascontiguousarray(image[..., c]) for c in range(image.shape[2])]


def join(channels, like):
    """The reverse of planes, with the rank of `like`."""
    return channels[0] if like.ndim == 2 else np.stack(channels, axis=-1)


def colours(image):
    """The channels without the alpha of four."""
    return image[..., :3] if image.ndim == 3 and image.shape[2] == 4 else image


def keep_alpha(image, result):
    """The result with the alpha of the image, if that has one."""
    if image.ndim == 3 and image.shape[2] == 4:
        return np.concatenate([result, image[..., 3:]], axis=-1)
    return result


def pillow(image):
    """A Pillow image. {h, w} floats become mode F."""
    return Image.fromarray(np.ascontiguousarray(image))


# The kernels' borders. For filters SciPy's 'grid-wrap' is the periodic one.
# OpenCV's filters know no BORDER_WRAP.
SCIPY_BORDER = {"clamp": "nearest", "reflect": "mirror", "wrap": "grid-wrap", "zero": "constant"}
NUMPY_BORDER = {"clamp": "edge", "reflect": "reflect", "wrap": "wrap", "zero": "constant"}
OPENCV_BORDER = {
    "clamp": cv2.BORDER_REPLICATE,
    "reflect": cv2.BORDER_REFLECT_101,
    "zero": cv2.BORDER_CONSTANT,
}


def check_borders():
    """SciPy's border modes are those of the kernels, far outside too."""
    for size in (1, 2, 5):
        line = np.arange(1.0, size + 1.0)
        for border, mode in SCIPY_BORDER.items():
            padded = np.pad(line, 20, mode=NUMPY_BORDER[border])
            pick_far = np.zeros(41)
            pick_far[0] = 1.0
            seen = ndimage.correlate1d(line, pick_far, mode=mode)
            assert np.array_equal(seen, padded[:size]), (size, border)


def filter_cases(g, rows, scipy_filter, opencv_filter, names, exactly=None, **floats):
    """Cases of an image filter from rows (name, shape, dtype, params).

    `scipy_filter(image as f64, params)` and `opencv_filter(image, params)`
    give unrounded values, or OpenCV's u8; rows named opencv_* use the latter.
    `exactly(dtype, params)` says which cases allow no difference.
    """
    for name, shape, dtype, params in rows:
        image = g.image(*shape, dtype=dtype)
        opencv = name.startswith("opencv_")
        if image.size == 0:
            values = image.copy()
        elif opencv:
            values = opencv_filter(image, params).reshape(shape)
        else:
            values = scipy_filter(image.astype(np.float64), params)
        exact = image.size == 0 or (exactly is not None and exactly(dtype, params))
        tolerance = {} if exact else near(dtype, **floats)
        g.add(name, [image], finish(values, dtype), names[opencv], params, **tolerance)


def no_radius(_, params):
    """A filter of one pixel changes nothing."""
    return params["radius"] == 0


# --------------------------------------------------------------------------
# Image filters. f32 images are 0..1 and the weights of a filter sum to about
# one, so a few units of the last place: absolute 1e-6, relative 2e-6.
# --------------------------------------------------------------------------


@kernel
def blur(g):
    def sigma(params):
        return params.get("sigma", 0.0) or params["radius"] / 2

    def with_scipy(image, params):
        if params["radius"] == 0:
            return image
        return ndimage.gaussian_filter(
            image,
            sigma(params),
            mode=SCIPY_BORDER[params["border"]],
            radius=params["radius"],
            axes=(0, 1),
        )

    def with_opencv(image, params):
        # OpenCV blurs u8 with weights of 8 bits, which is two levels off for
        # a radius of 20: wide blurs go through its float path.
        if params["radius"] > 3:
            image = image.astype(np.float32)
        side = 2 * params["radius"] + 1
        return cv2.GaussianBlur(
            image, (side, side), sigma(params), borderType=OPENCV_BORDER[params["border"]]
        )

    rows = [
        ("u8_gray_7x5_clamp", (7, 5), U8, {"radius": 1, "border": "clamp"}),
        ("u8_one_channel_33x17_reflect", (33, 17, 1), U8, {"radius": 3, "border": "reflect"}),
        ("u8_rgb_33x17_wrap", (33, 17, 3), U8, {"radius": 3, "border": "wrap"}),
        ("u8_rgba_odd_reflect", (17, 13, 4), U8, {"radius": 3, "border": "reflect"}),
        ("u8_rgba_16x16_zero_sigma", (16, 16, 4), U8, {"radius": 3, "sigma": 0.8, "border": "zero"}),
        ("u8_rgba_64x96_clamp", (64, 96, 4), U8, {"radius": 3, "sigma": 1.5, "border": "clamp"}),
        ("u8_rgba_33x17_radius_20", (33, 17, 4), U8, {"radius": 20, "border": "clamp"}),
        ("u8_rgb_radius_0", (7, 5, 3), U8, {"radius": 0, "border": "zero"}),
        ("u8_gray_1x1_reflect", (1, 1), U8, {"radius": 3, "border": "reflect"}),
        ("u8_rgba_no_rows", (0, 5, 4), U8, {"radius": 3, "border": "clamp"}),
        ("f32_gray_7x5_radius_20_clamp", (7, 5), F32, {"radius": 20, "border": "clamp"}),
        ("f32_gray_7x5_radius_20_reflect", (7, 5), F32, {"radius": 20, "border": "reflect"}),
        ("f32_rgb_7x5_radius_20_wrap", (7, 5, 3), F32, {"radius": 20, "border": "wrap"}),
        ("f32_rgba_7x5_radius_20_zero", (7, 5, 4), F32, {"radius": 20, "border": "zero"}),
        ("f32_gray_9x64_wide_sigma", (9, 64), F32, {"radius": 3, "sigma": 20.0, "border": "wrap"}),
        ("f32_rgb_17x11_narrow_sigma", (17, 11, 3), F32, {"radius": 3, "sigma": 0.4, "border": "reflect"}),
        ("f32_rgba_1x1_zero", (1, 1, 4), F32, {"radius": 1, "border": "zero"}),
        ("f32_rgba_radius_0_with_sigma", (5, 7, 4), F32, {"radius": 0, "sigma": 2.0, "border": "clamp"}),
        ("f32_gray_no_columns", (5, 0), F32, {"radius": 1, "border": "reflect"}),
        ("opencv_u8_rgba_33x17_clamp", (33, 17, 4), U8, {"radius": 1, "border": "clamp"}),
        ("opencv_u8_rgb_24x64_reflect", (24, 64, 3), U8, {"radius": 3, "border": "reflect"}),
        ("opencv_u8_gray_64x48_radius_20", (64, 48), U8, {"radius": 20, "border": "clamp"}),
        ("opencv_f32_rgba_17x11_clamp", (17, 11, 4), F32, {"radius": 3, "sigma": 1.5, "border": "clamp"}),
        ("opencv_f32_rgb_17x16_zero", (17, 16, 3), F32, {"radius": 3, "border": "zero"}),
    ]
    names = ("scipy.ndimage.gaussian_filter", "cv2.GaussianBlur")
    filter_cases(g, rows, with_scipy, with_opencv, names, exactly=no_radius)


@kernel
def box_blur(g):
    def with_scipy(image, params):
        return ndimage.uniform_filter(
            image,
            2 * params["radius"] + 1,
            mode=SCIPY_BORDER[params["border"]],
            axes=(0, 1),
        )

    def with_opencv(image, params):
        side = 2 * params["radius"] + 1
        return cv2.blur(image, (side, side), borderType=OPENCV_BORDER[params["border"]])

    rows = [
        ("u8_gray_7x5_clamp", (7, 5), U8, {"radius": 1, "border": "clamp"}),
        ("u8_one_channel_33x17_reflect", (33, 17, 1), U8, {"radius": 3, "border": "reflect"}),
        ("u8_rgb_33x17_wrap", (33, 17, 3), U8, {"radius": 3, "border": "wrap"}),
        ("u8_rgba_16x16_zero", (16, 16, 4), U8, {"radius": 2, "border": "zero"}),
        ("u8_rgba_32x64_clamp", (32, 64, 4), U8, {"radius": 3, "border": "clamp"}),
        ("u8_rgba_33x17_radius_20", (33, 17, 4), U8, {"radius": 20, "border": "reflect"}),
        ("u8_rgb_radius_0", (7, 5, 3), U8, {"radius": 0, "border": "zero"}),
        ("u8_gray_1x1_reflect", (1, 1), U8, {"radius": 3, "border": "reflect"}),
        ("u8_rgba_no_rows", (0, 5, 4), U8, {"radius": 3, "border": "clamp"}),
        ("f32_gray_7x5_radius_20_clamp", (7, 5), F32, {"radius": 20, "border": "clamp"}),
        ("f32_gray_7x5_radius_20_reflect", (7, 5), F32, {"radius": 20, "border": "reflect"}),
        ("f32_rgb_7x5_radius_20_wrap", (7, 5, 3), F32, {"radius": 20, "border": "wrap"}),
        ("f32_rgba_7x5_radius_20_zero", (7, 5, 4), F32, {"radius": 20, "border": "zero"}),
        ("f32_gray_9x64_wrap", (9, 64), F32, {"radius": 3, "border": "wrap"}),
        ("f32_rgba_1x1_zero", (1, 1, 4), F32, {"radius": 1, "border": "zero"}),
        ("f32_rgba_radius_0", (5, 7, 4), F32, {"radius": 0, "border": "clamp"}),
        ("opencv_u8_rgba_33x17_clamp", (33, 17, 4), U8, {"radius": 1, "border": "clamp"}),
        ("opencv_u8_rgb_24x64_reflect", (24, 64, 3), U8, {"radius": 3, "border": "reflect"}),
        ("opencv_f32_rgba_17x11_clamp", (17, 11, 4), F32, {"radius": 3, "border": "clamp"}),
        ("opencv_f32_rgb_17x16_zero", (17, 16, 3), F32, {"radius": 2, "border": "zero"}),
    ]
    names = ("scipy.ndimage.uniform_filter", "cv2.blur")
    filter_cases(g, rows, with_scipy, with_opencv, names, exactly=no_radius)


@kernel
def sharpen(g):
    def with_scipy(image, params):
        mode = SCIPY_BORDER[params["border"]]
        soft = ndimage.correlate1d(image, [0.25, 0.5, 0.25], axis=0, mode=mode)
        soft = ndimage.correlate1d(soft, [0.25, 0.5, 0.25], axis=1, mode=mode)
        return image + params.get("amount", 1.0) * (image - soft)

    def with_opencv(image, params):
        # The whole of it as one 3x3 filter, in f64 for a rounding at the end.
        amount = params.get("amount", 1.0)
        weights = -amount * np.outer([1, 2, 1], [1, 2, 1]) / 16
        weights[1, 1] += 1 + amount
        border = OPENCV_BORDER[params["border"]]
        return cv2.filter2D(image.astype(np.float64), cv2.CV_64F, weights, borderType=border)

    rows = [
        ("u8_gray_7x5_default_amount", (7, 5), U8, {"border": "clamp"}),
        ("u8_one_channel_33x17_reflect", (33, 17, 1), U8, {"border": "reflect"}),
        ("u8_rgb_33x17_wrap", (33, 17, 3), U8, {"amount": 0.5, "border": "wrap"}),
        ("u8_rgba_16x16_zero", (16, 16, 4), U8, {"amount": 2.5, "border": "zero"}),
        ("u8_rgba_32x64_clamp", (32, 64, 4), U8, {"amount": 0.3, "border": "clamp"}),
        ("u8_rgb_5x7_negative_amount", (5, 7, 3), U8, {"amount": -1.0, "border": "clamp"}),
        ("u8_rgb_5x7_no_amount", (5, 7, 3), U8, {"amount": 0.0, "border": "zero"}),
        ("u8_gray_1x1_reflect", (1, 1), U8, {"border": "reflect"}),
        ("u8_rgba_1x1_zero", (1, 1, 4), U8, {"amount": 0.25, "border": "zero"}),
        ("u8_rgba_no_rows", (0, 5, 4), U8, {"border": "clamp"}),
        ("f32_gray_9x64_clamp", (9, 64), F32, {"border": "clamp"}),
        ("f32_rgb_17x11_reflect", (17, 11, 3), F32, {"amount": 1.7, "border": "reflect"}),
        ("f32_rgba_7x5_wrap", (7, 5, 4), F32, {"amount": 0.5, "border": "wrap"}),
        ("f32_rgba_7x5_zero", (7, 5, 4), F32, {"amount": 3.0, "border": "zero"}),
        ("f32_one_channel_1x6_wrap", (1, 6, 1), F32, {"border": "wrap"}),
        ("f32_gray_1x1_clamp", (1, 1), F32, {"border": "clamp"}),
        ("opencv_u8_rgba_33x17_clamp", (33, 17, 4), U8, {"border": "clamp"}),
        ("opencv_u8_rgb_24x64_reflect", (24, 64, 3), U8, {"amount": 0.7, "border": "reflect"}),
        ("opencv_f32_rgba_17x11_clamp", (17, 11, 4), F32, {"amount": 1.2, "border": "clamp"}),
        ("opencv_f32_rgb_17x16_zero", (17, 16, 3), F32, {"border": "zero"}),
    ]
    names = ("scipy.ndimage.correlate1d", "cv2.filter2D")
    filter_cases(g, rows, with_scipy, with_opencv, names, absolute=2e-6)


@kernel
def sobel(g):
    def combine(gx, gy, params):
        direction = params.get("direction", "magnitude")
        result = {"x": gx, "y": gy, "magnitude": np.hypot(gx, gy)}[direction]
        return result * params.get("scale", 1.0)

    def with_scipy(image, params):
        # Channel by channel: SciPy smooths along every other axis, and would
        # mix the channels.
        mode = SCIPY_BORDER[params["border"]]
        out = []
        for plane in planes(image):
            gx = ndimage.sobel(plane, axis=1, mode=mode)
            gy = ndimage.sobel(plane, axis=0, mode=mode)
            out.append(combine(gx, gy, params))
        return join(out, image)

    def with_opencv(image, params):
        border = OPENCV_BORDER[params["border"]]
        image = image.astype(np.float64)
        gx = cv2.Sobel(image, cv2.CV_64F, 1, 0, ksize=3, borderType=border)
        gy = cv2.Sobel(image, cv2.CV_64F, 0, 1, ksize=3, borderType=border)
        return combine(gx, gy, params)

    rows = [
        ("u8_gray_7x5_default_magnitude", (7, 5), U8, {"border": "clamp"}),
        ("u8_gray_7x5_x", (7, 5), U8, {"direction": "x", "border": "clamp"}),
        ("u8_gray_7x5_y", (7, 5), U8, {"direction": "y", "border": "clamp"}),
        ("u8_one_channel_33x17_reflect", (33, 17, 1), U8, {"scale": 0.25, "border": "reflect"}),
        ("u8_rgb_33x17_wrap_x", (33, 17, 3), U8, {"direction": "x", "scale": 0.3, "border": "wrap"}),
        ("u8_rgba_16x16_zero_y", (16, 16, 4), U8, {"direction": "y", "scale": -0.3, "border": "zero"}),
        ("u8_rgba_32x64_clamp", (32, 64, 4), U8, {"direction": "magnitude", "scale": 0.2, "border": "clamp"}),
        ("u8_gray_1x1_reflect", (1, 1), U8, {"border": "reflect"}),
        ("u8_rgba_1x1_zero", (1, 1, 4), U8, {"border": "zero"}),
        ("u8_rgba_no_rows", (0, 5, 4), U8, {"border": "clamp"}),
        ("f32_gray_9x64_x", (9, 64), F32, {"direction": "x", "border": "clamp"}),
        ("f32_gray_9x64_y", (9, 64), F32, {"direction": "y", "border": "clamp"}),
        ("f32_rgb_17x11_reflect", (17, 11, 3), F32, {"border": "reflect"}),
        ("f32_rgba_7x5_wrap", (7, 5, 4), F32, {"scale": 0.125, "border": "wrap"}),
        ("f32_rgba_7x5_zero", (7, 5, 4), F32, {"direction": "x", "scale": -2.0, "border": "zero"}),
        ("f32_one_channel_1x6_wrap", (1, 6, 1), F32, {"border": "wrap"}),
        ("f32_gray_1x1_zero", (1, 1), F32, {"border": "zero"}),
        ("opencv_u8_rgba_33x17_clamp", (33, 17, 4), U8, {"scale": 0.25, "border": "clamp"}),
        ("opencv_u8_rgb_24x64_reflect_x", (24, 64, 3), U8, {"direction": "x", "border": "reflect"}),
        ("opencv_u8_rgb_24x64_reflect_y", (24, 64, 3), U8, {"direction": "y", "border": "reflect"}),
        ("opencv_f32_rgba_17x11_clamp", (17, 11, 4), F32, {"border": "clamp"}),
        ("opencv_f32_rgb_17x16_zero", (17, 16, 3), F32, {"direction": "y", "border": "zero"}),
    ]
    
    def whole(dtype, params):
        """Sums of whole numbers; a root or a scale makes fractions."""
        return dtype == U8 and params.get("direction") in ("x", "y") and "scale" not in params

    names = ("scipy.ndimage.sobel", "cv2.Sobel")
    filter_cases(g, rows, with_scipy, with_opencv, names, exactly=whole)


# --------------------------------------------------------------------------
# Colours and values of images
# --------------------------------------------------------------------------


@kernel
def grayscale(g):
    def with_opencv(image):
        code = cv2.COLOR_RGBA2GRAY if image.shape[2] == 4 else cv2.COLOR_RGB2GRAY
        return cv2.cvtColor(image, code)

    def with_pillow(image):
        return np.asarray(pillow(image).convert("L"))

    def shaped(luma, image, form):
        if form == "plane":
            return luma
        if form == "one_channel":
            return luma[..., None]
        return keep_alpha(image, np.stack([luma] * 3, axis=-1))

    # name, shape, dtype, form of the output
    rows = [
        ("opencv_u8_rgb_7x5_plane", (7, 5, 3), U8, "plane"),
        ("opencv_u8_rgb_33x17_one_channel", (33, 17, 3), U8, "one_channel"),
        ("opencv_u8_rgb_33x17_same_shape", (33, 17, 3), U8, "same"),
        ("opencv_u8_rgba_16x64_plane", (16, 64, 4), U8, "plane"),
        ("opencv_u8_rgba_32x64_same_shape", (32, 64, 4), U8, "same"),
        ("pillow_u8_rgb_64x48_plane", (64, 48, 3), U8, "plane"),
        ("pillow_u8_rgba_33x17_one_channel", (33, 17, 4), U8, "one_channel"),
        ("pillow_u8_rgba_33x17_same_shape", (33, 17, 4), U8, "same"),
        ("opencv_u8_rgba_1x1_plane", (1, 1, 4), U8, "plane"),
        ("opencv_f32_rgb_17x11_plane", (17, 11, 3), F32, "plane"),
        ("opencv_f32_rgb_6x64_same_shape", (6, 64, 3), F32, "same"),
        ("opencv_f32_rgba_17x11_same_shape", (17, 11, 4), F32, "same"),
        ("opencv_f32_rgba_7x5_one_channel", (7, 5, 4), F32, "one_channel"),
        ("opencv_f32_rgb_1x1_same_shape", (1, 1, 3), F32, "same"),
    ]
    for name, shape, dtype, form in rows:
        image = g.image(*shape, dtype=dtype)
        use = with_opencv if name.startswith("opencv_") else with_pillow
        reference = "cv2.cvtColor" if use is with_opencv else "PIL.Image.convert"
        g.add(name, [image], shaped(use(image), image, form), reference, **near(dtype))

    # One channel is its own luma.
    plane = g.image(7, 5)
    g.add("u8_plane_to_plane", [plane], plane, "numpy.reshape")
    plane = g.image(9, 64)
    g.add("u8_plane_to_one_channel", [plane], plane[..., None], "numpy.reshape")
    single = g.image(33, 17, 1, dtype=F32)
    g.add("f32_one_channel_to_plane", [single], single[..., 0], "numpy.reshape")
    single = g.image(5, 13, 1, dtype=F32)
    g.add("f32_one_channel_to_one_channel", [single], single, "numpy.reshape")

    g.add("u8_no_rows_plane", [g.image(0, 5, 4)], g.image(0, 5), "numpy.empty")
    empty = g.image(5, 0, 3, dtype=F32)
    g.add("f32_no_columns_same_shape", [empty], empty, "numpy.empty")


@kernel
def lut(g):
    def line(image, table):
        """1-D interpolation with NumPy; alpha passes through a shared table."""
        scaled = image.astype(np.float64) / (255 if image.dtype == U8 else 1)
        position = np.clip(scaled, 0, 1) * (len(table) - 1)
        steps = np.arange(len(table))
        if table.ndim == 1:
            values = np.interp(colours(position), steps, table)
            return keep_alpha(image, finish(values, image.dtype))
        columns = [np.interp(p, steps, table[:, c]) for c, p in enumerate(planes(position))]
        return finish(join(columns, image), image.dtype)

    def position_error(dtype, n):
        """f32 rounds the position in the table, by up to half of 2^-23 n; the
        neighbours in a table of noise differ by up to one."""
        return near(dtype, absolute=1e-6 + 1.2e-7 * (n - 1))

    # u8 images with 256 entries: exact.
    image, table = g.image(7, 5), g.image(256)
    g.add("opencv_u8_gray_shared_256", [image, table], cv2.LUT(image, table), "cv2.LUT")
    image, table = g.image(33, 17, 3), g.image(256)
    g.add("opencv_u8_rgb_shared_256", [image, table], cv2.LUT(image, table), "cv2.LUT")
    image, table = g.image(32, 64, 4), g.image(256)
    out = keep_alpha(image, cv2.LUT(np.ascontiguousarray(colours(image)), table))
    g.add("opencv_u8_rgba_32x64_shared_256", [image, table], out, "cv2.LUT")
    image, table = g.image(33, 17, 4), g.image(256, 4)
    out = cv2.LUT(image, table.reshape(256, 1, 4))
    g.add("opencv_u8_rgba_columns_256", [image, table], out, "cv2.LUT")
    image, table = g.image(16, 64, 3), g.image(256, 3)
    out = np.asarray(pillow(image).point(table.T.ravel().tolist()))
    g.add("pillow_u8_rgb_columns_256", [image, table], out, "PIL.Image.point")
    image, table = g.image(1, 1, 1), g.image(256, 1)
    out = cv2.LUT(image, table).reshape(1, 1, 1)
    g.add("opencv_u8_one_channel_1x1_column_256", [image, table], out, "cv2.LUT")

    # Other lengths, and floats: interpolated. f32 images also have values
    # outside 0..1, which are clamped.
    for name, image, table in [
        ("u8_gray_shared_16", g.image(33, 17), g.image(16)),
        ("u8_rgba_shared_2", g.image(7, 5, 4), g.image(2)),
        ("u8_rgba_columns_33", g.image(16, 16, 4), g.image(33, 4)),
        ("u8_rgb_shared_300", g.image(17, 33, 3), g.image(300)),
        ("f32_gray_shared_256", g.image(33, 17, dtype=F32), g.image(256, dtype=F32)),
        ("f32_rgb_shared_7_outside", g.image(9, 13, 3, dtype=F32, low=-0.3, high=1.3), g.image(7, dtype=F32)),
        ("f32_rgba_shared_33", g.image(17, 11, 4, dtype=F32), g.image(33, dtype=F32)),
        ("f32_rgba_columns_16_outside", g.image(8, 16, 4, dtype=F32, low=-0.3, high=1.3), g.image(16, 4, dtype=F32)),
        ("f32_one_channel_column_5", g.image(5, 7, 1, dtype=F32), g.image(5, 1, dtype=F32)),
    ]:
        g.add(name, [image, table], line(image, table), "numpy.interp", **position_error(image.dtype, len(table)))
    image, table = g.image(0, 5, 4), g.image(16)
    g.add("u8_rgba_no_rows", [image, table], image, "numpy.empty")

    # 3-D tables, indexed [r, g, b]. Pillow's have red fastest, which is the
    # transpose, and 0..1 for 0..255.
    for name, image, n in [
        ("pillow_u8_rgb_cube_2", g.image(33, 17, 3), 2),
        ("pillow_u8_rgba_cube_5", g.image(33, 17, 4), 5),
        ("pillow_u8_rgb_cube_17", g.image(24, 64, 3), 17),
    ]:
        table = g.image(n, n, n, 3)
        flat = (table.transpose(2, 1, 0, 3) / 255).reshape(-1).tolist()
        out = np.asarray(pillow(image).filter(ImageFilter.Color3DLUT(n, flat)))
        g.add(name, [image, table], out, "PIL.ImageFilter.Color3DLUT", levels=1)

    for name, image, n in [
        ("u8_rgba_16x16_cube_9", g.image(16, 16, 4), 9),
        ("f32_rgb_cube_2", g.image(17, 11, 3, dtype=F32), 2),
        ("f32_rgba_cube_5_outside", g.image(16, 16, 4, dtype=F32, low=-0.3, high=1.3), 5),
        ("f32_rgba_cube_9", g.image(17, 9, 4, dtype=F32), 9),
        ("f32_rgb_1x1_cube_5", g.image(1, 1, 3, dtype=F32), 5),
    ]:
        table = g.image(n, n, n, 3, dtype=image.dtype)
        points = colours(image).astype(np.float64) / (255 if image.dtype == U8 else 1)
        axis = np.linspace(0, 1, n)
        values = interpolate.interpn((axis,) * 3, table.astype(np.float64), np.clip(points, 0, 1), "linear")
        out = keep_alpha(image, finish(values, image.dtype))
        # Three positions, each with its rounding.
        tolerance = position_error(image.dtype, 3 * n)
        g.add(name, [image, table], out, "scipy.interpolate.interpn", **tolerance)


@kernel
def brightness_contrast(g):
    def with_numpy(image, brightness, contrast):
        top = 255.0 if image.dtype == U8 else 1.0
        values = (colours(image).astype(np.float64) / top - 0.5) * contrast + 0.5 + brightness
        return finish(np.clip(values, 0, 1) * top, image.dtype)

    def with_opencv(image, brightness, contrast):
        # contrast * x + offset, which is the same line; u8 saturates.
        top = 255.0 if image.dtype == U8 else 1.0
        source = np.ascontiguousarray(colours(image))
        offset = top * (0.5 - 0.5 * contrast + brightness)
        values = cv2.addWeighted(source, contrast, source, 0.0, offset)
        return np.clip(values, 0, top).astype(image.dtype).reshape(source.shape)

    rows = [
        ("opencv_u8_gray_7x5_brighter", (7, 5), U8, {"brightness": 0.2}),
        ("opencv_u8_rgb_33x17_contrast", (33, 17, 3), U8, {"contrast": 1.5}),
        ("opencv_u8_rgba_32x64_both", (32, 64, 4), U8, {"brightness": -0.1, "contrast": 1.3}),
        ("opencv_f32_rgb_17x11_both", (17, 11, 3), F32, {"brightness": 0.05, "contrast": 0.6}),
        ("opencv_f32_rgba_16x16_contrast", (16, 16, 4), F32, {"contrast": 2.5}),
        ("u8_rgba_7x5_defaults", (7, 5, 4), U8, {}),
        ("u8_one_channel_33x17_darker", (33, 17, 1), U8, {"brightness": -0.35}),
        ("u8_rgb_9x64_inverted", (9, 64, 3), U8, {"contrast": -1.0}),
        ("u8_rgba_16x16_flat", (16, 16, 4), U8, {"brightness": 0.1, "contrast": 0.0}),
        ("u8_rgba_33x17_strong", (33, 17, 4), U8, {"brightness": 0.25, "contrast": 8.0}),
        ("u8_gray_1x1", (1, 1), U8, {"contrast": 0.5}),
        ("u8_rgba_no_rows", (0, 5, 4), U8, {"brightness": 0.5}),
        ("f32_gray_9x64_brighter", (9, 64), F32, {"brightness": 0.3}),
        ("f32_one_channel_7x5_all_white", (7, 5, 1), F32, {"brightness": 2.0}),
        ("f32_rgba_17x11_both", (17, 11, 4), F32, {"brightness": -0.15, "contrast": 1.9}),
        ("f32_rgba_1x1_defaults", (1, 1, 4), F32, {}),
    ]
    for name, shape, dtype, params in rows:
        image = g.image(*shape, dtype=dtype)
        if image.size == 0:
            g.add(name, [image], image, "numpy.empty", params)
            continue
        opencv = name.startswith("opencv_")
        use = with_opencv if opencv else with_numpy
        values = use(image, params.get("brightness", 0.0), params.get("contrast", 1.0))
        reference = "cv2.addWeighted" if opencv else "numpy.clip"
        # Contrast multiplies the error of 0.5 ulp of the values around 0.5.
        floats = {"absolute": 1e-6 * max(1.0, abs(params.get("contrast", 1.0)))}
        g.add(name, [image], keep_alpha(image, values), reference, params, **near(dtype, **floats))


@kernel
def threshold(g):
    def with_opencv(image, limit):
        top = 255 if image.dtype == U8 else 1
        source = np.ascontiguousarray(colours(image))
        # OpenCV compares u8 with the integer below, which is the same test.
        out = cv2.threshold(source, limit * top, top, cv2.THRESH_BINARY)[1]
        return keep_alpha(image, out.reshape(source.shape))

    every = np.arange(256, dtype=np.uint8)
    eighths = (np.arange(-2, 11) / 8).astype(np.float32)
    rows = [
        ("u8_gray_7x5_default", g.image(7, 5), {}),
        ("u8_every_value_default", every.reshape(16, 16), {}),
        ("u8_every_value_0_2", every.reshape(8, 32), {"threshold": 0.2}),
        ("u8_every_value_0_6", every.reshape(4, 64, 1), {"threshold": 0.6}),
        ("u8_every_value_0", every.reshape(16, 16), {"threshold": 0.0}),
        ("u8_every_value_1", every.reshape(16, 16), {"threshold": 1.0}),
        ("u8_every_value_negative", every.reshape(16, 16), {"threshold": -0.1}),
        ("u8_rgb_33x17", g.image(33, 17, 3), {"threshold": 0.3}),
        ("u8_rgba_32x64", g.image(32, 64, 4), {"threshold": 0.7}),
        ("u8_rgba_7x5", g.image(7, 5, 4), {"threshold": 0.45}),
        ("u8_gray_1x1", g.image(1, 1), {}),
        ("f32_gray_9x64", g.image(9, 64, dtype=F32), {}),
        ("f32_eighths_default", eighths.reshape(1, 13), {}),
        ("f32_eighths_0_25", eighths.reshape(13, 1, 1), {"threshold": 0.25}),
        ("f32_eighths_above_1", eighths.reshape(13, 1), {"threshold": 1.125}),
        ("f32_rgb_17x11", g.image(17, 11, 3, dtype=F32), {"threshold": 0.3}),
        ("f32_rgba_17x11", g.image(17, 11, 4, dtype=F32), {"threshold": 0.7}),
        ("f32_rgba_1x1", g.image(1, 1, 4, dtype=F32), {"threshold": 0.01}),
    ]
    for name, image, params in rows:
        out = with_opencv(image, params.get("threshold", 0.5))
        g.add(name, [image], out, "cv2.threshold", params)
    empty = g.image(0, 5, 4)
    g.add("u8_rgba_no_rows", [empty], empty, "numpy.empty")


@kernel
def overlay_alpha(g):
    def over(base, overlay, opacity):
        """The "over" operator with NumPy."""
        top = 255.0 if base.dtype == U8 else 1.0
        base_, overlay_ = base.astype(np.float64) / top, overlay.astype(np.float64) / top
        a = overlay_[..., 3:] * opacity
        if base.shape[2] == 3:
            return finish(top * (base_ * (1 - a) + overlay_[..., :3] * a), base.dtype)
        below = base_[..., 3:] * (1 - a)
        alpha = a + below
        sum_ = overlay_[..., :3] * a + base_[..., :3] * below
        colour = np.divide(sum_, alpha, out=np.zeros_like(sum_), where=alpha > 0)
        return finish(top * np.concatenate([colour, alpha], axis=-1), base.dtype)

    def pair(h, w, channels, dtype=U8):
        """Noise with some pixels wholly transparent and some opaque."""
        base, overlay = g.image(h, w, channels, dtype=dtype), g.image(h, w, 4, dtype=dtype)
        top = 255 if dtype == U8 else 1.0
        kind = g.integers(0, 5, h, w)
        overlay[kind == 0, 3] = 0
        overlay[kind == 1, 3] = top
        if channels == 4:
            kind = g.integers(0, 5, h, w)
            base[kind == 0, 3] = 0
            base[kind == 1, 3] = top
        return base, overlay

    def composite(base, overlay):
        """Pillow's alpha_composite, but that where the result is wholly
        transparent Pillow keeps the base's colour: the kernel gives 0."""
        out = np.array(Image.alpha_composite(pillow(base), pillow(overlay)))
        out[out[..., 3] == 0] = 0
        return out

    for name, h, w in [
        ("pillow_u8_rgba_7x5", 7, 5),
        ("pillow_u8_rgba_33x17", 33, 17),
        ("pillow_u8_rgba_16x16", 16, 16),
        ("pillow_u8_rgba_32x64", 32, 64),
        ("pillow_u8_rgba_1x1", 1, 1),
    ]:
        base, overlay = pair(h, w, 4)
        g.add(name, [base, overlay], composite(base, overlay), "PIL.Image.alpha_composite", levels=1)

    # Pillow has no opacity; half of an even alpha is one it can be given.
    base, overlay = pair(17, 33, 4)
    overlay[..., 3] &= 0xFE
    halved = overlay.copy()
    halved[..., 3] //= 2
    out = composite(base, halved)
    g.add("pillow_u8_rgba_17x33_even_alpha_half", [base, overlay], out, "PIL.Image.alpha_composite", {"opacity": 0.5}, levels=1)

    # Three channels: Pillow's composite through the alpha as a mask.
    for name, h, w in [("pillow_u8_rgb_33x17", 33, 17), ("pillow_u8_rgb_24x64", 24, 64), ("pillow_u8_rgb_1x1", 1, 1)]:
        base, overlay = pair(h, w, 3)
        mask = pillow(overlay[..., 3])
        out = np.asarray(Image.composite(pillow(overlay[..., :3]), pillow(base), mask))
        g.add(name, [base, overlay], out, "PIL.Image.composite", levels=1)

    for name, (h, w, channels), dtype, params in [
        ("u8_rgb_7x5_opacity", (7, 5, 3), U8, {"opacity": 0.37}),
        ("u8_rgba_33x17_opacity", (33, 17, 4), U8, {"opacity": 0.8}),
        ("u8_rgba_7x5_invisible", (7, 5, 4), U8, {"opacity": 0.0}),
        ("f32_rgb_17x11", (17, 11, 3), F32, {}),
        ("f32_rgb_4x64_opacity", (4, 64, 3), F32, {"opacity": 0.25}),
        ("f32_rgba_17x11", (17, 11, 4), F32, {}),
        ("f32_rgba_16x16_opacity", (16, 16, 4), F32, {"opacity": 0.6}),
        ("f32_rgba_1x1", (1, 1, 4), F32, {}),
        ("f32_rgb_7x5_invisible", (7, 5, 3), F32, {"opacity": 0.0}),
    ]:
        base, overlay = pair(h, w, channels, dtype)
        out = over(base, overlay, params.get("opacity", 1.0))
        g.add(name, [base, overlay], out, "numpy.divide", params, **near(dtype))

    base, overlay = g.image(0, 5, 4), g.image(0, 5, 4)
    g.add("u8_rgba_no_rows", [base, overlay], base, "numpy.empty")
    base, overlay = g.image(5, 0, 3, dtype=F32), g.image(5, 0, 4, dtype=F32)
    g.add("f32_rgb_no_columns", [base, overlay], base, "numpy.empty")


# --------------------------------------------------------------------------
# Sizes and places of images
# --------------------------------------------------------------------------

PILLOW_FILTER = {
    "nearest": Image.Resampling.NEAREST,
    "bilinear": Image.Resampling.BILINEAR,
    "bicubic": Image.Resampling.BICUBIC,
    "area": Image.Resampling.BOX,
}


def pillow_resize(image, h, w, kind, eight_bits=False):
    """Pillow's resize channel by channel; unrounded unless eight_bits.

    Channel by channel because Pillow multiplies RGBA by its alpha first, and
    the kernel treats alpha as any other channel. Mode F because Pillow
    rounds u8 between the two passes, which for bicubic (also clamped there)
    is up to 5 levels off; for the others it is one at most.
    """
    out = []
    for plane in planes(image):
        plane = plane if eight_bits else plane.astype(np.float32)
        out.append(np.asarray(pillow(plane).resize((w, h), PILLOW_FILTER[kind])))
    return join(out, image)


def pillow_resize_narrow(image, h, w, kind):
    """Pillow's resize without a support widened for shrinking.

    An output column is asked for by itself, as the one column of a box of
    width 1 around its centre: then Pillow sees a scale of 1. Rows likewise.
    """
    out = []
    for plane in planes(image):
        source = pillow(plane.astype(np.float32))
        (in_w, in_h), method = source.size, PILLOW_FILTER[kind]
        assert h < in_h and w < in_w, "the boxes leave the image when it grows"
        columns = []
        for x in range(w):
            centre = (x + 0.5) * in_w / w
            box = (centre - 0.5, 0, centre + 0.5, in_h)
            columns.append(np.asarray(source.resize((1, in_h), method, box=box)))
        source = pillow(np.concatenate(columns, axis=1))
        rows = []
        for y in range(h):
            centre = (y + 0.5) * in_h / h
            box = (0, centre - 0.5, w, centre + 0.5)
            rows.append(np.asarray(source.resize((w, 1), method, box=box)))
        out.append(np.concatenate(rows, axis=0))
    return join(out, image)


def check_no_ties(kind, antialias, size_in, size_out):
    """Whether no sample lies just between two pixels.

    There the last bit of a coordinate decides which pixel is taken, and
    Pillow takes now one and now the other. Scales that are exact in binary
    are safe for picking: floor of an exact number.
    """
    for n, m in zip(size_in, size_out):
        if kind == "area" and antialias and n > m:
            # The edge between two windows, at x*n/m, against pixel centres.
            assert not any(2 * x * n % m == 0 and (2 * x * n // m) % 2 for x in range(1, m)), (n, m)
        elif kind in ("nearest", "area"):
            exact = m // math.gcd(n, m) & (m // math.gcd(n, m) - 1) == 0
            assert exact or not any((2 * x + 1) * n % (2 * m) == 0 for x in range(m)), (n, m)


@kernel
def resize(g):
    # Libraries: pillow8 is Pillow in u8, pillow is Pillow in mode F, narrow
    # is pillow_resize_narrow, opencv is cv2.resize.
    rows = [
        ("pillow_u8_gray_default_grow", "pillow8", (7, 5), (33, 17), U8, {}),
        ("pillow_u8_rgb_bilinear_shrink", "pillow8", (33, 17, 3), (7, 5), U8, {"filter": "bilinear"}),
        ("pillow_u8_rgba_64x96_to_33x64", "pillow", (64, 96, 4), (33, 64), U8, {}),
        ("pillow_u8_rgba_bicubic_grow", "pillow", (7, 5, 4), (33, 16), U8, {"filter": "bicubic"}),
        ("pillow_u8_rgb_bicubic_shrink", "pillow", (33, 17, 3), (7, 5), U8, {"filter": "bicubic"}),
        ("pillow_u8_rgba_area_shrink", "pillow8", (33, 17, 4), (7, 5), U8, {"filter": "area"}),
        ("pillow_u8_one_channel_area_grow", "pillow8", (7, 5, 1), (17, 33), U8, {"filter": "area"}),
        ("pillow_u8_rgb_nearest_grow", "pillow8", (7, 5, 3), (33, 16), U8, {"filter": "nearest"}),
        ("pillow_u8_gray_nearest_half", "pillow8", (64, 48), (32, 24), U8, {"filter": "nearest"}),
        ("pillow_f32_rgba_bilinear_grow", "pillow", (5, 7, 4), (17, 16), F32, {}),
        ("pillow_f32_rgb_bilinear_shrink_and_grow", "pillow", (33, 17, 3), (9, 31), F32, {}),
        ("pillow_f32_rgba_bicubic_shrink", "pillow", (33, 17, 4), (15, 7), F32, {"filter": "bicubic"}),
        ("pillow_f32_gray_bicubic_1x1_to_5x7", "pillow", (1, 1), (5, 7), F32, {"filter": "bicubic"}),
        ("pillow_f32_gray_area_half", "pillow", (34, 66), (17, 33), F32, {"filter": "area"}),
        ("pillow_f32_rgba_nearest_shrink", "pillow", (33, 17, 4), (13, 7), F32, {"filter": "nearest", "antialias": False}),
        ("pillow_f32_rgba_7x5_to_1x1", "pillow", (7, 5, 4), (1, 1), F32, {}),
        ("pillow_f32_gray_bicubic_narrow_shrink", "narrow", (33, 17), (13, 6), F32, {"filter": "bicubic", "antialias": False}),
        ("pillow_u8_rgba_area_narrow_shrink", "narrow", (33, 17, 4), (13, 6), U8, {"filter": "area", "antialias": False}),
        ("opencv_u8_rgb_nearest_shrink", "opencv", (33, 17, 3), (12, 7), U8, {"filter": "nearest"}),
        ("opencv_u8_rgba_linear_shrink", "opencv", (33, 17, 4), (9, 6), U8, {"antialias": False}),
        ("opencv_f32_rgb_linear_shrink", "opencv", (33, 17, 3), (14, 5), F32, {"antialias": False}),
        ("opencv_f32_rgba_linear_grow", "opencv", (7, 5, 4), (12, 33), F32, {"antialias": False}),
        ("opencv_f32_rgb_area_third", "opencv", (27, 33, 3), (9, 11), F32, {"filter": "area"}),
        ("f32_rgba_same_size", "same", (7, 5, 4), (7, 5), F32, {"filter": "bicubic"}),
        ("u8_rgba_no_rows", "empty", (0, 5, 4), (0, 3), U8, {}),
    ]
    # OpenCV's INTER_NEAREST has no half-pixel centres, INTER_NEAREST_EXACT
    # has. Its INTER_AREA is Pillow's BOX for whole factors only.
    methods = {
        "nearest": cv2.INTER_NEAREST_EXACT,
        "bilinear": cv2.INTER_LINEAR,
        "area": cv2.INTER_AREA,
    }
    for name, library, shape, (h, w), dtype, params in rows:
        image = g.image(*shape, dtype=dtype)
        kind = params.get("filter", "bilinear")
        check_no_ties(kind, params.get("antialias", True), shape[:2], (h, w))
        reference = "cv2.resize" if library == "opencv" else "PIL.Image.resize"
        exact = kind == "nearest" or library in ("same", "empty")
        if library == "same":
            values, reference = image, "numpy.copy"
        elif library == "empty":
            values, reference = image[:h, :w], "numpy.empty"
        elif library == "opencv":
            values = cv2.resize(image, (w, h), interpolation=methods[kind])
        elif library == "narrow":
            values = pillow_resize_narrow(image, h, w, kind)
            exact = kind == "area"
        else:
            values = pillow_resize(image, h, w, kind, eight_bits=library == "pillow8")
        # A coordinate of up to 96 rounds by 4e-6 in f32, and so do weights.
        tolerance = {} if exact else near(dtype, absolute=1e-5)
        g.add(name, [image], finish(values, dtype), reference, params, **tolerance)


@kernel
def crop(g):
    def with_pillow(image, top, left, h, w):
        box = (left, top, left + w, top + h)
        return join([np.asarray(pillow(plane).crop(box)) for plane in planes(image)], image)

    rows = [
        ("u8_gray_7x5_default_corner", (7, 5), (3, 2), U8, {}),
        ("u8_gray_33x17", (33, 17), (9, 11), U8, {"top": 5, "left": 3}),
        ("u8_one_channel_33x17_top", (33, 17, 1), (20, 17), U8, {"top": 13}),
        ("u8_rgb_33x17_left", (33, 17, 3), (33, 4), U8, {"left": 13}),
        ("u8_rgba_48x64", (48, 64, 4), (33, 32), U8, {"top": 15, "left": 32}),
        ("u8_rgba_64x48_16_wide", (64, 48, 4), (7, 16), U8, {"top": 1, "left": 16}),
        ("u8_rgba_whole", (7, 5, 4), (7, 5), U8, {}),
        ("u8_rgb_last_pixel", (7, 5, 3), (1, 1), U8, {"top": 6, "left": 4}),
        ("u8_gray_1x1", (1, 1), (1, 1), U8, {"top": 0, "left": 0}),
        ("f32_gray_9x64", (9, 64), (5, 64), F32, {"top": 4}),
        ("f32_rgb_33x17", (33, 17, 3), (17, 5), F32, {"top": 16, "left": 12}),
        ("f32_rgba_17x17", (17, 17, 4), (15, 16), F32, {"top": 1, "left": 1}),
        ("f32_rgba_one_row", (7, 5, 4), (1, 3), F32, {"top": 3, "left": 2}),
    ]
    for name, shape, (h, w), dtype, params in rows:
        image = g.image(*shape, dtype=dtype)
        out = with_pillow(image, params.get("top", 0), params.get("left", 0), h, w)
        g.add(name, [image], out, "PIL.Image.crop", params)
    image = g.image(0, 5, 4)
    g.add("u8_rgba_no_rows", [image], image[:, 1:3], "numpy.ndarray.__getitem__", {"left": 1})
    image = g.image(7, 5, 3, dtype=F32)
    params = {"top": 2, "left": 5}
    g.add("f32_rgb_to_no_columns", [image], image[2:6, 5:5], "numpy.ndarray.__getitem__", params)


@kernel
def flip(g):
    pillow_way = {
        "horizontal": Image.Transpose.FLIP_LEFT_RIGHT,
        "vertical": Image.Transpose.FLIP_TOP_BOTTOM,
        "both": Image.Transpose.ROTATE_180,
    }
    opencv_way = {"horizontal": 1, "vertical": 0, "both": -1}

    def with_pillow(image, direction):
        way = pillow_way[direction]
        return join([np.asarray(pillow(plane).transpose(way)) for plane in planes(image)], image)

    rows = [
        ("pillow_u8_gray_7x5_default", (7, 5), U8, {}),
        ("pillow_u8_rgb_33x17_vertical", (33, 17, 3), U8, {"direction": "vertical"}),
        ("pillow_u8_rgba_33x17_both", (33, 17, 4), U8, {"direction": "both"}),
        ("pillow_u8_rgba_32x64_horizontal", (32, 64, 4), U8, {"direction": "horizontal"}),
        ("pillow_u8_gray_6x64_both", (6, 64), U8, {"direction": "both"}),
        ("pillow_f32_gray_9x64_horizontal", (9, 64), F32, {"direction": "horizontal"}),
        ("pillow_f32_rgba_17x11_vertical", (17, 11, 4), F32, {"direction": "vertical"}),
        ("opencv_u8_one_channel_33x17_horizontal", (33, 17, 1), U8, {"direction": "horizontal"}),
        ("opencv_u8_rgba_16x16_vertical", (16, 16, 4), U8, {"direction": "vertical"}),
        ("opencv_u8_rgb_24x64_horizontal", (24, 64, 3), U8, {}),
        ("opencv_f32_rgb_17x11_both", (17, 11, 3), F32, {"direction": "both"}),
        ("opencv_f32_rgba_16x5_horizontal", (5, 16, 4), F32, {}),
        ("opencv_u8_rgba_1x1_both", (1, 1, 4), U8, {"direction": "both"}),
        ("opencv_f32_gray_1x7_horizontal", (1, 7), F32, {}),
    ]
    for name, shape, dtype, params in rows:
        image = g.image(*shape, dtype=dtype)
        direction = params.get("direction", "horizontal")
        if name.startswith("opencv_"):
            out = cv2.flip(image, opencv_way[direction]).reshape(shape)
            g.add(name, [image], out, "cv2.flip", params)
        else:
            g.add(name, [image], with_pillow(image, direction), "PIL.Image.transpose", params)
    for name, shape, dtype, direction in [
        ("u8_rgba_no_rows", (0, 5, 4), U8, "horizontal"),
        ("f32_rgb_no_columns", (5, 0, 3), F32, "both"),
    ]:
        image = g.image(*shape, dtype=dtype)
        g.add(name, [image], np.flip(image), "numpy.flip", {"direction": direction})


@kernel
def preprocess(g):
    mean, std = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]

    def with_pillow(image, h, w, params):
        """Pillow's resize in mode F, then the torchvision steps in f64."""
        if params.get("fit", "stretch") == "stretch":
            resized = pillow_resize(image, h, w, "bilinear")
        else:
            short, long = sorted(image.shape[:2])
            side = params.get("resize", 256)
            other = int(side * long / short)
            high, wide = (other, side) if image.shape[0] >= image.shape[1] else (side, other)
            assert high >= h and wide >= w, "torchvision would pad"
            resized = pillow_resize(image, high, wide, "bilinear")
            top, left = int(round((high - h) / 2.0)), int(round((wide - w) / 2.0))
            resized = resized[top : top + h, left : left + w]
        values = resized.astype(np.float64) / (255 if image.dtype == U8 else 1)
        values = values[..., None] if values.ndim == 2 else values
        values = np.repeat(values, 3, axis=2) if values.shape[2] == 1 else values[..., :3]
        if params.get("normalize", True):
            values = (values - params.get("mean", mean)) / params.get("std", std)
        return values

    own = {"mean": [0.5, 0.25, 0.125], "std": [0.5, 1.5, 0.0625]}
    crops = {"fit": "crop"}
    # The differences H-h and W-w are odd in places: half a pixel rounds to
    # even, as Python does.
    rows = [
        ("u8_rgb_stretch_planes", (33, 17, 3), U8, (16, 16), "planes", {}),
        ("u8_rgb_stretch_pixels", (33, 17, 3), U8, (7, 5), "pixels", {"fit": "stretch"}),
        ("u8_rgba_48x64_stretch_planes", (48, 64, 4), U8, (33, 31), "planes", {}),
        ("u8_rgba_stretch_grow_pixels", (7, 5, 4), U8, (17, 33), "pixels", {}),
        ("u8_gray_stretch_planes", (33, 17), U8, (8, 9), "planes", {}),
        ("u8_one_channel_stretch_pixels", (17, 33, 1), U8, (8, 64), "pixels", {}),
        ("u8_rgb_plain_planes", (33, 17, 3), U8, (16, 12), "planes", {"normalize": False}),
        ("u8_rgba_own_pixels", (16, 16, 4), U8, (9, 11), "pixels", own),
        ("u8_rgb_same_size_planes", (7, 5, 3), U8, (7, 5), "planes", {}),
        ("u8_rgb_crop_tall_planes", (33, 17, 3), U8, (13, 13), "planes", crops | {"resize": 16}),
        ("u8_rgba_crop_wide_pixels", (48, 64, 4), U8, (23, 22), "pixels", crops | {"resize": 24}),
        ("u8_gray_crop_square_planes", (33, 33), U8, (16, 20), "planes", crops | {"resize": 21}),
        ("u8_rgb_crop_default_256_planes", (12, 9, 3), U8, (24, 33), "planes", crops),
        ("u8_rgb_crop_all_pixels", (31, 17, 3), U8, (29, 16), "pixels", crops | {"resize": 16}),
        ("f32_rgb_stretch_planes", (33, 17, 3), F32, (16, 16), "planes", {}),
        ("f32_rgba_stretch_pixels", (17, 33, 4), F32, (21, 20), "pixels", {}),
        ("f32_gray_plain_pixels", (9, 64), F32, (7, 13), "pixels", {"normalize": False}),
        ("f32_rgb_crop_own_planes", (17, 23, 3), F32, (10, 13), "planes", crops | {"resize": 11} | own),
        ("f32_rgba_crop_plain_pixels", (20, 13, 4), F32, (16, 15), "pixels", crops | {"resize": 20, "normalize": False}),
        ("f32_one_channel_crop_planes", (7, 5, 1), F32, (5, 6), "planes", crops | {"resize": 9}),
        ("u8_rgba_1x1_planes", (1, 1, 4), U8, (2, 3), "planes", {}),
        ("f32_rgb_1x1_crop_pixels", (1, 1, 3), F32, (3, 2), "pixels", crops | {"resize": 4}),
    ]
    for name, shape, dtype, (h, w), layout, params in rows:
        image = g.image(*shape, dtype=dtype)
        values = with_pillow(image, h, w, params)
        if layout == "planes":
            values = values.transpose(2, 0, 1)[None]
        # As resize, divided by the smallest deviation.
        scale = min(params.get("std", std)) if params.get("normalize", True) else 1.0
        tolerance = {"absolute": 1e-5 / scale, "relative": 2e-6}
        g.add(name, [image], finish(values, F32), "PIL.Image.resize", params, **tolerance)
    empty = np.empty((0, 3, 3), F32)
    g.add("u8_rgba_no_rows_pixels", [g.image(0, 5, 4)], empty, "numpy.empty")


# --------------------------------------------------------------------------
# Reductions
# --------------------------------------------------------------------------


def reduced_axes(params, rank):
    """The axes as NumPy's tuple: none given means all."""
    return tuple(axis % rank for axis in params["axes"]) if params.get("axes") else None


def reduced_count(x, axes):
    return x.size if axes is None else math.prod(x.shape[axis] for axis in axes)


def wide(x, dtype):
    """The values converted to the output's type, to add up with more digits:
    f64 for f32, long double for f64. Integers stay as they are and wrap."""
    x = x.astype(dtype)
    return x.astype({F32: np.float64, F64: np.longdouble}.get(np.dtype(dtype), dtype))


def sum_error(magnitude, count, dtype):
    """What adding up may cost: half-ulps of the sum of magnitudes, growing
    with the depth of a tree of additions. Nothing for integers."""
    if dtype not in (F32, F64):
        return {}
    eps = np.finfo(dtype).eps / 2
    absolute = eps * (4 + 4 * math.log2(max(count, 1))) * float(np.max(magnitude, initial=0.0))
    return {"absolute": absolute, "relative": 4 * eps}


# The same shapes, axes and types for sum, mean, max and min; the last
# column is the output's type for the sum.
REDUCE_ROWS = [
    ("f32_rank_1_all", (37,), F32, {}, F32),
    ("f32_3d_all_keep_dims", (4, 5, 7), F32, {"keep_dims": True}, F32),
    ("f32_3d_first", (4, 5, 7), F32, {"axes": [0]}, F32),
    ("f32_3d_middle", (4, 5, 7), F32, {"axes": [1]}, F32),
    ("f32_3d_last", (4, 5, 7), F32, {"axes": [2]}, F32),
    ("f32_3d_middle_keep_dims", (4, 5, 7), F32, {"axes": [1], "keep_dims": True}, F32),
    ("f32_3d_first_and_last", (4, 5, 7), F32, {"axes": [0, 2]}, F32),
    ("f32_4d_not_adjacent_keep_dims", (3, 4, 5, 6), F32, {"axes": [0, 2], "keep_dims": True}, F32),
    ("f32_4d_negative", (3, 4, 5, 6), F32, {"axes": [-1, -3]}, F32),
    ("f32_2d_last_256", (5, 256), F32, {"axes": [-1]}, F32),
    ("f32_2d_first_64_wide", (17, 64), F32, {"axes": [0]}, F32),
    ("f32_axis_of_one", (5, 1, 3), F32, {"axes": [1]}, F32),
    ("f32_scalar", (), F32, {}, F32),
    ("f64_3d_last", (4, 5, 7), F64, {"axes": [2]}, F64),
    ("s32_3d_first", (9, 5, 3), S32, {"axes": [0]}, S32),
    ("s64_2d_all", (17, 9), S64, {}, S64),
    ("u32_2d_last", (7, 33), U32, {"axes": [1]}, U32),
    ("u8_image_rows", (33, 17, 4), U8, {"axes": [0, 1]}, U32),
    ("f32_no_rows_last", (0, 3), F32, {"axes": [1]}, F32),
]


def small_values(g, shape, dtype):
    """Values whose sums fit in their type."""
    if dtype in (F32, F64):
        return g.normal(*shape, dtype=dtype)
    if dtype == U8:
        return g.image(*shape)
    low = 0 if dtype == U32 else -100_000
    return g.integers(low, 100_000, *shape, dtype=dtype)


@kernel
def reduce_sum(g):
    def case(name, x, params, dtype):
        axes, keep = reduced_axes(params, x.ndim), params.get("keep_dims", False)
        values = wide(x, dtype)
        out = np.sum(values, axis=axes, keepdims=keep, dtype=values.dtype).astype(dtype)
        magnitude = np.sum(np.abs(values), axis=axes, dtype=values.dtype)
        tolerance = sum_error(magnitude, reduced_count(x, axes), dtype)
        # Whole numbers below 2^24 add up exactly in f32, in any order.
        if x.dtype.kind in "iu" and np.max(magnitude, initial=0) < 2**24:
            tolerance = {}
        g.add(name, [x], out, "numpy.sum", params, **tolerance)

    for name, shape, dtype, params, out in REDUCE_ROWS:
        case(name, small_values(g, shape, dtype), params, out)
    case("u8_long_65537_to_f32", g.image(65537), {}, F32)
    case("f32_long_8193_to_f64", g.image(8193, dtype=F32), {}, F64)
    case("f32_truncated_to_s32", g.normal(7, 9, scale=20.0), {"axes": [1]}, S32)
    case("s32_to_s64_beyond_32_bits", g.integers(2**30, 2**31 - 1, 5, 33), {"axes": [1]}, S64)
    case("f32_no_rows_all", np.zeros((0, 3), F32), {}, F32)
    case("s32_no_rows_first", np.zeros((0, 3), S32), {"axes": [0], "keep_dims": True}, S32)


@kernel
def reduce_mean(g):
    def case(name, x, params, dtype):
        axes, keep = reduced_axes(params, x.ndim), params.get("keep_dims", False)
        values = wide(x, dtype)
        out = np.mean(values, axis=axes, keepdims=keep).astype(dtype)
        count = reduced_count(x, axes)
        magnitude = np.mean(np.abs(values), axis=axes)
        tolerance = sum_error(magnitude, count, dtype)
        g.add(name, [x], out, "numpy.mean", params, **tolerance)

    for name, shape, dtype, params, _ in REDUCE_ROWS:
        case(name, small_values(g, shape, dtype), params, F64 if dtype in (F64, S64) else F32)
    case("u8_long_65537_to_f32", g.image(65537), {}, F32)
    case("f32_to_f64", g.image(33, 17, dtype=F32), {}, F64)
    case("f32_long_8193_to_f32", g.image(8193, dtype=F32), {"axes": [0]}, F32)
    case("u8_gray_to_f64", g.image(7, 5), {"axes": [-2]}, F64)


def extreme(g, pick):
    """Maximum and minimum: any values of a type, exactly."""

    def case(name, x, params):
        axes, keep = reduced_axes(params, x.ndim), params.get("keep_dims", False)
        out = pick(x, axis=axes, keepdims=keep)
        g.add(name, [x], out, f"numpy.{pick.__name__}", params)

    for name, shape, dtype, params, _ in REDUCE_ROWS:
        case(name, g.values(*shape, dtype=dtype), params)
    # The extreme value at one place only, near the end.
    x = g.integers(3, 253, 65537, dtype=U8)
    x[61234] = 254 if pick is np.max else 1
    case("u8_long_65537", x, {})
    case("f32_all_negative", -g.image(7, 65, dtype=F32) - F32.type(1.0), {"axes": [1]})
    case("f32_all_positive", g.image(7, 65, dtype=F32) + F32.type(1.0), {"axes": [0]})
    # Apart only in digits which a double does not hold.
    near_top = 2**62 + g.integers(0, 1000, 9, 33, dtype=S64)
    case("s64_beyond_53_bits", near_top, {"axes": [1]})
    case("s64_beyond_53_bits_negative", -near_top, {"axes": [0], "keep_dims": True})


@kernel
def reduce_max(g):
    extreme(g, np.max)


@kernel
def reduce_min(g):
    extreme(g, np.min)


@kernel
def reduce_prod(g):
    def case(name, x, params, dtype):
        axes, keep = reduced_axes(params, x.ndim), params.get("keep_dims", False)
        values = wide(x, dtype)
        out = np.prod(values, axis=axes, keepdims=keep, dtype=values.dtype).astype(dtype)
        count = reduced_count(x, axes)
        tolerance = {}
        if dtype in (F32, F64):
            # Every factor adds a rounding, in whatever order.
            eps = np.finfo(dtype).eps / 2
            tolerance = {"absolute": 0.0, "relative": eps * (4 + 4 * math.sqrt(count))}
        g.add(name, [x], out, "numpy.prod", params, **tolerance)

    def factors(*shape, dtype):
        """Values of either sign around one; small integers without zero."""
        if dtype in (F32, F64):
            sign = np.where(g.rng.random(shape) < 0.3, -1, 1)
            return np.asarray(g.rng.uniform(0.6, 1.5, shape) * sign).astype(dtype)
        x = g.integers(1, 4, *shape, dtype=dtype)
        return x if dtype in (U8, U32) else (x * g.rng.choice([-1, 1], shape)).astype(dtype)

    for name, shape, dtype, params, out in REDUCE_ROWS:
        if name in ("s64_2d_all", "u8_image_rows"):
            continue
        case(name, factors(*shape, dtype=dtype), params, out)
    # A few factors other than one, whose product has 24 bits.
    x = np.ones(65537, np.uint8)
    x[g.rng.choice(65537, 14, replace=False)] = [2] * 6 + [3] * 8
    case("u8_long_65537_to_f32", x, {}, F32)
    case("s64_2d_last", factors(7, 33, dtype=S64), {"axes": [1]}, S64)
    # Odd factors: the low 32 bits of a product far larger.
    odd = g.image(17, 33) | np.uint8(1)
    case("u8_to_u32_wraps", odd, {"axes": [1]}, U32)
    case("f32_truncated_to_s32", g.image(5, 7, dtype=F32, low=1.0, high=4.0), {"axes": [1]}, S32)
    case("f32_with_zeros", g.integers(0, 3, 9, 5).astype(np.float32), {"axes": [0]}, F32)
    case("f32_no_rows_all", np.zeros((0, 3), F32), {}, F32)
    case("s32_no_rows_first", np.zeros((0, 3), S32), {"axes": [0], "keep_dims": True}, S32)


def arg_extreme(g, pick, towards_max):
    """Positions of extremes: row-major within the reduced axes."""

    def case(name, x, params, dtype=S32):
        axes, keep = reduced_axes(params, x.ndim), params.get("keep_dims", False)
        axes = tuple(range(x.ndim)) if axes is None else tuple(sorted(axes))
        kept = [axis for axis in range(x.ndim) if axis not in axes]
        sizes = [x.shape[axis] for axis in kept] + [reduced_count(x, axes)]
        rows = x.transpose(kept + list(axes)).reshape(sizes)
        out = np.asarray(pick(rows, axis=-1))
        if keep:
            out = out.reshape([1 if axis in axes else size for axis, size in enumerate(x.shape)])
        g.add(name, [x], out.astype(dtype), f"numpy.{pick.__name__}", params)

    for name, shape, dtype, params, out in [
        ("f32_rank_1_all", (37,), F32, {}, S32),
        ("f32_2d_all", (17, 11), F32, {}, S64),
        ("f32_3d_all_keep_dims", (4, 5, 7), F32, {"keep_dims": True}, U32),
        ("f32_3d_first", (4, 5, 7), F32, {"axes": [0]}, S32),
        ("f32_3d_middle", (4, 5, 7), F32, {"axes": [1]}, U32),
        ("f32_3d_last", (4, 5, 7), F32, {"axes": [2]}, S64),
        ("f32_3d_middle_keep_dims", (4, 5, 7), F32, {"axes": [-2], "keep_dims": True}, S32),
        ("f32_3d_first_and_last", (4, 5, 7), F32, {"axes": [0, 2]}, S32),
        ("f32_4d_not_adjacent_keep_dims", (3, 4, 5, 6), F32, {"axes": [1, 3], "keep_dims": True}, S32),
        ("f32_4d_negative", (3, 4, 5, 6), F32, {"axes": [-3, -1]}, U32),
        ("f32_2d_last_256", (5, 256), F32, {"axes": [-1]}, S32),
        ("f32_axis_of_one", (5, 1, 3), F32, {"axes": [1]}, S32),
        ("f64_3d_last", (4, 5, 7), F64, {"axes": [2]}, S32),
        ("s32_3d_first", (9, 5, 3), S32, {"axes": [0]}, S32),
        ("u32_2d_last", (7, 33), U32, {"axes": [1]}, U32),
        ("u8_image_rows", (33, 17, 4), U8, {"axes": [0, 1]}, S32),
        ("f32_scalar", (), F32, {}, S32),
        ("f32_no_rows_last", (0, 3), F32, {"axes": [1]}, S32),
    ]:
        case(name, g.values(*shape, dtype=dtype), params, out)

    case("s64_beyond_53_bits", 2**62 + g.integers(0, 1000, 9, 33, dtype=S64), {"axes": [1]}, S64)
    case("f32_ties_last", g.integers(0, 3, 16, 65).astype(np.float32), {"axes": [1]})
    case("u8_ties_first", g.integers(0, 4, 65, 16, dtype=U8), {"axes": [0]})
    case("s32_all_equal", np.full((5, 33), 7, np.int32), {})
    case("f32_ties_two_axes", g.integers(0, 2, 4, 3, 5).astype(np.float32), {"axes": [0, 2]})
    x = g.integers(3, 253, 65537, dtype=U8)
    x[[40001, 61234]] = 254 if towards_max else 1
    case("u8_long_65537_tie", x, {}, U32)


@kernel
def argmax(g):
    arg_extreme(g, np.argmax, True)


@kernel
def argmin(g):
    arg_extreme(g, np.argmin, False)


# --------------------------------------------------------------------------
# Rows: softmax, layer_norm, histogram
# --------------------------------------------------------------------------


def softmax_cases(g, function, floats, doubles):
    def case(name, x, params):
        axis = params.get("axis", -1)
        out = x if x.size == 0 else function(x.astype(np.float64), axis=axis).astype(x.dtype)
        tolerance = {} if x.size == 0 else (floats if x.dtype == F32 else doubles)
        g.add(name, [x], out, f"scipy.special.{function.__name__}", params, **tolerance)

    case("f32_rank_1_default", g.normal(37), {})
    case("f32_rank_1_of_one", g.normal(1), {})
    case("f32_2d_default_odd", g.normal(33, 17, scale=3.0), {})
    case("f32_2d_last_64", g.normal(7, 64, scale=3.0), {"axis": 1})
    case("f32_2d_last_257", g.normal(5, 257, scale=3.0), {"axis": -1})
    case("f32_2d_first", g.normal(65, 13), {"axis": 0})
    case("f32_3d_axis_0", g.normal(4, 5, 7), {"axis": 0})
    case("f32_3d_axis_1", g.normal(4, 5, 7), {"axis": 1})
    case("f32_3d_axis_2", g.normal(4, 5, 7), {"axis": 2})
    case("f32_3d_axis_minus_2", g.normal(6, 3, 64), {"axis": -2})
    case("f32_4d_axis_minus_4", g.normal(3, 2, 5, 4), {"axis": -4})
    case("f32_large_values", g.normal(6, 19) + F32.type(1000.0), {})
    case("f32_very_far_apart", g.rng.choice([-1000.0, 0.0, 999.0, 1000.0], (9, 11)).astype(np.float32), {})
    case("f32_all_equal", np.full((3, 10), 1000.0, np.float32), {})
    case("f32_long_2051", g.normal(2051, scale=2.0), {})
    case("f32_no_rows", np.zeros((0, 5), F32), {})
    case("f64_2d_default", g.normal(9, 33, dtype=F64, scale=3.0), {})
    case("f64_3d_axis_1_large", g.normal(3, 5, 4, dtype=F64) - 1000.0, {"axis": 1})


@kernel
def softmax(g):
    # exp of -20 on a GPU is exact to some 40 units of the last place.
    floats = {"absolute": 1e-7, "relative": 1e-5}
    softmax_cases(g, special.softmax, floats, {"absolute": 1e-15, "relative": 1e-13})


@kernel
def log_softmax(g):
    # A logarithm of a sum up to 2051, and the subtraction of values up to 10.
    floats = {"absolute": 3e-6, "relative": 1e-6}
    softmax_cases(g, special.log_softmax, floats, {"absolute": 1e-14, "relative": 1e-14})


@kernel
def layer_norm(g):
    def with_numpy(x, scale, bias, epsilon):
        x, scale, bias = (np.asarray(v, np.longdouble) for v in (x, scale, bias))
        centred = x - np.mean(x, axis=-1, keepdims=True)
        variance = np.var(x, axis=-1, keepdims=True)
        return centred / np.sqrt(variance + np.longdouble(epsilon)) * scale + bias

    def case(name, x, params=None, absolute=None, with_scipy=False):
        params = params or {}
        n = x.shape[-1]
        scale, bias = g.normal(n, dtype=x.dtype), g.normal(n, dtype=x.dtype)
        if with_scipy:
            # A standard score is layer_norm without an epsilon.
            score = stats.zscore(x.astype(np.float64), axis=-1, ddof=0)
            out, reference = score * scale + bias, "scipy.stats.zscore"
        else:
            out = with_numpy(x, scale, bias, params.get("epsilon", 1e-5))
            reference = "numpy.var"
        floats = {"absolute": absolute or 4e-6, "relative": 4e-6}
        tolerance = floats if x.dtype == F32 else {"absolute": 1e-13, "relative": 1e-13}
        tolerance = {} if x.size == 0 else tolerance
        g.add(name, [x, scale, bias], out.astype(x.dtype), reference, params, **tolerance)

    case("f32_rank_1_odd", g.normal(37))
    case("f32_2d_odd", g.normal(33, 17))
    case("f32_2d_64", g.normal(7, 64))
    case("f32_2d_257", g.normal(5, 257))
    case("f32_3d", g.normal(4, 5, 13))
    case("f32_4d", g.normal(2, 3, 4, 9))
    case("f32_large_epsilon", g.normal(6, 19), {"epsilon": 0.5})
    case("f32_small_values", g.normal(6, 19, scale=0.01), {"epsilon": 0.001})
    # Added up one by one, 65 values around 100 give a mean 2e-5 off.
    case("f32_far_from_zero", g.normal(9, 65) + F32.type(100.0), absolute=1e-4)
    case("f32_all_equal", np.full((3, 16), 2.5, np.float32))
    case("f32_last_of_one", g.normal(5, 1))
    case("f32_long_2051", g.normal(1, 2051))
    case("f32_no_rows", np.zeros((0, 5), F32))
    case("f64_2d_odd", g.normal(9, 33, dtype=F64))
    case("f64_3d_epsilon", g.normal(3, 4, 7, dtype=F64), {"epsilon": 0.01})
    case("scipy_f32_2d_tiny_epsilon", g.normal(12, 31), {"epsilon": 1e-12}, with_scipy=True)
    case("scipy_f64_2d_no_epsilon", g.normal(6, 21, dtype=F64), {"epsilon": 0.0}, with_scipy=True)


@kernel
def histogram(g):
    def case(name, x, bins, limits=None):
        natural = (0.0, 256.0) if x.dtype == U8 else (0.0, 1.0)
        low, high = limits or natural
        out, edges = np.histogram(x.astype(np.float64), bins, (low, high))
        exact = low == 0 and math.log2(bins / (high - low)).is_integer()
        if x.dtype == F32 and not exact and not name.startswith("f32_edges"):
            # No value so near to an edge that f32 may see it on either side.
            # Powers of two scale without rounding; values on an edge are in
            # cases of their own, exact in binary.
            apart = np.abs(x.reshape(-1, 1).astype(np.float64) - edges)
            assert np.min(apart, initial=1.0) > 2e-7 * max(abs(low), abs(high)), name
        params = {} if limits is None else {"min": low, "max": high}
        g.add(name, [x], out.astype(np.uint32), "numpy.histogram", params)

    case("u8_gray_256", g.image(33, 17), 256)
    case("u8_rgba_64x96_256", g.image(64, 96, 4), 256)
    case("u8_rgb_10", g.image(33, 17, 3), 10)
    case("u8_rank_1_7", g.image(1001), 7)
    case("u8_rank_1_1000", g.image(10007), 1000)
    case("u8_range_10_to_200", g.image(64, 48), 19, (10.0, 200.0))
    case("u8_range_0_to_255", g.image(64, 48), 5, (0.0, 255.0))
    case("u8_range_fraction", g.image(17, 16, 4), 13, (-20.5, 99.5))
    case("u8_all_equal", np.full((16, 64), 128, np.uint8), 10)
    case("u8_one_bin", g.image(7, 5), 1)
    case("u8_1x1", g.image(1, 1), 16)
    case("u8_no_values", g.image(0, 5, 4), 8)
    case("f32_gray_10", g.image(33, 17, dtype=F32), 10)
    case("f32_rgba_256", g.image(16, 16, 4, dtype=F32), 256)
    case("f32_natural_outside", g.image(33, 17, dtype=F32, low=-0.5, high=1.5), 32)
    case("f32_range_outside", g.normal(2000, scale=2.0), 21, (-3.0, 2.5))
    case("f32_range_narrow", g.image(3, 500, dtype=F32), 9, (0.25, 0.375))
    eighths = (g.integers(-3, 12, 20, 17) / 8).astype(np.float32)
    case("f32_edges_natural", eighths, 8)
    case("f32_edges_range", eighths, 4, (-0.25, 0.75))
    case("f32_no_values", np.zeros(0, F32), 4)

    # OpenCV's last bin leaves its end out; u8 never reaches 256, nor these
    # floats 1.
    for name, x, bins, top in [
        ("opencv_u8_gray_256", g.image(48, 64), 256, 256),
        ("opencv_u8_gray_16", g.image(33, 17), 16, 256),
        ("opencv_f32_gray_64", g.image(33, 17, dtype=F32), 64, 1),
    ]:
        counts = cv2.calcHist([x], [0], None, [bins], [0, top])
        g.add(name, [x], counts.reshape(-1).astype(np.uint32), "cv2.calcHist")


# --------------------------------------------------------------------------
# Matrices
# --------------------------------------------------------------------------


def product_error(a, b, k):
    """Adding k products one by one: each step rounds a sum of about
    rms(a) * rms(b) * sqrt(step), so all together about eps * k * rms * rms;
    twice that, with a relative part for the products themselves."""
    if k == 0 or a.size == 0 or b.size == 0:
        return {}
    eps = np.finfo(a.dtype).eps
    rms = math.sqrt(np.mean(np.square(a, dtype=np.float64)) * np.mean(np.square(b, dtype=np.float64)))
    return {"absolute": 2 * eps * k * rms, "relative": 8 * eps}


def swap(x, transposed):
    return np.swapaxes(x, -1, -2) if transposed else x


@kernel
def matmul(g):
    def case(name, shape_a, shape_b, params=None, dtype=F32):
        params = params or {}
        a, b = g.normal(*shape_a, dtype=dtype), g.normal(*shape_b, dtype=dtype)
        # Long double: no BLAS, so no dependence on the machine's threads.
        left = swap(a, params.get("transpose_a", False)).astype(np.longdouble)
        right = swap(b, params.get("transpose_b", False)).astype(np.longdouble)
        out = np.matmul(left, right).astype(dtype)
        tolerance = product_error(a, b, left.shape[-1])
        g.add(name, [a, b], out, "numpy.matmul", params, **tolerance)

    first, second = {"transpose_a": True}, {"transpose_b": True}
    case("f32_5x7x3", (5, 7), (7, 3))
    case("f32_1x1x1", (1, 1), (1, 1))
    case("f32_65x33x70", (65, 33), (33, 70))
    case("f32_128x64x128", (128, 64), (64, 128))
    case("f32_1x100x37", (1, 100), (100, 37))
    case("f32_37x100x1", (37, 100), (100, 1))
    case("f32_16x1x17", (16, 1), (1, 17))
    case("f32_32x64x32", (32, 64), (64, 32))
    case("f32_3x513x5", (3, 513), (513, 5))
    case("f32_transpose_a", (33, 17), (33, 21), first)
    case("f32_transpose_b", (17, 33), (21, 33), second)
    case("f32_transpose_both", (33, 17), (21, 33), first | second)
    case("f32_batched", (3, 5, 7), (3, 7, 4))
    case("f32_batched_4d", (2, 3, 9, 5), (2, 3, 5, 6))
    case("f32_batched_transpose_a", (3, 18, 17), (3, 18, 16), first)
    case("f32_batched_transpose_b", (3, 17, 18), (3, 15, 18), second)
    case("f32_first_shared", (5, 7), (3, 7, 4))
    case("f32_second_shared", (3, 5, 7), (7, 4))
    case("f32_first_shared_transposed", (7, 5), (2, 3, 4, 7), first | second)
    case("f32_no_rows", (0, 3), (3, 2))
    case("f32_nothing_to_add", (2, 0), (0, 3))
    case("f32_no_batches", (0, 4, 3), (0, 3, 2))
    case("f64_17x33x9", (17, 33), (33, 9), dtype=F64)
    case("f64_batched_transpose_both", (2, 7, 5), (2, 3, 7), first | second, dtype=F64)


@kernel
def dense(g):
    functions = {
        "none": lambda x: x,
        "relu": lambda x: np.maximum(x, 0),
        "sigmoid": special.expit,
        "tanh": np.tanh,
        "gelu": lambda x: 0.5 * x * (1 + special.erf(x / math.sqrt(2))),
    }
    names = {
        "none": "numpy.matmul",
        "relu": "numpy.maximum",
        "sigmoid": "scipy.special.expit",
        "tanh": "numpy.tanh",
        "gelu": "scipy.special.erf",
    }

    def case(name, shape, outputs, params=None, dtype=F32):
        params = params or {}
        n = shape[-1]
        x, bias = g.normal(*shape, dtype=dtype), g.normal(outputs, dtype=dtype)
        # Weights as after training: results of about one.
        transposed = params.get("transpose_weight", False)
        sides = (outputs, n) if transposed else (n, outputs)
        weight = g.normal(*sides, dtype=dtype, scale=1 / math.sqrt(max(n, 1)))
        right = swap(weight, transposed).astype(np.longdouble)
        values = np.matmul(x.astype(np.longdouble), right) + bias
        activation = params.get("activation", "none")
        out = functions[activation](values.astype(np.float64)).astype(dtype)
        tolerance = {} if x.size == 0 or n == 0 else product_error(x, weight, n)
        if tolerance:
            # The bias, of up to 4, and the result round once more; the
            # activations have slopes of about one and errors of their own.
            units = 4 if activation in ("none", "relu") else 16
            tolerance["absolute"] += units * np.finfo(dtype).eps
        g.add(name, [x, weight, bias], out, names[activation], params, **tolerance)

    case("f32_rank_1", (7,), 3)
    case("f32_5x7x3", (5, 7), 3)
    case("f32_33x65x17", (33, 65), 17, {"activation": "none"})
    case("f32_relu", (33, 17), 21, {"activation": "relu"})
    case("f32_sigmoid", (17, 33), 21, {"activation": "sigmoid"})
    case("f32_tanh", (17, 33), 21, {"activation": "tanh"})
    case("f32_gelu", (17, 33), 21, {"activation": "gelu"})
    case("f32_32x64x64_relu", (32, 64), 64, {"activation": "relu"})
    case("f32_one_row_gelu", (1, 100), 37, {"activation": "gelu"})
    case("f32_one_output", (37, 100), 1)
    case("f32_3d", (3, 5, 7), 4)
    case("f32_4d_tanh", (2, 3, 4, 9), 5, {"activation": "tanh"})
    case("f32_transposed", (17, 33), 21, {"transpose_weight": True})
    case("f32_3d_transposed_relu", (2, 9, 16), 64, {"transpose_weight": True, "activation": "relu"})
    case("f32_no_rows", (0, 3), 2)
    case("f32_no_inputs_relu", (4, 0), 3, {"activation": "relu"})
    case("f32_1x1x1_sigmoid", (1, 1), 1, {"activation": "sigmoid"})
    case("f64_9x33x7", (9, 33), 7, dtype=F64)
    case("f64_transposed_gelu", (5, 12), 9, {"transpose_weight": True, "activation": "gelu"}, dtype=F64)


# --------------------------------------------------------------------------
# Moving values: exact, for any type
# --------------------------------------------------------------------------


@kernel
def transpose(g):
    rows = [
        ("f32_rank_1", (37,), F32, []),
        ("f32_2d_default", (33, 17), F32, []),
        ("f32_2d_64x64", (64, 64), F32, [1, 0]),
        ("f32_2d_unchanged", (5, 7), F32, [0, 1]),
        ("u8_2d_default", (7, 5), U8, []),
        ("u8_2d_64x96", (64, 96), U8, []),
        ("u8_image_to_planes", (33, 17, 3), U8, [2, 0, 1]),
        ("u8_planes_to_image", (3, 17, 33), U8, [1, 2, 0]),
        ("u8_rgba_rows_and_columns", (16, 48, 4), U8, [1, 0, 2]),
        ("f32_3d_default", (4, 5, 7), F32, []),
        ("f32_3d_last_two", (4, 33, 7), F32, [0, 2, 1]),
        ("f64_3d_middle_first", (4, 5, 7), F64, [1, 0, 2]),
        ("f64_4d_default", (3, 4, 2, 5), F64, []),
        ("s32_4d_heads", (2, 9, 4, 8), S32, [0, 2, 1, 3]),
        ("s64_4d_cycle", (3, 4, 2, 5), S64, [3, 0, 1, 2]),
        ("u32_3d_cycle", (6, 1, 11), U32, [1, 2, 0]),
        ("f32_1x1", (1, 1), F32, []),
        ("f32_scalar", (), F32, []),
        ("f32_no_rows", (0, 5, 4), F32, [2, 1, 0]),
    ]
    for name, shape, dtype, axes in rows:
        x = g.values(*shape, dtype=dtype)
        params = {"axes": axes} if axes else {}
        g.add(name, [x], np.transpose(x, axes or None), "numpy.transpose", params)


@kernel
def reshape(g):
    rows = [
        ("f32_2d_to_1d", (33, 17), (561,), F32),
        ("f32_1d_to_2d", (561,), (17, 33), F32),
        ("f32_3d_to_2d", (4, 5, 7), (20, 7), F32),
        ("f32_2d_to_4d", (30, 8), (2, 3, 5, 8), F32),
        ("f32_same", (5, 7), (5, 7), F32),
        ("f32_ones_added", (5, 7), (1, 5, 1, 7), F32),
        ("f32_scalar_to_1", (), (1,), F32),
        ("f32_1x1_to_scalar", (1, 1), (), F32),
        ("u8_image_to_1d", (33, 17, 3), (1683,), U8),
        ("u8_32x64x4_to_rows", (32, 64, 4), (64, 128), U8),
        ("u8_odd_bytes", (7,), (7, 1), U8),
        ("f64_2d_to_3d", (9, 20), (3, 12, 5), F64),
        ("s32_2d_to_2d", (12, 5), (4, 15), S32),
        ("s64_3d_to_1d", (3, 4, 5), (60,), S64),
        ("u32_1d_to_3d", (66,), (2, 3, 11), U32),
        ("u8_no_values", (0, 3), (5, 0, 2), U8),
    ]
    for name, shape, wanted, dtype in rows:
        x = g.values(*shape, dtype=dtype)
        g.add(name, [x], np.reshape(x, wanted), "numpy.reshape")


@kernel
def concat(g):
    rows = [
        ("f32_one_input", [(5, 7)], 0, F32),
        ("f32_rank_1_two", [(37,), (5,)], 0, F32),
        ("f32_2d_default_two", [(3, 17), (5, 17)], 0, F32),
        ("f32_2d_axis_1_two", [(9, 64), (9, 17)], 1, F32),
        ("f32_2d_axis_1_three", [(33, 3), (33, 1), (33, 16)], 1, F32),
        ("f32_3d_axis_0_three", [(1, 5, 7), (2, 5, 7), (3, 5, 7)], 0, F32),
        ("f32_3d_axis_1_three", [(4, 1, 7), (4, 5, 7), (4, 2, 7)], 1, F32),
        ("f32_3d_axis_2_three", [(4, 5, 1), (4, 5, 2), (4, 5, 3)], 2, F32),
        ("f32_3d_axis_minus_1", [(4, 5, 3), (4, 5, 4)], -1, F32),
        ("f32_4d_axis_minus_3", [(2, 3, 4, 5), (2, 2, 4, 5)], -3, F32),
        ("f32_empty_first", [(0, 3), (5, 3)], 0, F32),
        ("f32_empty_between", [(4, 3), (4, 0), (4, 2)], 1, F32),
        ("f32_all_empty", [(0, 3), (0, 3)], 0, F32),
        ("u8_planes_to_image", [(33, 17, 1)] * 3, 2, U8),
        ("u8_images_side_by_side", [(16, 64, 4), (16, 17, 4)], 1, U8),
        ("u8_eight_inputs", [(3, n) for n in range(1, 9)], 1, U8),
        ("f64_2d_axis_0", [(3, 5), (4, 5)], 0, F64),
        ("s32_3d_axis_1", [(2, 3, 5), (2, 4, 5)], 1, S32),
        ("s64_one_input_axis_1", [(3, 5)], 1, S64),
        ("u32_rank_1_three", [(1,), (64,), (3,)], -1, U32),
    ]
    for name, shapes, axis, dtype in rows:
        inputs = [g.values(*shape, dtype=dtype) for shape in shapes]
        params = {"axis": axis} if axis else {}
        g.add(name, inputs, np.concatenate(inputs, axis=axis), "numpy.concatenate", params)


@kernel
def slice(g):
    # name, shape, dtype, start, step ([] is ones), shape of the output
    rows = [
        ("f32_rank_1", (37,), F32, [5], [], (17,)),
        ("f32_rank_1_step_3", (37,), F32, [1], [3], (12,)),
        ("f32_2d", (33, 17), F32, [4, 2], [], (20, 11)),
        ("f32_2d_steps", (33, 17), F32, [1, 0], [2, 3], (16, 6)),
        ("f32_2d_whole", (9, 64), F32, [0, 0], [], (9, 64)),
        ("f32_2d_one_column", (9, 64), F32, [0, 63], [], (9, 1)),
        ("f32_2d_64_wide", (5, 128), F32, [2, 64], [1, 1], (3, 64)),
        ("f32_3d_steps", (6, 7, 8), F32, [0, 1, 7], [5, 2, 1], (2, 3, 1)),
        ("f32_4d", (3, 4, 5, 6), F32, [1, 0, 2, 3], [1, 3, 2, 1], (2, 2, 2, 3)),
        ("f32_last_value", (7, 5), F32, [6, 4], [], (1, 1)),
        ("f32_step_beyond", (7, 5), F32, [3, 1], [100, 100], (1, 1)),
        ("u8_image_half", (32, 64, 4), U8, [0, 0, 0], [2, 2, 1], (16, 32, 4)),
        ("u8_image_alpha", (33, 17, 4), U8, [0, 0, 3], [], (33, 17, 1)),
        ("u8_rank_1_odd_start", (129,), U8, [3], [], (65,)),
        ("f64_2d_steps", (9, 11), F64, [1, 2], [3, 4], (3, 3)),
        ("s32_3d", (4, 5, 6), S32, [1, 1, 1], [], (3, 4, 5)),
        ("s64_2d_steps", (8, 9), S64, [7, 0], [1, 2], (1, 5)),
        ("u32_rank_1", (70,), U32, [6], [], (64,)),
        ("f32_nothing", (7, 5), F32, [3, 2], [], (0, 3)),
        ("f32_no_rows", (0, 5), F32, [0, 1], [1, 2], (0, 2)),
    ]
    for name, shape, dtype, start, step, size in rows:
        x = g.values(*shape, dtype=dtype)
        steps = step or [1] * len(shape)
        picks = [range(b, b + n * s, s) for b, s, n in zip(start, steps, size)]
        assert all(pick[-1] < n for pick, n in zip(picks, shape) if len(pick)), name
        # np.ix_ makes floats of nothing, so the lists get a type.
        out = x[np.ix_(*[np.array(pick, dtype=np.intp) for pick in picks])]
        params = {"start": start} | ({"step": step} if step else {})
        g.add(name, [x], out.reshape(size), "numpy.ix_", params)


# --------------------------------------------------------------------------
# Parts of neural networks, by ONNX Runtime on its CPU provider. It has some
# operators in f32 only: their f64 cases are NumPy's. Pictures are
# {batch, height, width, channels} here and {batch, channels, height, width}
# there.
# --------------------------------------------------------------------------


def onnx_run(op, inputs, **attributes):
    """The result of one ONNX operator."""
    names = [f"x{position}" for position in range(len(inputs))]
    declare = onnx.helper.make_tensor_value_info
    types = [onnx.helper.np_dtype_to_tensor_dtype(x.dtype) for x in inputs]
    model = onnx.helper.make_model(
        onnx.helper.make_graph(
            [onnx.helper.make_node(op, names, ["y"], **attributes)],
            op,
            [declare(name, ty, x.shape) for name, ty, x in zip(names, types, inputs)],
            [declare("y", types[0], None)],
        ),
        opset_imports=[onnx.helper.make_opsetid("", 21)],
        ir_version=10,
    )
    options = onnxruntime.SessionOptions()
    # One thread adds in one order.
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return session.run(["y"], dict(zip(names, inputs)))[0]


def channels_first(x):
    return np.ascontiguousarray(np.moveaxis(x, -1, 1))


def channels_last(x):
    return np.ascontiguousarray(np.moveaxis(x, 1, -1))


def onnx_or_numpy(op, inputs, formula, **attributes):
    """What ONNX Runtime gives, or NumPy for types it has no code for; and which."""
    try:
        return onnx_run(op, inputs, **attributes), f"onnxruntime.{op}"
    except onnxruntime.capi.onnxruntime_pybind11_state.NotImplemented:
        return formula(), "numpy"


def double(dtype, **floats):
    """The tolerance of f32, or that of f64."""
    return near(dtype, 1e-14, 1e-14) if dtype == F64 else near(dtype, **floats)


def pointwise_cases(g, op, formula, rows):
    """Cases of a function of one value from rows (name, shape, dtype, params)."""
    for name, shape, dtype, params in rows:
        # Well across both ends of the slope.
        x = np.asarray(g.normal(*shape, dtype=dtype, scale=4.0))
        out, reference = onnx_or_numpy(op, [x], lambda: formula(x, params), **params)
        g.add(name, [x], out, reference, params, **double(dtype))


@onnx_kernel
def hard_swish(g):
    rows = [
        ("f32_rank_1", (4099,), F32, {}),
        ("f32_one", (1,), F32, {}),
        ("f32_scalar", (), F32, {}),
        ("f32_2d", (33, 17), F32, {}),
        ("f32_picture", (2, 7, 5, 24), F32, {}),
        ("f32_picture_of_three", (1, 9, 11, 3), F32, {}),
        ("f32_nothing", (0, 7), F32, {}),
        ("f64_2d", (9, 65), F64, {}),
    ]
    pointwise_cases(g, "HardSwish", lambda x, _: x * np.clip(x / 6 + 0.5, 0, 1), rows)


@onnx_kernel
def hard_sigmoid(g):
    sixth = {"alpha": 1 / 6}
    rows = [
        ("f32_rank_1", (4099,), F32, sixth),
        ("f32_one", (1,), F32, sixth),
        ("f32_2d", (33, 17), F32, sixth | {"beta": 0.5}),
        ("f32_2d_slope", (33, 17), F32, {"alpha": 0.2, "beta": 0.25}),
        ("f32_picture", (2, 7, 5, 24), F32, {"alpha": 0.2}),
        ("f32_falls", (129,), F32, {"alpha": -0.5, "beta": 1.0}),
        ("f32_flat", (65,), F32, {"alpha": 0.0, "beta": 0.75}),
        ("f32_nothing", (0, 7), F32, sixth),
        ("f64_2d", (9, 65), F64, sixth),
    ]

    def formula(x, params):
        return np.clip(x * params["alpha"] + params.get("beta", 0.5), 0, 1)

    pointwise_cases(g, "HardSigmoid", formula, rows)


@onnx_kernel
def batch_norm(g):
    # The result is of size 1 or so times the scale, after subtracting a mean
    # of size 1: a few units of the last place of the largest of them.
    rows = [
        ("f32_picture", (2, 7, 5, 24), F32, {}),
        ("f32_three_channels", (1, 9, 11, 3), F32, {}),
        ("f32_one_channel", (2, 5, 7, 1), F32, {}),
        ("f32_seven_channels", (3, 4, 5, 7), F32, {"epsilon": 1e-3}),
        ("f32_70_channels", (1, 3, 5, 70), F32, {}),
        ("f32_one_pixel", (1, 1, 1, 16), F32, {}),
        ("f32_rows", (33, 17), F32, {}),
        ("f32_3d", (5, 9, 16), F32, {"epsilon": 0.0}),
        ("f32_epsilon_1", (2, 3, 3, 4), F32, {"epsilon": 1.0}),
        # ONNX's epsilon is an f32, whatever the data is.
        ("f64_picture", (1, 6, 7, 5), F64, {"epsilon": 2.0**-17}),
        ("f64_rows", (9, 64), F64, {"epsilon": 2.0**-10}),
    ]
    for name, shape, dtype, params in rows:
        x = g.normal(*shape, dtype=dtype, scale=2.0)
        scale, bias, mean = (g.normal(shape[-1], dtype=dtype) for _ in range(3))
        variance = g.image(shape[-1], dtype=dtype, low=0.25, high=4.0)
        inputs = [channels_first(x), scale, bias, mean, variance]
        out = onnx_run("BatchNormalization", inputs, epsilon=params.get("epsilon", 1e-5))
        given = [x, scale, bias, mean, variance]
        tolerance = double(dtype, absolute=8e-6, relative=4e-6)
        g.add(name, given, channels_last(out), "onnxruntime.BatchNormalization", params, **tolerance)


@onnx_kernel
def global_avg_pool(g):
    rows = [
        ("f32_7x7x96", (1, 7, 7, 96), F32),
        ("f32_batch_3", (3, 5, 4, 16), F32),
        ("f32_one_channel", (2, 9, 11, 1), F32),
        ("f32_three_channels", (1, 33, 17, 3), F32),
        ("f32_seven_channels", (2, 8, 8, 7), F32),
        ("f32_70_channels", (1, 3, 5, 70), F32),
        ("f32_one_pixel", (2, 1, 1, 24), F32),
        ("f32_one_row", (1, 1, 129, 5), F32),
        ("f32_long", (1, 96, 96, 2), F32),
        ("f64_picture", (2, 7, 5, 12), F64),
        ("f64_one_channel", (1, 9, 9, 1), F64),
    ]
    for name, shape, dtype in rows:
        x = g.normal(*shape, dtype=dtype)
        planar = channels_first(x)
        mean = lambda: planar.mean((2, 3), keepdims=True)
        out, reference = onnx_or_numpy("GlobalAveragePool", [planar], mean)
        g.add(name, [x], channels_last(out), reference, **double(dtype))


# --------------------------------------------------------------------------
# Shapes that broadcast, padding and picking, by ONNX Runtime too. Sums,
# differences and products of two values are rounded once, and so exact;
# devices divide with a few units of the last place.
# --------------------------------------------------------------------------


def broadcast_cases(g, op, formula):
    rows = [
        ("f32_equal", (7, 9), (7, 9), F32),
        ("f32_one_element", (33,), (1,), F32),
        ("f32_one_element_first", (), (5, 3), F32),
        ("f32_one_element_of_more_axes", (4,), (1, 1), F32),
        ("f32_row", (9, 33), (33,), F32),
        ("f32_row_first", (33,), (9, 33), F32),
        ("f32_column", (9, 33), (9, 1), F32),
        ("f32_column_and_row", (9, 1), (1, 17), F32),
        ("f32_channel", (2, 5, 4, 7), (7,), F32),
        ("f32_channels_of_each_picture", (3, 4, 5, 16), (3, 1, 1, 16), F32),
        ("f32_pixels", (2, 4, 5, 3), (2, 4, 5, 1), F32),
        ("f32_pictures", (3, 4, 5, 2), (3, 1, 1, 1), F32),
        ("f32_rows_of_pixels", (2, 6, 5, 4), (6, 1, 4), F32),
        ("f32_both_in_between", (2, 1, 5, 1), (3, 1, 7), F32),
        ("f32_five_axes", (2, 1, 3, 1, 5), (1, 4, 1, 2, 1), F32),
        ("f32_no_rows", (0, 5), (1, 5), F32),
        ("f64_channel", (3, 5, 4), (4,), F64),
        ("s32_column", (7, 9), (7, 1), S32),
        ("s64_row", (7, 9), (9,), S64),
        ("u8_channel", (6, 5, 4), (4,), U8),
        ("u8_odd_rows", (7, 5), (7, 1), U8),
    ]
    for name, left, right, dtype in rows:
        if dtype.kind == "f":
            a, b = (np.asarray(g.values(*shape, dtype=dtype)) for shape in (left, right))
            out, reference = onnx_or_numpy(op, [a, b], lambda: formula(a, b))
            tolerance = near(dtype, 0.0, 4 * np.finfo(dtype).eps) if op == "Div" else {}
        else:
            # Integers wrap there, and pixels saturate here: neither happens.
            a, b = (g.integers(1, 15, *shape, dtype=dtype) for shape in (left, right))
            if op == "Sub":
                a += dtype.type(20)
            if op == "Div":
                a *= dtype.type(9)
            out, reference = onnx_or_numpy(op, [a, b], lambda: formula(a, b))
            tolerance = {}
        g.add(name, [a, b], out, reference, **tolerance)


@onnx_kernel
def elementwise_add(g):
    broadcast_cases(g, "Add", np.add)


@onnx_kernel
def elementwise_sub(g):
    broadcast_cases(g, "Sub", np.subtract)


@onnx_kernel
def elementwise_mul(g):
    broadcast_cases(g, "Mul", np.multiply)


@onnx_kernel
def elementwise_div(g):
    broadcast_cases(g, "Div", lambda a, b: a / b if a.dtype.kind == "f" else a // b)


@onnx_kernel
def elementwise_max(g):
    broadcast_cases(g, "Max", np.maximum)


@onnx_kernel
def elementwise_min(g):
    broadcast_cases(g, "Min", np.minimum)


@onnx_kernel
def pad(g):
    # name, shape, dtype, before, after, mode, value (None is the default)
    rows = [
        ("f32_rank_1", (37,), F32, [3], [5], "constant", None),
        ("f32_rank_1_value", (37,), F32, [3], [0], "constant", 1.5),
        ("f32_2d", (9, 17), F32, [1, 2], [3, 4], "constant", -2.0),
        ("f32_picture", (2, 5, 7, 16), F32, [0, 1, 1, 0], [0, 1, 1, 0], "constant", None),
        ("f32_picture_one_side", (1, 5, 7, 3), F32, [0, 0, 0, 0], [0, 1, 1, 0], "constant", None),
        ("f32_channels", (2, 3, 3, 5), F32, [0, 0, 0, 0], [0, 0, 0, 3], "constant", 7.0),
        ("f32_five_axes", (2, 3, 1, 2, 3), F32, [1, 0, 2, 0, 1], [0, 1, 1, 0, 2], "constant", 0.5),
        ("f32_nothing_added", (5, 7), F32, [0, 0], [0, 0], "constant", 3.0),
        ("f32_edge", (9, 17), F32, [2, 0], [0, 5], "edge", None),
        ("f32_edge_picture", (1, 4, 5, 3), F32, [0, 2, 3, 0], [0, 1, 7, 0], "edge", None),
        ("f32_edge_far", (3,), F32, [10], [20], "edge", None),
        ("f32_reflect", (9, 17), F32, [2, 0], [0, 5], "reflect", None),
        ("f32_reflect_picture", (1, 4, 5, 4), F32, [0, 3, 1, 0], [0, 1, 4, 0], "reflect", None),
        ("f32_reflect_whole", (4, 3), F32, [3, 2], [3, 2], "reflect", None),
        ("f64_2d", (5, 6), F64, [1, 1], [0, 2], "constant", 0.25),
        ("f64_edge", (5, 6), F64, [1, 1], [0, 2], "edge", None),
        ("s32_2d", (5, 6), S32, [1, 1], [0, 2], "constant", -7),
        ("s64_reflect", (5, 6), S64, [1, 1], [0, 2], "reflect", None),
        ("s64_value", (7,), S64, [1], [2], "constant", -9),
        ("u32_edge", (5, 6), U32, [1, 1], [0, 2], "edge", None),
        ("u8_image", (9, 7, 4), U8, [1, 2, 0], [3, 0, 0], "constant", 255),
        ("u8_image_of_three", (9, 7, 3), U8, [1, 2, 0], [3, 0, 0], "constant", None),
        ("u8_reflect", (9, 7, 3), U8, [1, 2, 0], [3, 0, 0], "reflect", None),
        ("u8_edge_gray", (9, 7), U8, [1, 2], [3, 0], "edge", None),
    ]
    for name, shape, dtype, before, after, mode, value in rows:
        x = g.values(*shape, dtype=dtype)
        inputs = [x, np.array(before + after, dtype=S64)]
        inputs += [np.array(value, dtype=dtype)] if value is not None else []
        around = list(zip(before, after))
        fill = {"constant_values": value or 0} if mode == "constant" else {}
        out, reference = onnx_or_numpy("Pad", inputs, lambda: np.pad(x, around, mode, **fill), mode=mode)
        params = {"before": before, "after": after}
        params |= {"mode": mode} if mode != "constant" else {}
        params |= {"value": value} if value is not None else {}
        g.add(name, [x], out, reference, params)


@onnx_kernel
def gather(g):
    # name, shape, dtype, shape and type of the indices, axis
    rows = [
        ("f32_rank_1", (37,), F32, (17,), S32, 0),
        ("f32_rows", (9, 33), F32, (5,), S32, 0),
        ("f32_columns", (9, 33), F32, (65,), S32, 1),
        ("f32_last_axis", (3, 4, 6), F32, (7,), S32, -1),
        ("f32_middle", (3, 9, 5), F32, (4,), S32, 1),
        ("f32_table_of_words", (40, 16), F32, (3, 7), S64, 0),
        ("f32_indices_of_3_axes", (2, 6, 3), F32, (2, 3, 2), S64, 1),
        ("f32_one_index", (9, 5), F32, (), S64, 0),
        ("f32_one_index_in_a_list", (9, 5), F32, (1,), S32, 1),
        ("f32_axis_of_one", (4, 1, 3), F32, (6,), S32, 1),
        ("f32_unsigned", (9, 5), F32, (8,), U32, 0),
        ("f32_no_indices", (9, 5), F32, (0,), S32, 0),
        ("f32_no_rows", (0, 5), F32, (3,), S32, 1),
        ("f64_rows", (9, 5), F64, (7,), S64, 0),
        ("f64_columns", (9, 5), F64, (7,), S32, 1),
        ("s32_rows", (9, 5), S32, (7,), S64, 0),
        ("s64_columns", (9, 5), S64, (7,), S64, 1),
        ("u32_rows", (9, 5), U32, (7,), U32, 0),
        ("u8_pixels", (33, 4), U8, (17,), S32, 0),
        ("u8_pixels_of_three", (33, 3), U8, (17,), S64, 0),
        ("u8_channels", (5, 7, 4), U8, (4,), S32, 2),
    ]
    for name, shape, dtype, count, kind, axis in rows:
        x, size = g.values(*shape, dtype=dtype), shape[axis]
        # Half of them count from the end.
        low = 0 if kind == U32 else -size
        indices = np.asarray(g.integers(low, size, *count, dtype=kind))
        # ONNX has no unsigned indices.
        picks = indices.astype(S64) if kind == U32 else indices
        out, reference = onnx_or_numpy("Gather", [x, picks], lambda: x.take(picks, axis), axis=axis)
        g.add(name, [x, indices], out, reference, {"axis": axis} if axis else {})
    x = g.values(9, 5)
    for kind in (S32, S64, U32):
        info = np.iinfo(kind)
        far = [info.min, -10, -9, -1, 0, 8, 9, 2**31 - 1, 2**32 + 3, -(2**32) - 3, info.max]
        far = np.array([index for index in far if info.min <= index <= info.max], dtype=kind)
        # What is outside counts as the nearest inside, after counting from the end.
        whole = [int(index) for index in far]
        inside = np.clip([index + 9 if index < 0 else index for index in whole], 0, 8)
        name = {"i": "signed", "u": "unsigned"}[kind.kind]
        g.add(f"f32_outside_{name}_{8 * kind.itemsize}", [x, far], x[inside.astype(np.intp)], "numpy.clip")


@kernel
def gather_elements(g):
    # name, shape, dtype, shape and type of the indices, axis
    rows = [
        ("f32_rank_1", (37,), F32, (17,), S32, 0),
        ("f32_rows", (9, 33), F32, (5, 33), S32, 0),
        ("f32_columns", (9, 33), F32, (9, 65), S64, 1),
        ("f32_middle", (3, 9, 5), F32, (3, 4, 5), S32, 1),
        ("f32_fewer_elsewhere", (5, 9, 6), F32, (3, 4, 5), S64, 1),
        ("f32_last_axis", (3, 4, 6), F32, (2, 3, 7), S32, -1),
        ("f32_unsigned", (9, 5), F32, (8, 5), U32, 0),
        ("f32_no_indices", (9, 5), F32, (0, 5), S32, 0),
        ("f64_rows", (9, 5), F64, (7, 5), S64, 0),
        ("s64_columns", (9, 5), S64, (9, 3), S64, 1),
        ("u8_rows", (9, 5), U8, (4, 5), S32, 0),
        ("u8_columns", (33, 3), U8, (33, 7), S64, 1),
    ]
    for name, shape, dtype, count, kind, axis in rows:
        x, size = g.values(*shape, dtype=dtype), shape[axis]
        low = 0 if kind == U32 else -size
        indices = g.integers(low, size, *count, dtype=kind)
        places = list(np.indices(count))
        places[axis] = indices.astype(S64)
        g.add(name, [x, indices], x[tuple(places)], "numpy", {"axis": axis} if axis else {})


@kernel
def weighted_gather(g):
    # name, shape, dtype, rows of the tables, elements of each, axis
    rows = [
        ("f32_rank_1", (37,), F32, 17, 2, 0),
        ("f32_rows", (9, 33), F32, 20, 2, 0),
        ("f32_columns", (9, 33), F32, 65, 3, 1),
        ("f32_pixels_of_16", (7, 9, 16), F32, 21, 2, 1),
        ("f32_rows_of_pixels", (7, 9, 32), F32, 15, 4, 0),
        ("f32_twelve_channels", (3, 5, 12), F32, 11, 2, -2),
        ("f32_last_axis", (3, 4, 6), F32, 7, 1, -1),
        ("f32_no_rows", (9, 5), F32, 0, 2, 0),
    ]
    for name, shape, dtype, count, taps, axis in rows:
        x, size = g.values(*shape, dtype=dtype), shape[axis]
        # A few places are not there.
        places = g.integers(-1, size + 1, count, taps, dtype=S32)
        weights = g.values(count, taps)
        there = (places >= 0) & (places < size)
        picked = np.moveaxis(x.astype(F64), axis, -1)[..., np.clip(places, 0, size - 1)]
        sums = (picked * np.where(there, weights.astype(F64), 0)).sum(-1)
        out = np.moveaxis(sums, -1, axis).astype(dtype)
        g.add(name, [x, places, weights], out, "numpy", {"axis": axis} if axis else {}, absolute=4e-6, relative=4e-6)


@kernel
def gather_nd(g):
    # name, shape, dtype, places, how many axes each is along, axes in common
    rows = [
        ("f32_elements", (4, 5), F32, (7,), 2, 0),
        ("f32_rows", (9, 33), F32, (5,), 1, 0),
        ("f32_planes", (4, 5, 6), F32, (2, 3), 1, 0),
        ("f32_all", (4, 5), F32, (3,), 0, 0),
        ("f32_batches", (4, 5, 6), F32, (4, 7), 1, 1),
        ("f32_elements_of_batches", (4, 5, 6), F32, (4, 7), 2, 1),
        ("f32_two_axes_in_common", (2, 3, 4, 5), F32, (2, 3, 6), 1, 2),
        ("f64_elements", (4, 5), F64, (7,), 2, 0),
        ("s64_rows", (9, 3), S64, (5,), 1, 0),
        ("u8_elements", (7, 9), U8, (13,), 2, 0),
        ("u8_rows", (7, 8), U8, (13,), 1, 0),
    ]
    for number, (name, shape, dtype, count, depth, batch) in enumerate(rows):
        x, kind = g.values(*shape, dtype=dtype), (S32, S64)[number % 2]
        axes = shape[batch : batch + depth]
        parts = [g.integers(-size, size, *count, dtype=kind) for size in axes]
        indices = np.stack(parts, -1) if parts else np.zeros((*count, 0), dtype=kind)
        common = [np.indices(count)[axis] for axis in range(batch)]
        out = x[tuple(common + parts)] if common or parts else np.broadcast_to(x, (*count, *shape))
        g.add(name, [x, indices], out, "numpy", {"batch_dims": batch} if batch else {})


UPDATES = {
    "none": None,
    "add": np.add,
    "mul": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
}


def updated(x, places, updates, reduction):
    """What NumPy makes of updates, one after the other."""
    out = x.copy()
    if reduction == "none":
        for place, update in zip(np.stack([p.ravel() for p in places], -1), updates.reshape(-1, *updates.shape[places[0].ndim :])):
            out[tuple(place)] = update
    else:
        UPDATES[reduction].at(out, tuple(places), updates)
    return out


@kernel
def scatter_elements(g):
    # name, shape, dtype, shape and type of the indices, axis, what becomes of several
    rows = [
        ("f32_rank_1", (37,), F32, (17,), S32, 0, "none"),
        ("f32_rows", (9, 33), F32, (5, 33), S32, 0, "none"),
        ("f32_many_for_one", (3, 8), F32, (90, 8), S64, 0, "none"),
        ("f32_fewer_elsewhere", (5, 9, 6), F32, (3, 4, 5), S64, 1, "none"),
        ("f32_unsigned", (9, 5), F32, (8, 5), U32, 0, "none"),
        ("f64_columns", (9, 5), F64, (9, 3), S64, 1, "none"),
        ("u8_columns", (33, 3), U8, (33, 7), S64, 1, "none"),
        ("f32_sums", (9, 5), F32, (20, 5), S32, 0, "add"),
        ("f32_products", (9, 5), F32, (9, 8), S32, 1, "mul"),
        ("f32_largest", (3, 9, 5), F32, (3, 14, 5), S64, 1, "max"),
        ("f32_smallest_elsewhere_fewer", (3, 9, 5), F32, (2, 14, 4), S64, 1, "min"),
        ("s32_sums", (9, 5), S32, (20, 5), S32, 0, "add"),
        ("s64_largest", (9, 5), S64, (20, 5), S32, 0, "max"),
        ("u8_smallest", (9, 5), U8, (20, 5), S32, 0, "min"),
    ]
    for name, shape, dtype, count, kind, axis, reduction in rows:
        x, size, updates = g.values(*shape, dtype=dtype), shape[axis], g.values(*count, dtype=dtype)
        indices = g.integers(0 if kind == U32 else -size, size, *count, dtype=kind)
        places = list(np.indices(count))
        places[axis] = indices.astype(S64)
        tolerance = {} if dtype.kind in "iu" or reduction not in ("add", "mul") else {"absolute": 1e-5, "relative": 1e-5}
        params = ({"axis": axis} if axis else {}) | ({"reduction": reduction} if reduction != "none" else {})
        g.add(name, [indices, x, updates], updated(x, places, updates, reduction), "numpy", params, **tolerance)
    x, updates = g.values(9), g.values(8)
    far = np.array([-(2**40), -10, -9, -1, 8, 9, 2**32 + 3, 2**40])
    inside = (far >= -9) & (far < 9)
    out = updated(x, [far[inside]], updates[inside], "none")
    # What is outside is left out.
    g.add("f32_outside", [far, x, updates], out, "numpy")


@kernel
def scatter_nd(g):
    # name, shape, dtype, places, how many axes each is along, what becomes of several
    rows = [
        ("f32_elements", (4, 5), F32, (7,), 2, "none"),
        ("f32_rows", (9, 33), F32, (5,), 1, "none"),
        ("f32_many_for_one", (3, 8), F32, (2, 60), 1, "none"),
        ("f32_planes", (4, 5, 6), F32, (2, 3), 1, "none"),
        ("f64_elements", (4, 5), F64, (7,), 2, "none"),
        ("u8_rows", (7, 3), U8, (13,), 1, "none"),
        ("f32_sums", (9, 5), F32, (20,), 1, "add"),
        ("f32_products", (4, 5), F32, (30,), 2, "mul"),
        ("f32_largest", (9, 5), F32, (3, 8), 1, "max"),
        ("s32_smallest", (9, 5), S32, (20,), 2, "min"),
        ("s64_sums", (9, 5), S64, (20,), 1, "add"),
    ]
    for number, (name, shape, dtype, count, depth, reduction) in enumerate(rows):
        x, kind, updates = g.values(*shape, dtype=dtype), (S32, S64)[number % 2], g.values(*count, *shape[depth:], dtype=dtype)
        places = [g.integers(-size, size, *count, dtype=kind) for size in shape[:depth]]
        tolerance = {} if dtype.kind in "iu" or reduction not in ("add", "mul") else {"absolute": 1e-5, "relative": 1e-5}
        out = updated(x, places, updates, reduction)
        params = {"reduction": reduction} if reduction != "none" else {}
        g.add(name, [np.stack(places, -1), x, updates], out, "numpy", params, **tolerance)


@kernel
def argsort(g):
    # name, shape, dtype, axis, descending, how many, type of the positions
    rows = [
        ("f32_one_line", (100,), F32, -1, False, 100, S32),
        ("f32_few_values", (5, 77), F32, -1, False, 77, S32),
        ("f32_largest_first", (5, 77), F32, -1, True, 77, S32),
        ("f32_some", (5, 130), F32, 1, True, 9, S32),
        ("f32_columns", (33, 6), F32, 0, False, 33, U32),
        ("f32_middle", (3, 17, 4), F32, 1, True, 5, S64),
        ("f32_one_element", (4, 1), F32, -1, False, 1, S32),
        ("f32_power_of_two", (3, 64), F32, -1, False, 64, S64),
        ("f64_lines", (3, 20), F64, -1, True, 20, S32),
        ("s32_lines", (3, 20), S32, -1, False, 20, S32),
        ("s64_lines", (3, 20), S64, -1, True, 20, S64),
        ("u8_lines", (3, 300), U8, -1, True, 300, S32),
    ]
    for name, shape, dtype, axis, descending, count, kind in rows:
        x = g.values(*shape, dtype=dtype)
        if dtype == F32:
            x = np.round(x, 1)
        # Backwards, a stable order of what is backwards is the order that keeps the first of equal ones first.
        order = np.argsort(x, axis=axis, kind="stable")
        if descending:
            back = np.flip(np.argsort(np.flip(x, axis), axis=axis, kind="stable"), axis)
            order = shape[axis] - 1 - back
        out = np.take(order, range(count), axis=axis).astype(kind)
        params = ({"axis": axis} if axis != -1 else {}) | ({"descending": True} if descending else {})
        g.add(name, [x], out, "numpy.argsort", params)


@kernel
def cumulative_sum(g):
    # name, shape, dtype, axis, exclusive, reverse
    rows = [
        ("f32_one_line", (100,), F32, -1, False, False),
        ("f32_lines", (5, 77), F32, -1, False, False),
        ("f32_columns", (33, 6), F32, 0, False, False),
        ("f32_middle", (3, 17, 4), F32, 1, True, False),
        ("f32_back", (5, 77), F32, -1, False, True),
        ("f32_back_without_itself", (5, 64), F32, -1, True, True),
        ("f32_one_element", (4, 1), F32, -1, True, False),
        ("f64_lines", (3, 20), F64, -1, False, False),
        ("s32_lines", (3, 20), S32, -1, False, False),
        ("s64_lines", (3, 20), S64, -1, True, True),
        ("u32_lines", (3, 20), U32, -1, False, False),
    ]
    for name, shape, dtype, axis, exclusive, reverse in rows:
        x = g.values(*shape, dtype=dtype)
        turned = np.flip(x, axis) if reverse else x
        total = np.cumsum(turned, axis=axis, dtype=F64 if dtype == F32 else dtype)
        if exclusive:
            total = total - turned
        out = (np.flip(total, axis) if reverse else total).astype(dtype)
        params = {"axis": axis} if axis != -1 else {}
        params |= ({"exclusive": True} if exclusive else {}) | ({"reverse": True} if reverse else {})
        g.add(name, [x], out, "numpy.cumsum", params, **({} if dtype.kind in "iu" else near(dtype, 1e-5, 1e-5)))


@onnx_kernel
def grid_sample(g):
    # name, shape, shape of the places, params
    rows = [
        ("linear", (2, 3, 7, 5), (6, 4), {}),
        ("linear_aligned", (2, 3, 7, 5), (6, 4), {"align_corners": True}),
        ("linear_border", (2, 3, 7, 5), (6, 4), {"outside": "border"}),
        ("linear_reflection", (2, 3, 7, 5), (6, 4), {"outside": "reflection"}),
        ("linear_reflection_aligned", (1, 2, 7, 5), (6, 4), {"outside": "reflection", "align_corners": True}),
        ("nearest", (2, 3, 7, 5), (6, 4), {"mode": "nearest"}),
        ("nearest_border", (2, 3, 7, 5), (6, 4), {"mode": "nearest", "outside": "border"}),
        ("nearest_reflection", (2, 3, 7, 5), (6, 4), {"mode": "nearest", "outside": "reflection"}),
        ("cubic", (2, 3, 7, 5), (6, 4), {"mode": "cubic"}),
        ("cubic_border_aligned", (2, 3, 7, 5), (6, 4), {"mode": "cubic", "outside": "border", "align_corners": True}),
        ("cubic_reflection", (2, 3, 7, 5), (6, 4), {"mode": "cubic", "outside": "reflection"}),
        ("volume_linear", (1, 2, 4, 5, 3), (3, 2, 4), {}),
        ("volume_nearest_border", (1, 2, 4, 5, 3), (3, 2, 4), {"mode": "nearest", "outside": "border"}),
        ("one_pixel", (1, 2, 1, 1), (3, 3), {"outside": "border"}),
    ]
    for name, shape, places, params in rows:
        x = g.normal(*shape)
        grid = g.image(shape[0], *places, len(places), dtype=F32, low=-1.6, high=1.6)
        out = onnx_run(
            "GridSample",
            [x, grid],
            mode=params.get("mode", "linear"),
            padding_mode=params.get("outside", "zeros"),
            align_corners=int(params.get("align_corners", False)),
        )
        g.add(name, [x, grid], out, "onnxruntime GridSample", params, absolute=1e-5, relative=1e-5)


# --------------------------------------------------------------------------
# Windows over pictures, by ONNX Runtime. Weights are scaled so that results
# are of size 3 or so, however many products are added up; sums of a few
# hundred products are a few units of the last place of that off.
# --------------------------------------------------------------------------


def windows(x, size, stride, padding, dilation, fill):
    """Every window: {batch, height, width, rows, columns, channels}."""
    top, left, bottom, right = padding
    x = np.pad(x, ((0, 0), (top, bottom), (left, right), (0, 0)), constant_values=fill)
    spans = [(n - 1) * d + 1 for n, d in zip(size, dilation)]
    views = np.lib.stride_tricks.sliding_window_view(x, spans, axis=(1, 2))
    views = views[:, :: stride[0], :: stride[1], :, :: dilation[0], :: dilation[1]]
    return np.moveaxis(views, 3, -1)


def settled(params, **defaults):
    """All params, and those which are not the defaults."""
    full = defaults | params
    return full, {name: value for name, value in params.items() if value != defaults.get(name)}


@onnx_kernel
def conv2d(g):
    def with_numpy(x, weight, bias, stride, padding, dilation, groups):
        seen = windows(x, weight.shape[:2], stride, padding, dilation, 0)
        seen = seen.reshape(*seen.shape[:-1], groups, -1)
        weight = weight.reshape(*weight.shape[:3], groups, -1)
        sums = np.einsum("nhwklgi,kligo->nhwgo", seen, weight)
        return sums.reshape(*sums.shape[:3], -1) + bias

    def activated(x, name):
        if name == "none":
            return x
        if x.dtype == F64:
            assert name == "relu"
            return np.maximum(x, 0)
        if name == "relu6":
            return onnx_run("Clip", [x, np.array(0, F32), np.array(6, F32)])
        op = {"relu": "Relu", "sigmoid": "Sigmoid", "hard_swish": "HardSwish"}[name]
        return onnx_run(op, [x])

    # name, shape of x, kernel, channels out, params
    rows = [
        ("f32_1x1", (1, 6, 7, 16), (1, 1), 24, {}),
        ("f32_1x1_stride_2", (1, 7, 9, 16), (1, 1), 16, {"stride": [2, 2]}),
        ("f32_1x1_batch_3", (3, 4, 5, 24), (1, 1), 48, {}),
        ("f32_3x3", (1, 8, 9, 16), (3, 3), 16, {"padding": [1, 1, 1, 1]}),
        ("f32_3x3_stride_2_of_three", (1, 17, 19, 3), (3, 3), 16, {"stride": [2, 2], "padding": [1, 1, 1, 1]}),
        ("f32_3x3_padded_after", (1, 8, 10, 3), (3, 3), 16, {"stride": [2, 2], "padding": [0, 0, 1, 1]}),
        ("f32_3x3_padded_unevenly", (2, 5, 6, 5), (3, 3), 7, {"padding": [2, 0, 1, 3]}),
        ("f32_3x3_dilation_2", (1, 9, 10, 8), (3, 3), 16, {"padding": [2, 2, 2, 2], "dilation": [2, 2]}),
        ("f32_2x3_dilation_3_and_2", (1, 9, 10, 4), (2, 3), 5, {"dilation": [3, 2], "stride": [1, 2]}),
        ("f32_depthwise_16", (1, 7, 9, 16), (3, 3), 16, {"padding": [1, 1, 1, 1], "groups": 16}),
        (
            "f32_depthwise_24_stride_2",
            (2, 8, 9, 24),
            (3, 3),
            24,
            {"stride": [2, 2], "padding": [1, 1, 1, 1], "groups": 24},
        ),
        ("f32_depthwise_5", (1, 6, 7, 5), (3, 3), 5, {"padding": [1, 1, 1, 1], "groups": 5}),
        (
            "f32_depthwise_5x5_stride_2",
            (1, 9, 11, 16),
            (5, 5),
            16,
            {"stride": [2, 2], "padding": [2, 2, 2, 2], "groups": 16},
        ),
        ("f32_depthwise_times_2", (1, 6, 7, 8), (3, 3), 16, {"padding": [1, 1, 1, 1], "groups": 8}),
        ("f32_groups_2", (1, 6, 7, 8), (3, 3), 16, {"padding": [1, 1, 1, 1], "groups": 2}),
        ("f32_groups_4", (2, 5, 6, 8), (1, 1), 12, {"groups": 4}),
        ("f32_out_1", (1, 9, 8, 3), (5, 1), 1, {"stride": [1, 2], "padding": [2, 0, 2, 0]}),
        ("f32_out_70", (1, 5, 6, 7), (3, 3), 70, {}),
        ("f32_relu", (1, 6, 7, 8), (3, 3), 16, {"padding": [1, 1, 1, 1], "activation": "relu"}),
        (
            "f32_depthwise_relu6",
            (1, 6, 7, 16),
            (3, 3),
            16,
            {"padding": [1, 1, 1, 1], "groups": 16, "activation": "relu6"},
        ),
        ("f32_1x1_sigmoid", (1, 3, 5, 16), (1, 1), 7, {"activation": "sigmoid"}),
        (
            "f32_hard_swish",
            (1, 9, 9, 3),
            (3, 3),
            16,
            {"stride": [2, 2], "padding": [1, 1, 1, 1], "activation": "hard_swish"},
        ),
        ("f32_7x7_stride_2", (1, 15, 17, 3), (7, 7), 16, {"stride": [2, 2], "padding": [3, 3, 3, 3]}),
        ("f64_3x3", (1, 5, 6, 4), (3, 3), 6, {"padding": [1, 1, 1, 1], "activation": "relu"}),
        ("f64_depthwise", (1, 5, 6, 5), (3, 3), 5, {"padding": [1, 1, 1, 1], "groups": 5}),
    ]
    defaults = {"stride": [1, 1], "padding": [0] * 4, "dilation": [1, 1], "groups": 1, "activation": "none"}
    for name, shape, kernel, channels, params in rows:
        dtype = F64 if name.startswith("f64") else F32
        full, params = settled(params, **defaults)
        activation = full.pop("activation")
        inside = shape[3] // full["groups"]
        # Far enough from zero for the activations to have an end to meet.
        x = g.normal(*shape, dtype=dtype, scale=3.0)
        weight = g.normal(*kernel, inside, channels, dtype=dtype, scale=(math.prod(kernel) * inside) ** -0.5)
        bias = g.normal(channels, dtype=dtype)
        out, reference = onnx_or_numpy(
            "Conv",
            [channels_first(x), np.ascontiguousarray(weight.transpose(3, 2, 0, 1)), bias],
            lambda: channels_first(with_numpy(x, weight, bias, **full)),
            kernel_shape=kernel,
            strides=full["stride"],
            pads=full["padding"],
            dilations=full["dilation"],
            group=full["groups"],
        )
        out = channels_last(out)
        assert np.allclose(out, with_numpy(x, weight, bias, **full), 1e-5, 1e-5), name
        tolerance = near(dtype, 1e-5, 5e-6) if dtype == F32 else near(dtype, 1e-13, 1e-13)
        g.add(name, [x, weight, bias], activated(out, activation), reference, params, **tolerance)


@onnx_kernel
def max_pool2d(g):
    # name, shape, params
    rows = [
        ("f32_2x2", (1, 6, 8, 16), {"size": [2, 2], "stride": [2, 2]}),
        ("f32_2x2_odd_sizes", (2, 7, 9, 5), {"size": [2, 2], "stride": [2, 2]}),
        ("f32_3x3_stride_1", (1, 7, 9, 4), {"size": [3, 3]}),
        ("f32_3x3_stride_2", (1, 9, 11, 24), {"size": [3, 3], "stride": [2, 2], "padding": [1, 1, 1, 1]}),
        ("f32_padded_after", (1, 8, 8, 3), {"size": [3, 3], "stride": [2, 2], "padding": [0, 0, 1, 1]}),
        ("f32_padded_unevenly", (1, 5, 6, 7), {"size": [4, 3], "padding": [3, 0, 1, 2]}),
        ("f32_dilation_2", (1, 9, 10, 8), {"size": [3, 3], "padding": [2, 2, 2, 2], "dilation": [2, 2]}),
        ("f32_row", (1, 5, 9, 1), {"size": [1, 5], "stride": [1, 3]}),
        ("f32_one_pixel", (2, 4, 5, 3), {"size": [1, 1]}),
        ("f32_5x5_batch_3", (3, 7, 7, 2), {"size": [5, 5], "padding": [2, 2, 2, 2]}),
        ("f32_whole", (1, 6, 5, 70), {"size": [6, 5]}),
        ("f64_3x3", (1, 6, 7, 5), {"size": [3, 3], "stride": [2, 2], "padding": [1, 1, 1, 1]}),
        ("f64_2x2", (2, 4, 6, 4), {"size": [2, 2], "stride": [2, 2]}),
    ]
    for name, shape, params in rows:
        dtype = F64 if name.startswith("f64") else F32
        full, params = settled(params, stride=[1, 1], padding=[0] * 4, dilation=[1, 1])
        # Below zero throughout, so that a zero from outside would show.
        x = g.normal(*shape, dtype=dtype) - dtype.type(9)
        largest = channels_first(windows(x, **full, fill=-np.inf).max((3, 4)))
        out, reference = onnx_or_numpy(
            "MaxPool",
            [channels_first(x)],
            lambda: largest,
            kernel_shape=full["size"],
            strides=full["stride"],
            pads=full["padding"],
            dilations=full["dilation"],
        )
        assert np.array_equal(out, largest), name
        g.add(name, [x], channels_last(out), reference, params)


@onnx_kernel
def avg_pool2d(g):
    rows = [
        ("f32_2x2", (1, 6, 8, 16), {"size": [2, 2], "stride": [2, 2]}),
        ("f32_2x2_odd_sizes", (2, 7, 9, 5), {"size": [2, 2], "stride": [2, 2]}),
        ("f32_3x3_stride_1", (1, 7, 9, 4), {"size": [3, 3]}),
        ("f32_3x3_padded", (1, 9, 11, 24), {"size": [3, 3], "stride": [2, 2], "padding": [1, 1, 1, 1]}),
        (
            "f32_3x3_padding_counts",
            (1, 9, 11, 24),
            {"size": [3, 3], "stride": [2, 2], "padding": [1, 1, 1, 1], "count_padding": True},
        ),
        ("f32_padded_after", (1, 8, 8, 3), {"size": [3, 3], "stride": [2, 2], "padding": [0, 0, 1, 1]}),
        ("f32_padded_unevenly", (1, 5, 6, 7), {"size": [4, 3], "padding": [3, 0, 1, 2]}),
        (
            "f32_padded_unevenly_counts",
            (1, 5, 6, 7),
            {"size": [4, 3], "padding": [3, 0, 1, 2], "count_padding": True},
        ),
        ("f32_row", (1, 5, 9, 1), {"size": [1, 5], "stride": [1, 3]}),
        ("f32_one_pixel", (2, 4, 5, 3), {"size": [1, 1]}),
        ("f32_5x5_batch_3", (3, 7, 7, 2), {"size": [5, 5], "padding": [2, 2, 2, 2]}),
        ("f32_whole", (1, 6, 5, 70), {"size": [6, 5]}),
        ("f64_3x3", (1, 6, 7, 5), {"size": [3, 3], "stride": [2, 2], "padding": [1, 1, 1, 1]}),
        (
            "f64_padding_counts",
            (2, 4, 6, 4),
            {"size": [3, 3], "padding": [1, 1, 1, 1], "count_padding": True},
        ),
    ]
    for name, shape, params in rows:
        dtype = F64 if name.startswith("f64") else F32
        full, params = settled(params, stride=[1, 1], padding=[0] * 4, count_padding=False)
        x = g.normal(*shape, dtype=dtype)

        def with_numpy():
            place = (full["size"], full["stride"], full["padding"], [1, 1])
            sums = windows(x, *place, fill=0).sum((3, 4))
            counts = windows(np.ones_like(x), *place, fill=int(full["count_padding"])).sum((3, 4))
            return channels_first(sums / counts)

        out, reference = onnx_or_numpy(
            "AveragePool",
            [channels_first(x)],
            with_numpy,
            kernel_shape=full["size"],
            strides=full["stride"],
            pads=full["padding"],
            count_include_pad=int(full["count_padding"]),
        )
        assert np.allclose(out, with_numpy(), 1e-5, 1e-5), name
        g.add(name, [x], channels_last(out), reference, params, **double(dtype))


# --------------------------------------------------------------------------


def verify(path):
    """Loads a file back; the number of its cases."""
    with safetensors.safe_open(path, framework="numpy") as file:
        header = json.loads(file.metadata()["golden"])
        keys = set(file.keys())
        wanted = set()
        for case in header["cases"]:
            names = [f"{case['name']}/in{n}" for n in range(case["inputs"])]
            names.append(f"{case['name']}/out")
            wanted.update(names)
            for name in names:
                assert file.get_tensor(name).dtype in DTYPES, name
        assert keys == wanted, (path, keys ^ wanted)
    assert 8 <= len(header["cases"]) <= 25, (path, len(header["cases"]))
    return len(header["cases"])


def main():
    check_borders()
    total_cases = total_bytes = 0
    print(f"{'kernel':<22}{'cases':>6}{'bytes':>10}")
    for name, (make, packages) in KERNELS.items():
        g = Golden(name, packages)
        make(g)
        path = g.write()
        cases, size = verify(path), path.stat().st_size
        total_cases, total_bytes = total_cases + cases, total_bytes + size
        print(f"{name:<22}{cases:>6}{size:>10}")
    print(f"{len(KERNELS)} kernels{total_cases:>18}{total_bytes:>10}")
    assert total_bytes < 5_000_000


if __name__ == "__main__":
    main()
