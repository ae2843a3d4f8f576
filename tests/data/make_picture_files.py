#!/usr/bin/env python3
"""make_picture_files.py: writes picture_files.safetensors for test_picture_pixels.c: small picture files, and
the pixels that Pillow 12.3 reads from them.

Run in this folder with pillow==12.3.0 and numpy. For each file there are NAME, its bytes, and NAME.rgb,
(height, width, 3), as ImageOps.exif_transpose(Image.open(NAME)).convert("RGB") has them. For a file that
must be refused, NAME.words is a part of the message.
"""
import io
import json
import struct
import zlib

import numpy as np
import PIL
from PIL import Image, ImageOps, PngImagePlugin

assert PIL.__version__.startswith("12.3."), PIL.__version__
rng = np.random.default_rng(7)
tensors = {}


def expected(data):
    opened = Image.open(io.BytesIO(data))
    picture = ImageOps.exif_transpose(opened)
    if picture.mode == "I" and opened.format == "PPM":  # Fovea uses the high byte of 16-bit samples
        picture = Image.fromarray((np.asarray(picture) // 256).astype(np.uint8))
    return np.array(picture.convert("RGB"))


def add(name, data, words=None):
    assert name not in tensors, name
    tensors[name] = np.frombuffer(data, np.uint8)
    if words is None:
        tensors[name + ".rgb"] = expected(data)
    else:
        tensors[name + ".words"] = np.frombuffer(words.encode(), np.uint8)


def noise(width=13, height=9, channels=3):
    return rng.integers(0, 256, (height, width, channels), np.uint8)


def smooth(width=37, height=29):
    return Image.fromarray(noise(5, 4)).resize((width, height), Image.BICUBIC)


def saved(picture, kind, **more):
    out = io.BytesIO()
    (picture if isinstance(picture, Image.Image) else Image.fromarray(picture)).save(out, kind, **more)
    return out.getvalue()


# ---- JPEG ----

def without(data, marker):
    at, out = 2, data[:2]
    while data[at + 1] != 0xDA:
        n = 2 + int.from_bytes(data[at + 2:at + 4], "big")
        if data[at + 1] != marker:
            out += data[at:at + n]
        at += n
    return out + data[at:]


def jpegs():
    for sampling in ("4:4:4", "4:2:2", "4:2:0"):
        for more in ({}, {"progressive": True}, {"restart_marker_blocks": 2}):
            add("jpeg %s %s" % (sampling, " ".join(more)), saved(smooth(), "JPEG", quality=80, subsampling=sampling, **more))
    plain = saved(smooth(), "JPEG", quality=80)
    add("jpeg grey", saved(smooth().convert("L"), "JPEG"))
    cmyk = saved(smooth().convert("CMYK"), "JPEG", quality=90)
    add("jpeg cmyk", cmyk)
    add("jpeg cmyk without Adobe", without(cmyk, 0xEE))
    ycck = bytearray(cmyk)
    ycck[cmyk.find(b"Adobe") + 11] = 2
    add("jpeg ycck", bytes(ycck))
    sos = bytearray(plain)
    at = plain.index(b"\xff\xda")
    sos[at + 2 + int.from_bytes(plain[at + 2:at + 4], "big") - 2] = 0
    add("jpeg whose scan ends at 0", bytes(sos))
    add("jpeg with JFIF 2", plain[:11] + b"\2" + plain[12:])
    adobe = b"\xff\xee\0\x0eAdobe\0\x64\0\0\0\0\x09"
    add("jpeg of an unknown Adobe transform", plain[:2] + adobe + plain[20:])
    add("jpeg with bytes between segments", plain[:20] + b"\0\0\0" + plain[20:])
    add("jpeg without its end", plain[:-2], "ends early")
    add("jpeg with more behind it", plain + b"more")
    broken = bytearray(plain)
    broken[-60:-58] = b"\xff\xd9"  # the file ends in the middle of the pixels: the rest is grey
    add("jpeg that says too early that it ends", bytes(broken))
    add("jpeg cut", plain[:len(plain) * 2 // 3], "ends early")
    add("jpeg of a header alone", plain[:100], "ends early")
    large = saved(Image.fromarray(noise(40, 30)).resize((1400, 1100), Image.BICUBIC), "JPEG", quality=30)
    tensors["jpeg large"] = np.frombuffer(large, np.uint8)  # decoded in parts; every 100th row is kept
    tensors["jpeg large.rows"] = expected(large)[::100]


# ---- orientation ----

HEAD = '<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#">'
SPACE = 'xmlns:tiff="http://ns.adobe.com/tiff/1.0/"'
ATTRIBUTE = HEAD + '<rdf:Description rdf:about="" %s tiff:Orientation="6"/></rdf:RDF></x:xmpmeta>' % SPACE
ELEMENT = HEAD + ('<rdf:Description rdf:about="" %s><tiff:Orientation>8</tiff:Orientation></rdf:Description>'
                  '</rdf:RDF></x:xmpmeta>' % SPACE)


def exif(tag, value):
    e = Image.Exif()
    e[tag] = value
    return e


def info(xmp=None, key=None, raw=None):
    i = PngImagePlugin.PngInfo()
    if xmp:
        i.add_itxt("XML:com.adobe.xmp", xmp)
    if raw:
        i.add_text(key, "\nexif\n%8d\n%s\n" % (len(raw), raw.hex()), zip=True)
    return i


def orientations():
    rgb, turned, upright, maker = noise(6, 4), exif(0x112, 5), exif(0x112, 1), exif(0x10F, "x")
    for o in range(1, 9):
        add("png eXIf %d" % o, saved(rgb, "PNG", exif=exif(0x112, o)))
    add("png xmp", saved(rgb, "PNG", pnginfo=info(ATTRIBUTE)))
    add("png profile", saved(rgb, "PNG", pnginfo=info(None, "Raw profile type exif", turned.tobytes())))
    add("png profile that does not count",
        saved(rgb, "PNG", pnginfo=info(None, "Raw profile type APP1", turned.tobytes())))
    add("png eXIf and xmp", saved(rgb, "PNG", exif=upright, pnginfo=info(ATTRIBUTE)))
    for name, xmp in (("attribute", ATTRIBUTE), ("element", ELEMENT)):
        add("jpeg xmp " + name, saved(rgb, "JPEG", xmp=xmp.encode()))
        add("webp xmp " + name, saved(rgb, "WEBP", lossless=True, xmp=xmp.encode()))
        add("tiff xmp " + name, saved(rgb, "TIFF", tiffinfo={700: xmp.encode()}))
    add("jpeg exif", saved(rgb, "JPEG", exif=turned))
    add("jpeg exif 1 and xmp", saved(rgb, "JPEG", exif=upright, xmp=ATTRIBUTE.encode()))
    add("jpeg exif of a maker and xmp", saved(rgb, "JPEG", exif=maker, xmp=ATTRIBUTE.encode()))
    add("webp exif", saved(rgb, "WEBP", lossless=True, exif=turned.tobytes()))
    add("tiff orientation", saved(rgb, "TIFF", tiffinfo={0x112: 7}, compression="tiff_lzw"))


# ---- PNG ----

def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(bits, kind, interlaced=0, extra=b"", width=13, height=9):
    channels = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}[kind]
    passes = [(0, 0, 1, 1)]
    if interlaced:
        passes = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)]
    rows = b""
    for x, y, dx, dy in passes:
        w, h = -(-(width - x) // dx), -(-(height - y) // dy)
        for _ in range(h if w > 0 else 0):
            rows += bytes([rng.integers(5)]) + rng.integers(0, 256, -(-w * bits * channels // 8), np.uint8).tobytes()
    head = struct.pack(">IIBBBBB", width, height, bits, kind, 0, 0, interlaced)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + extra + chunk(b"IDAT", zlib.compress(rows))
            + chunk(b"IEND", b""))


def pngs():
    for kind, depths in ((0, (1, 2, 4, 8, 16)), (2, (8, 16)), (4, (8, 16)), (6, (8, 16))):
        for bits in depths:
            for interlaced in (0, 1):
                add("png kind %d, %d bits%s" % (kind, bits, ", interlaced" * interlaced), png(bits, kind, interlaced))
    add("png grey with a transparent value", png(8, 0, extra=chunk(b"tRNS", b"\0\1")))
    add("png with a transparent colour", png(8, 2, extra=chunk(b"tRNS", bytes(6))))
    for bits in (1, 2, 4, 8):
        colours = (1 << bits) - (1 << bits) // 4  # the rest of the palette is missing
        extra = chunk(b"PLTE", rng.integers(0, 256, 3 * colours, np.uint8).tobytes())
        add("png palette, %d bits" % bits, png(bits, 3, 0, extra))
        extra += chunk(b"tRNS", rng.integers(0, 256, colours, np.uint8).tobytes())
        add("png palette with alpha, %d bits" % bits, png(bits, 3, 1, extra))
    whole = png(8, 2)
    at = whole.index(b"IEND") - 8
    add("png with a wrong sum of a part of its pixels", whole[:at] + b"sum!" + whole[at + 4:])
    add("png without IEND", whole[:at + 4])
    add("png with a wrong sum of its text", png(8, 2, extra=chunk(b"tEXt", b"a\0b")[:-4] + b"sum!"), "CRC")
    add("png cut", whole[:at - 40], "ends early")


# ---- BMP ----

def bmp(bits, header=40, compression=0, masks=(), colours=0, palette=None, rows=None, downwards=False, width=13,
        height=9, gap=0):
    if rows is None:
        rows = rng.integers(0, 256, (width * bits + 31) // 32 * 4 * height, np.uint8).tobytes()
    if header == 12:
        head = struct.pack("<IHHHH", 12, width, height, 1, bits)
    else:
        head = struct.pack("<IiiHHIIiiII", header, width, -height if downwards else height, 1, bits, compression,
                           len(rows), 0, 0, colours, 0)
        fields = b"".join(struct.pack("<I", m) for m in masks)
        head += fields[:12] if header == 40 else (fields + bytes(header))[:header - 40]
    if bits <= 8 and palette is None:
        palette = rng.integers(0, 256, (colours or 1 << bits) * (3 if header == 12 else 4), np.uint8).tobytes()
    head += (palette or b"") + bytes(gap)
    return b"BM" + struct.pack("<IHHI", 14 + len(head) + len(rows), 0, 0, 14 + len(head)) + head + rows


def runs(bits, width=13, height=9):
    out = b""
    for _ in range(height):
        x = 0
        while x < width:
            n = min(width - x, int(rng.integers(1, 9)))
            if n >= 4 and n % 4 == 0 and rng.integers(2):
                out += bytes([0, n]) + rng.integers(0, 256, n * bits // 8, np.uint8).tobytes()
            else:
                out += bytes([n, rng.integers(256)])
            x += n
        out += b"\0\0"
    return out + b"\0\1"


def bmps():
    for bits in (1, 4, 8, 16, 24, 32):
        for header in (12, 40, 124):
            add("bmp %d bits, header of %d" % (bits, header), bmp(bits, header, gap=6))
        add("bmp %d bits, downwards" % bits, bmp(bits, downwards=True))
    for bits, masks in ((16, (0xF800, 0x7E0, 0x1F, 0)), (16, (0x7C00, 0x3E0, 0x1F, 0)), (24, (0xFF0000, 0xFF00, 0xFF, 0)),
                        (32, (0xFF0000, 0xFF00, 0xFF, 0)), (32, (0xFF000000, 0xFF0000, 0xFF00, 0xFF)),
                        (32, (0xFF, 0xFF00, 0xFF0000, 0xFF000000)), (32, (0, 0, 0, 0))):
        for header in (40, 108) if masks[3] in (0, 0xFF000000) and any(masks) and masks[0] != 0xFF else (108,):
            fields = masks if header == 108 else masks[:3] + (0,)
            add("bmp %d bits, fields %x %x, header of %d" % (bits, masks[0], masks[3], header),
                bmp(bits, header, 3, fields))
    for bits, colours in ((8, 5), (4, 9)):
        add("bmp %d bits, %d colours" % (bits, colours), bmp(bits, colours=colours))
    ramp = b"".join(bytes([i, i, i, 0]) for i in range(256))
    add("bmp grey", bmp(8, palette=ramp))
    add("bmp grey of 100 values", bmp(8, colours=100, palette=ramp[:400]))
    add("bmp black and white", bmp(1, palette=bytes([0, 0, 0, 0, 255, 255, 255, 0])))
    add("bmp RLE8", bmp(8, compression=1, rows=runs(8)))
    add("bmp RLE4", bmp(4, compression=2, rows=runs(4)))
    add("bmp RLE8 downwards", bmp(8, compression=1, rows=runs(8), downwards=True))
    add("bmp with a JPEG", bmp(24, compression=4), "JPEG inside")
    add("bmp of 2 bits", bmp(2), "2 bits per pixel")
    add("bmp with fields of 10 bits", bmp(32, 108, 3, (0x3FF00000, 0xFFC00, 0x3FF, 0)), "bit fields")
    add("bmp with an unknown header", bmp(24, 50), "unknown header")
    add("bmp cut", bmp(24)[:-4], "ends early")
    add("bmp RLE8 cut", bmp(8, compression=1, rows=runs(8)[:40]), "ends early")


# ---- PNM ----

def pnm(magic, top, over=False, width=13, height=9):
    channels = 3 if magic in ("P3", "P6") else 1
    v = rng.integers(0, (256 if top < 256 else 65536) if over else top + 1, (height, width * channels))
    head = ("%s # a\n%d\t%d # b\n%s\n" % (magic, width, height, top if magic not in ("P1", "P4") else "")).encode()
    if magic in ("P1", "P2", "P3"):
        return head + b" # 7\n".join(b" ".join(b"%d" % x for x in row) for row in v) + b"\n"
    if magic == "P4":
        return b"P4\n%d %d\n" % (width, height) + np.packbits(v.astype(np.uint8), axis=1).tobytes()
    return head + v.astype(np.uint8 if top < 256 else ">u2").tobytes()


def pnms():
    add("pbm in text", pnm("P1", 1))
    add("pbm in text, close together", b"P1 3 2\n010\n111")
    add("pbm", pnm("P4", 1))
    for magic in ("P2", "P3", "P5", "P6"):
        for top in (1, 100, 255, 256, 4095, 65535):
            add("%s to %d" % (magic, top), pnm(magic, top))
    add("P5 above its 15", pnm("P5", 15, over=True))
    floats = rng.normal(100, 120, (9, 13))
    add("pfm, lowest byte first", b"Pf\n13 9\n-1.0\n" + floats.astype("<f4").tobytes())
    add("pfm, highest byte first", b"Pf\n13 9\n2.5\n" + floats.astype(">f4").tobytes())
    add("P2 above its 5", b"P2 2 1 5 1 6", "exceeds the maximum")
    add("P2 with letters", b"P2 2 1 5 1 x", "other characters")
    add("P6 cut", pnm("P6", 255)[:-1], "ends early")
    add("P5 to 70000", b"P5 1 1 70000 abcd", "maximum value")
    add("pam", b"P7\nWIDTH 1\nHEIGHT 1\nDEPTH 1\nMAXVAL 255\nENDHDR\n1", "a PAM")


# ---- TIFF ----

def tiff(pixels, photometric, order="<", planes=False, tile=None, more=()):
    """An uncompressed TIFF of pixels (height, width, channels), in strips of 4 rows."""
    height, width, channels = pixels.shape
    kind = {"u": 1, "i": 2, "f": 3}[pixels.dtype.kind]
    pixels = pixels.astype(pixels.dtype.newbyteorder(order))
    layers = [pixels[..., k:k + 1] for k in range(channels)] if planes else [pixels]
    pieces = []
    for layer in layers:
        for y in range(0, height, tile or 4):
            for x in range(0, width, tile or width):
                piece = layer[y:y + (tile or 4), x:x + (tile or width)]
                if tile:
                    piece = np.pad(piece, ((0, tile - piece.shape[0]), (0, tile - piece.shape[1]), (0, 0)))
                pieces.append(piece.tobytes())
    fields = {256: [width], 257: [height], 258: [pixels.dtype.itemsize * 8] * channels, 259: [1], 262: [photometric],
              277: [channels], 284: [2 if planes else 1], 339: [kind] * channels, **dict(more)}
    fields.update({322: [tile], 323: [tile], 324: None, 325: None} if tile else {273: None, 278: [4], 279: None})
    at = 8 + 2 + 12 * len(fields) + 4
    places = fields[324 if tile else 273] = []
    fields[325 if tile else 279] = [len(p) for p in pieces]
    places += [0] * len(pieces)
    long_values = sum(4 * len(v) for v in fields.values())
    for i, p in enumerate(pieces):
        places[i] = at + long_values + sum(map(len, pieces[:i]))
    entries, long_data = b"", b""
    for tag, values in sorted(fields.items()):
        form = "I" if tag in (273, 279, 324, 325) else "H"
        data = struct.pack("%s%d%s" % (order, len(values), form), *values)
        if len(data) > 4:
            entries += struct.pack(order + "HHII", tag, 4 if form == "I" else 3, len(values), at + len(long_data))
            long_data += data
        else:
            entries += struct.pack(order + "HHI", tag, 4 if form == "I" else 3, len(values)) + data.ljust(4, b"\0")
    begin = (b"II*\0" if order == "<" else b"MM\0*") + struct.pack(order + "I", 8)
    return (begin + struct.pack(order + "H", len(fields)) + entries + bytes(4) + long_data.ljust(long_values, b"\0")
            + b"".join(pieces))


def tiffs():
    rgb = noise(21, 18)
    for mode in ("1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "I", "F", "I;16"):
        if mode == "I":
            picture = Image.fromarray(rng.integers(-300, 600, (18, 21)).astype(np.int32))
        elif mode == "I;16":
            picture = Image.fromarray(rng.integers(0, 600, (18, 21)).astype(np.uint16))
        elif mode == "F":
            picture = Image.fromarray(rng.normal(100, 150, (18, 21)).astype(np.float32))
        else:
            picture = Image.fromarray(rgb).convert(mode)
        for how in (None, "tiff_lzw", "tiff_adobe_deflate", "packbits"):
            add("tiff %s %s" % (mode, how), saved(picture, "TIFF", compression=how))
    add("tiff group4", saved(Image.fromarray(rgb).convert("1"), "TIFF", compression="group4"))
    add("tiff jpeg", saved(smooth(), "TIFF", compression="jpeg"))
    add("tiff several pages", saved(rgb, "TIFF", save_all=True, append_images=[Image.fromarray(rgb[::-1].copy())]))
    for order in "<>":
        for tile in (None, 16):
            words = ("big" if order == ">" else "little") + (", tiles" if tile else "")
            for deep in (np.uint8,) if tile else (np.uint8, np.uint16):
                v = rng.integers(0, np.iinfo(deep).max + 1, (18, 21, 5)).astype(deep)
                n = 8 * v.itemsize
                add("tiff rgb, %d bits, %s" % (n, words), tiff(v[..., :3], 2, order, tile=tile))
                add("tiff rgb and alpha, %d bits, %s" % (n, words), tiff(v[..., :4], 2, order, tile=tile, more={338: [2]}))
                add("tiff rgb times alpha, %d bits, %s" % (n, words),
                    tiff(v[..., :4], 2, order, tile=tile, more={338: [1]}))
                add("tiff rgb and more, %d bits, %s" % (n, words), tiff(v[..., :4], 2, order, tile=tile, more={338: [0]}))
                add("tiff cmyk, %d bits, %s" % (n, words), tiff(v[..., :4], 5, order, tile=tile))
            add("tiff rgb, planes, %s" % words, tiff(noise(21, 18), 2, order, planes=True, tile=tile))
            v = rng.integers(-300, 600, (18, 21, 1))
            add("tiff signed, %s" % words, tiff(v.astype(np.int16), 1, order, tile=tile))
            add("tiff floats, %s" % words, tiff((v / 2).astype(np.float32), 1, order, tile=tile))
            add("tiff white at 0, %s" % words, tiff(v.astype(np.uint8), 0, order, tile=tile))
    add("tiff LAB", saved(Image.fromarray(rgb).convert("LAB"), "TIFF"), "LAB")
    add("tiff of 64 bits", tiff(noise()[..., :1].astype(np.float64), 1), "64 bits")
    add("tiff cut", saved(rgb, "TIFF")[:-1], "tiff cut")


# ---- WebP ----

def webps():
    add("webp", saved(smooth(), "WEBP", quality=60))
    add("webp lossless", saved(noise(), "WEBP", lossless=True))
    add("webp with alpha", saved(noise(13, 9, 4), "WEBP", lossless=True, exact=True))
    add("webp with alpha, lossy", saved(noise(13, 9, 4), "WEBP", quality=60))
    frames = [Image.fromarray(noise()) for _ in range(3)]
    for lossless in (False, True):
        add("webp animation%s" % (", lossless" * lossless),
            saved(frames[0], "WEBP", save_all=True, append_images=frames[1:], lossless=lossless))
    body = saved(noise(8, 6), "WEBP", lossless=True)[12:]

    def part(kind, data):
        return kind + struct.pack("<I", len(data)) + data + bytes(len(data) % 2)

    def three(*values):
        return b"".join(struct.pack("<I", v)[:3] for v in values)

    frame = part(b"ANMF", three(2, 1, 7, 5, 100) + b"\0" + body)
    parts = part(b"VP8X", b"\2\0\0\0" + three(19, 14)) + part(b"ANIM", bytes(6)) + 2 * frame
    small = b"RIFF" + struct.pack("<I", 4 + len(parts)) + b"WEBP" + parts
    add("webp animation whose first frame is smaller", small)
    add("webp animation cut", small[:-8], "ends early")
    add("webp cut", saved(noise(), "WEBP", lossless=True)[:-9], "WebP is broken")


def write(path):
    head, data = {}, b""
    for name, values in tensors.items():
        head[name] = {"dtype": "U8", "shape": list(values.shape), "data_offsets": [len(data), len(data) + values.nbytes]}
        data += values.tobytes()
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data)


if __name__ == "__main__":
    for make in (jpegs, orientations, pngs, bmps, pnms, tiffs, webps):
        make()
    write("picture_files.safetensors")
    print(len(tensors), "tensors")
