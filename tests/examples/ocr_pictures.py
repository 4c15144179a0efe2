#!/usr/bin/env python3
"""Draws ocr_wide.png and ocr_high.png, and writes their text, line by line, to ocr_wide.txt and
ocr_high.txt.

Run by hand with Pillow 13.0.0, for its built-in font:
    python3 tests/examples/ocr_pictures.py
"""
import os

from PIL import Image, ImageDraw, ImageFont

HERE = os.path.dirname(os.path.abspath(__file__))

# The network misses narrow gaps between words, so lines have few of them.
# Size, background, then lines: left, top, height of letters, colour, text.
PICTURES = {
    "wide": ((480, 128), "white", [(16, 12, 32, "black", "Blocked layouts"),
                                   (16, 72, 24, "black", "reorders:12"),
                                   (260, 72, 24, "darkblue", "3.75ms")]),
    "high": ((400, 620), "lightyellow", [(30, 30, 44, "maroon", "TESSERA"),
                                         (30, 130, 22, "black", "www.tensor-runtime.org"),
                                         (30, 250, 28, "black", "(Freeze,fold,fuse)"),
                                         (30, 360, 18, "black", "Jabberwocky+0123456789"),
                                         (90, 520, 36, "darkgreen", "page 1984")]),
}

for name, (size, background, lines) in PICTURES.items():
    image = Image.new("RGB", size, background)
    draw = ImageDraw.Draw(image)
    with open(os.path.join(HERE, "ocr_%s.txt" % name), "w") as file:
        for left, top, height, colour, text in lines:
            draw.text((left, top), text, colour, ImageFont.load_default(height))
            print(text, file=file)
    image.save(os.path.join(HERE, "ocr_%s.png" % name), optimize=True)
