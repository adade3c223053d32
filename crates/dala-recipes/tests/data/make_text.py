"""Makes the pictures with text, and lines.txt: what RapidOCR reads in each.

Needs pillow and rapidocr-onnxruntime==1.4.4. A folder for further, larger pictures may be named.
"""

import pathlib
import sys

from PIL import Image, ImageDraw, ImageFont

HERE = pathlib.Path(__file__).parent
PHOTOS = HERE / "../../../dala-model/tests/data"
FONTS = "/usr/share/fonts/truetype/dejavu/DejaVu"


def write(picture, text, at, size, colour, angle=0, font="Sans"):
    """Text with its upper left corner at a place, turned against the clock around its middle."""
    font = ImageFont.truetype(f"{FONTS}{font}.ttf", size)
    left, top, right, bottom = font.getbbox(text)
    margin = size // 2
    patch = Image.new("RGBA", (right - left + 2 * margin, bottom - top + 2 * margin), (*colour, 0))
    ImageDraw.Draw(patch).text((margin - left, margin - top), text, font=font, fill=(*colour, 255))
    patch = patch.rotate(angle, Image.Resampling.BICUBIC, expand=True)
    picture.paste(patch, (at[0] - margin, at[1] - margin), patch)


def note():
    picture = Image.new("RGB", (420, 300), (255, 255, 255))
    write(picture, "Shopping list", (20, 16), 36, (20, 20, 20), font="Serif-Bold")
    write(picture, "two loaves of bread", (24, 80), 22, (0, 0, 0))
    write(picture, "12 eggs", (24, 116), 22, (0, 60, 160))
    write(picture, "$4.99", (320, 116), 22, (160, 0, 0))
    write(picture, "coffee, ground, 500 g", (24, 154), 18, (0, 0, 0), font="SansMono")
    write(picture, "Everything else can wait until Monday morning.", (24, 200), 14, (60, 60, 60))
    write(picture, "small print: no returns without a receipt", (24, 240), 11, (0, 0, 0))
    return picture


def slanted():
    picture = Image.new("RGB", (420, 360), (246, 236, 210))
    write(picture, "Uphill we go", (30, 20), 32, (30, 90, 30), 15)
    write(picture, "and down again", (150, 90), 28, (140, 30, 30), -20)
    write(picture, "steep climb", (20, 170), 30, (30, 30, 140), 35)
    return picture


def sides():
    picture = Image.new("RGB", (360, 300), (230, 240, 250))
    write(picture, "READ ME FIRST", (60, 20), 26, (10, 10, 10))
    write(picture, "Downwards", (300, 60), 28, (120, 0, 60), -90)
    write(picture, "Upwards", (20, 70), 28, (0, 80, 80), 90)
    write(picture, "upside down", (80, 230), 28, (10, 10, 10), 180)
    return picture


def photo():
    picture = Image.open(PHOTOS / "cat_chelsea.jpg").convert("RGB").resize((420, 280))
    write(picture, "CHELSEA", (20, 14), 44, (255, 255, 255), font="Sans-Bold")
    write(picture, "the cat of scikit-image", (24, 240), 18, (255, 255, 0))
    write(picture, "Do not feed", (200, 90), 24, (255, 80, 80), 12, "Sans-Bold")
    return picture


def letter():
    """Two columns of small text."""
    words = ("It was a bright cold day in spring and the clocks were about to strike when the postman came up the "
             "hill with a parcel that nobody had ordered and a letter that everybody had been waiting for ").split()
    picture = Image.new("RGB", (1100, 800), (250, 250, 245))
    for column in range(2):
        for row in range(28):
            line = " ".join(words[(row * 5 + column * 3 + word) % len(words)] for word in range(6))
            write(picture, line, (40 + column * 540, 30 + row * 27), 16, (25, 25, 25), font="Serif")
    return picture


def large():
    picture = Image.open(PHOTOS / "espresso_coffee.jpg").convert("RGB").resize((3000, 2000))
    write(picture, "ESPRESSO BAR", (300, 200), 260, (255, 240, 200), font="Sans-Bold")
    write(picture, "open daily from 7 to 19", (400, 1600), 110, (255, 255, 255))
    write(picture, "Table 42", (2200, 900), 140, (240, 240, 60), 25)
    write(picture, "please pay at the counter", (300, 1000), 64, (255, 255, 255), -8)
    return picture


def strip():
    picture = Image.new("RGB", (520, 28), (255, 255, 255))
    write(picture, "one line and nothing else, 2026", (6, 5), 18, (0, 0, 0))
    return picture


def rainbow():
    """All angles around a middle."""
    picture = Image.new("RGB", (1000, 1000), (20, 24, 40))
    for place, (text, angle) in enumerate([("northern lights", 5), ("velvet morning", -10), ("quiet harbour", 20),
                                           ("paper lantern", -30), ("silver bridge", 42), ("winter garden", -42)]):
        colour = [(255, 255, 255), (255, 200, 80), (120, 220, 255), (255, 140, 180), (160, 255, 160), (220, 200, 255)]
        write(picture, text, (60 + place % 2 * 480, 60 + place // 2 * 300), 30 + 4 * place, colour[place], angle)
    return picture


KEPT = {"note.png": note, "slanted.png": slanted, "sides.png": sides, "photo.jpg": photo}
OTHERS = {"letter.png": letter, "large.jpg": large, "strip.png": strip, "rainbow.png": rainbow}


def main():
    from rapidocr_onnxruntime import RapidOCR

    reader = RapidOCR()
    folders = [(HERE, KEPT)] + [(pathlib.Path(name), OTHERS) for name in sys.argv[1:2]]
    for folder, pictures in folders:
        lines = []
        for name, make in pictures.items():
            picture = make()
            if name.endswith(".png"):
                picture = picture.quantize(64, dither=Image.Dither.NONE).convert("RGB") if folder == HERE else picture
                picture.save(folder / name, optimize=True)
            else:
                picture.save(folder / name, quality=85)
            found, _ = reader(str(folder / name))
            lines += [f"{name}\t{text}\n" for _, text, _ in found or []]
        (folder / "lines.txt").write_text("".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
