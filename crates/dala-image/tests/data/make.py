"""Makes the files beside this one with Pillow and NumPy, so that what we read was not written by us.

Pixel (x, y) of the small pictures is (10 + 40 x, 5 + 50 y, 200 - 6 x y); tests compute the same.
"""

import io
import struct
import zlib
from pathlib import Path

import numpy
from PIL import Image, ImageOps

folder = Path(__file__).parent
width, height = 4, 3
rows = [[(10 + 40 * x, 5 + 50 * y, 200 - 6 * x * y) for x in range(width)] for y in range(height)]
levels = numpy.array(rows, dtype=numpy.uint8)
rgb = Image.fromarray(levels)
alpha = numpy.arange(height * width, dtype=numpy.uint8).reshape(height, width, 1) * 20
rgba = Image.fromarray(numpy.concatenate([levels, alpha], axis=2))
# 0, 100, 200 ... and the largest: neighbours of levels, so that rounding shows.
deep = numpy.array([0, 100, 128, 129, 255, 257, 384, 386, 4660, 32768, 65406, 65535], dtype=numpy.uint16)
deep = deep.reshape(height, width)

# A profile of which only the header matters here: its length, that it is for RGB, and its signature.
icc = bytearray(132)
icc[0:4] = struct.pack(">I", len(icc))
icc[16:20] = b"RGB "
icc[36:40] = b"acsp"
icc = bytes(icc)


def exif(orientation):
    tags = Image.Exif()
    tags[0x0112] = orientation
    return tags.tobytes()


def save(name, image, **options):
    image.save(folder / name, **options)


save("rgb.png", rgb, icc_profile=icc)
save("rgba.png", rgba)
save("palette.png", rgb.quantize(colors=12))
save("gray16.png", Image.fromarray(deep), exif=exif(6))
save("rgb.webp", rgb, lossless=True, icc_profile=icc, exif=exif(6))
save("rgba.webp", rgba, lossless=True, exact=True)
save("rgb.tiff", rgb, icc_profile=icc)
save("deflate.tiff", rgb, compression="tiff_adobe_deflate")
save("lzw.tiff", rgb, compression="tiff_lzw", tiffinfo={274: 6})
save("gray16.tiff", Image.fromarray(deep))
save("rgb.bmp", rgb)
save("palette.bmp", rgb.quantize(colors=12))
save("rgb.ppm", rgb)
save("gray16.pgm", Image.fromarray(deep.astype(numpy.int32)))
save("bits.pbm", Image.fromarray(numpy.array([[1, 0, 1], [0, 1, 1]], dtype=bool)))

# Sixteen bits of three channels, which Pillow does not write.
deep_rgb = numpy.stack([deep, deep[::-1], deep[:, ::-1]], axis=2)


def part(name, content):
    checked = name + content
    return struct.pack(">I", len(content)) + checked + struct.pack(">I", zlib.crc32(checked))


lines = b"".join(b"\0" + row.astype(">u2").tobytes() for row in deep_rgb)
head = struct.pack(">IIBBBBB", width, height, 16, 2, 0, 0, 0)
png = b"\x89PNG\r\n\x1a\n" + part(b"IHDR", head) + part(b"IDAT", zlib.compress(lines)) + part(b"IEND", b"")
(folder / "rgb16.png").write_bytes(png)

# Four flat quarters: red, green / blue, white. Edges lie between blocks, so that JPEG keeps them.
quarters = Image.new("RGB", (32, 16), "white")
quarters.paste((255, 0, 0), (0, 0, 16, 8))
quarters.paste((0, 255, 0), (16, 0, 32, 8))
quarters.paste((0, 0, 255), (0, 8, 16, 16))
plain = {"quality": 90, "subsampling": 0}
save("quarters.jpg", quarters, exif=exif(1), icc_profile=icc, **plain)
save("progressive.jpg", quarters, progressive=True, **plain)
save("subsampled.jpg", quarters.resize((64, 32), Image.NEAREST), quality=90, subsampling=2)
save("gray.jpg", quarters.convert("L"), **plain)
save("cmyk.jpg", quarters.convert("CMYK"), **plain)
save("quarters.webp", quarters, quality=90)

# How each orientation looks, for decode/tests.rs.
letters = {(255, 0, 0): "R", (0, 255, 0): "G", (0, 0, 255): "B", (255, 255, 255): "W"}
for orientation in range(1, 9):
    file = io.BytesIO()
    quarters.save(file, "PNG", exif=exif(orientation))
    seen = ImageOps.exif_transpose(Image.open(file))
    wide, high = seen.size
    corners = [(0, 0), (wide - 1, 0), (0, high - 1), (wide - 1, high - 1)]
    print(orientation, seen.size, "".join(letters[seen.getpixel(corner)] for corner in corners))

numpy.save(folder / "floats.npy", numpy.arange(6, dtype=numpy.float32).reshape(2, 3) / 4)
numpy.save(folder / "levels.npy", (numpy.arange(12, dtype=numpy.uint8) * 20).reshape(2, 2, 3))
with open(folder / "big_endian.npy", "wb") as file:
    array = numpy.array([[1, 256], [65535, 4660]], dtype=">u2")
    numpy.lib.format.write_array(file, array, version=(2, 0))
