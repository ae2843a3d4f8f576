#!/usr/bin/env python3
"""test_cuda_constants.py: checks the inline PTX of cuda_ptx.h by NVIDIA's compiler, which evaluates
instructions whose operands are constants. No GPU is needed.

    test_cuda_constants.py path/to/cuda_ptx.h

ptxas replaces such an instruction by a MOV of its 32-bit result. For difficult operands and each architecture the
test searches the program for the expected result, and for the result with the operands exchanged, which must not
occur. Instructions of tensor cores, copies, and those that ptxas does not evaluate (bfloat16, prmt) are covered by
test_ptx.cpp alone. Standard library only.
"""
import os
import shutil
import struct
import subprocess
import sys
import tempfile

ARCHITECTURES = (75, 80, 90)


def f32(x):
    return struct.unpack("<I", struct.pack("<f", x))[0]


def f16(x):
    try:
        return struct.unpack("<H", struct.pack("<e", x))[0]
    except OverflowError:
        return 0x7c00 if x > 0 else 0xfc00


def f16x2(low, high):
    return f16(high) << 16 | f16(low)


def tf32(x):
    """Rounds to tf32, ties away from zero."""
    return (f32(x) + 0x1000) & ~0x1fff


# Calls, the expected result, and a wrong one: with swapped operands, or another rounding.
PAIRS = ((1.0, 2.0), (2049.0, -2051.0), (65520.0, 6e-8), (1.00048828125, -65519.99), (3e-8, 0.333))
HALVES = (1.5, 2049.0, 2051.0, -65520.0, 65519.99, 6e-8, 0.1)
TIES = (1.00048828125, -1.00048828125, 1.000488, 3.14159274, 1e-39)
CASES = [("fv_half2_bits(%rf, %rf)" % pair, 80, f16x2(*pair), f16x2(*pair[::-1])) for pair in PAIRS]
CASES += [("fv_float_to_half(%rf)" % x, 75, f16(x), None) for x in HALVES]
CASES += [("fv_bits_of(fv_half_to_float(0x%x))" % f16(x), 75,
           f32(struct.unpack("<e", struct.pack("<H", f16(x)))[0]), None) for x in (1.5, -0.1, 6e-8)]
CASES += [("fv_tf32(%rf)" % x, 80, tf32(x), f32(x) & ~0x1fff if tf32(x) != f32(x) & ~0x1fff else None)
          for x in TIES]
CASES += [("fv_bits_of(fv_exp2_fast(%rf))" % x, 75, f32(2.0 ** x), None) for x in (3.0, -7.0)]
CASES += [("fv_bits_of(fv_log2_fast(%rf))" % x, 75, f32(y), None) for x, y in ((8.0, 3.0), (0.25, -2.0))]
NOTHING = "0x5a5a5a5a" # numbers that every kernel contains


def compiled(nvcc, header, sm):
    """The code of each case's kernel."""
    kernels = ['extern "C" __global__ void case_%d(unsigned *out) { *out = %s; }' % (i, call)
               for i, (call, least, _, _) in enumerate(CASES + [(NOTHING, 75, 0, 0)]) if sm >= least]
    with tempfile.TemporaryDirectory() as folder:
        source, binary = os.path.join(folder, "k.cu"), os.path.join(folder, "k.cubin")
        with open(source, "w", encoding="utf-8") as f:
            f.write('#include "%s"\n%s\n' % (os.path.abspath(header), "\n".join(kernels)))
        subprocess.run([nvcc, "-arch=sm_%d" % sm, "-cubin", "-o", binary, source], check=True)
        with open(binary, "rb") as f:
            return dict(sections(f.read()))


def sections(elf):
    """Names and bytes of an ELF file's code."""
    begin, size, count, names = (struct.unpack_from(form, elf, at)[0] for form, at in
                                 (("<Q", 0x28), ("<H", 0x3a), ("<H", 0x3c), ("<H", 0x3e)))
    headers = [struct.unpack_from("<IIQQQQ", elf, begin + i * size) for i in range(count)]
    texts = headers[names][4]
    for header in headers:
        name = elf[texts + header[0]:elf.index(b"\0", texts + header[0])].decode()
        if name.startswith(".text."):
            yield name[len(".text."):], elf[header[4]:header[4] + header[5]]


def constants(code):
    """The 32-bit numbers in the instructions, which have 16 bytes each."""
    return {struct.unpack_from("<I", code, at + 4)[0] for at in range(0, len(code), 16)}


def main():
    nvcc = shutil.which("nvcc", path=os.environ.get("PATH", "") + ":/usr/local/cuda/bin")
    if not nvcc:
        print("skipped: no nvcc\n0 passed, 0 failed, 1 skipped")
        sys.exit(77)
    passed = failed = 0
    for sm in ARCHITECTURES:
        code = compiled(nvcc, sys.argv[1], sm)
        common = constants(code["case_%d" % len(CASES)])
        for i, (call, least, want, wrong) in enumerate(CASES):
            if sm < least:
                continue
            found = constants(code["case_%d" % i])
            if want in found and wrong not in found and want not in common:
                passed += 1
                continue
            failed += 1
            print("FAIL sm_%d: %s is not %#x in %s" % (sm, call, want, sorted(map(hex, found))))
    print("%d passed, %d failed, 0 skipped" % (passed, failed))
    sys.exit(failed != 0)


if __name__ == "__main__":
    main()
