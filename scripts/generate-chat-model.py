#!/usr/bin/env python3
"""Writes testdata/models/llama-chat.gguf: the tiny model llama-tied-q8_0.gguf with a chat template.

Needs no packages. It copies the file and inserts one metadata value; tensors stay as they are.
"""
import pathlib
import struct

MODELS = pathlib.Path(__file__).resolve().parent.parent / "testdata" / "models"
KEY = b"tokenizer.chat_template"
TEMPLATE = (
    b"{% for message in messages %}{{ message.role }}: {{ message.content }}\n{% endfor %}"
    b"{% if add_generation_prompt %}assistant: {% endif %}"
)
SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
STRING, ARRAY, ALIGNMENT = 8, 9, 32


def number(data, at, form):
    return struct.unpack_from("<" + form, data, at)[0], at + struct.calcsize("<" + form)


def string(data, at):
    length, at = number(data, at, "Q")
    return at + length


def value(data, at, kind):
    """Returns the offset behind a value."""
    if kind == STRING:
        return string(data, at)
    if kind != ARRAY:
        return at + SIZES[kind]
    inner, at = number(data, at, "I")
    count, at = number(data, at, "Q")
    for _ in range(count):
        at = value(data, at, inner)
    return at


def main():
    data = (MODELS / "llama-tied-q8_0.gguf").read_bytes()
    tensors, _ = number(data, 8, "Q")
    pairs, at = number(data, 16, "Q")
    for _ in range(pairs):
        at = string(data, at)
        kind, at = number(data, at, "I")
        at = value(data, at, kind)
    metadata_end = at
    for _ in range(tensors):
        at = string(data, at)
        dims, at = number(data, at, "I")
        at += dims * 8 + 4 + 8
    infos, rest = data[metadata_end:at], data[-(-at // ALIGNMENT) * ALIGNMENT :]
    pair = struct.pack("<Q", len(KEY)) + KEY + struct.pack("<IQ", STRING, len(TEMPLATE)) + TEMPLATE
    head = data[:16] + struct.pack("<Q", pairs + 1) + data[24:metadata_end] + pair + infos
    head += bytes(-len(head) % ALIGNMENT)
    (MODELS / "llama-chat.gguf").write_bytes(head + rest)


main()
