#!/usr/bin/env python3
"""Writes testdata/gguf with llama.cpp's own Python package (pip install gguf==0.19.0), as an independent opinion on
the format: one little-endian and one big-endian file with every metadata type, and a model in three files."""

import sys
from pathlib import Path

import gguf
import numpy as np
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType as T, GGUFEndian, GGUFValueType as V
from gguf.scripts import gguf_convert_endian as convert

OUT = Path(sys.argv[1] if len(sys.argv) > 1 else "testdata/gguf")


class Flat:
    """What gguf_convert_endian expects of a tensor."""

    def __init__(self, data):
        self.data = data


def blocks(kind, rows, endian):
    """Blocks of pseudo-random bytes, as a file of this byte order has them."""
    length, size = GGML_QUANT_SIZES[kind]
    data = np.random.default_rng(int(kind)).integers(0, 256, rows * 2 * size, dtype=np.uint8)
    if endian == GGUFEndian.BIG:
        for block in range(rows * 2):
            convert.byteswap_tensors[kind](Flat(data), block * size)
    return data.reshape(rows, 2 * size)


def write(path, endian):
    w = gguf.GGUFWriter(path, "test", endianess=endian)
    w.add_custom_alignment(64)
    w.add_uint8("test.u8", 200)
    w.add_int8("test.i8", -100)
    w.add_uint16("test.u16", 60000)
    w.add_int16("test.i16", -30000)
    w.add_uint32("test.u32", 4000000000)
    w.add_int32("test.i32", -2000000000)
    w.add_float32("test.f32", 0.1)
    w.add_bool("test.bool", True)
    w.add_string("test.string", "grün \U0001F600")
    w.add_uint64("test.u64", 2**64 - 2)
    w.add_key_value("test.i64", -(2**62), V.INT64)
    w.add_float64("test.f64", 0.1)
    w.add_array("test.array.i32", [1, -2, 3])
    w.add_array("test.array.f32", [0.5, -0.25])
    w.add_array("test.array.bool", [True, False])
    w.add_array("test.array.string", ["", "a", "bc"])
    w.add_array("test.array.array", [[1, 2], [3]])
    w.add_key_value("test.array.u16", [1, 65535], V.ARRAY, V.UINT16)
    w.add_tensor("plain.f32", (np.arange(6, dtype=np.float32) / 3).reshape(2, 3))
    w.add_tensor("plain.f16", (np.arange(5, dtype=np.float16) / 3))
    w.add_tensor("plain.f64", np.arange(24, dtype=np.float64).reshape(2, 3, 4) / 7)
    w.add_tensor("plain.i8", np.arange(-3, 3, dtype=np.int8))
    w.add_tensor("plain.i16", np.arange(-3, 3, dtype=np.int16) * 1000)
    w.add_tensor("plain.i32", np.arange(-3, 3, dtype=np.int32) * 100000)
    w.add_tensor("plain.i64", np.arange(-3, 3, dtype=np.int64) * 10**12)
    for kind in (T.Q4_0, T.Q8_0, T.Q4_K, T.Q6_K, T.MXFP4):
        w.add_tensor(f"block.{kind.name.lower()}", blocks(kind, 3, endian), raw_dtype=kind)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


OUT.mkdir(parents=True, exist_ok=True)
write(OUT / "python.gguf", GGUFEndian.LITTLE)
write(OUT / "python-big-endian.gguf", GGUFEndian.BIG)

w = gguf.GGUFWriter(OUT / "split.gguf", "test", split_max_tensors=2)
w.add_string("test.string", "in the first file only")
for i in range(5):
    w.add_tensor(f"tensor.{i}", np.full((2, 4), i, dtype=np.float32))
w.write_header_to_file()
w.write_kv_data_to_file()
w.write_tensors_to_file()
w.close()
