"""The model files that are measured, made once in the cache folder: a small real model, and two with random weights.

    smollm2   135M, a real model that fits into large caches; `silicide pull smollm2` fetches it, in Q4_1
    1b        a billion random weights, more than caches hold
    experts   32 experts of which a token sees four, random weights

Other formats are made by `silicide convert`. Delete the folder to have them made anew, after the quantiser has changed.
"""
import json
import os
import pathlib

import engines

FAMILIES = {
    "smollm2": ["q4_0", "q4_1", "q5_k_m", "q4_k_m", "q6_k", "q8_0", "iq4_nl", "f16"],
    "1b": ["q4_0", "q8_0", "q4_k_m", "q6_k"],
    "experts": ["q4_0", "q4_k_m", "q8_0"],
}


def chosen(families, formats):
    """Pairs of family and format: those of the table, or of them `formats`. A format that no family lists is made for all."""
    listed = {format for known in FAMILIES.values() for format in known}
    extra = [format for format in formats or [] if format not in listed]
    return [(family, format) for family in families for format in [*FAMILIES[family], *extra] if not formats or format in formats]


def label(file):
    """A name for what was measured: `1b q4_0 (avx2)`."""
    name = f"{file['family']} {file['format']}" if file["family"] else file["format"]
    return f"{name} ({file['isa']})" if file.get("isa") else name


def sample():
    """The real model, as it is fetched."""
    named = os.environ.get("SILICIDE_SAMPLE_MODEL")
    return pathlib.Path(named or engines.run([engines.program("silicide"), "pull", "smollm2"]).splitlines()[-1])


def file(family, format):
    """A model's file in a format, made if it is not there."""
    path = engines.cache() / f"{family}-{format}.gguf"
    if path.exists():
        return path
    if family == "smollm2" and format == "q4_1":
        return sample()
    engines.say(f"making {path}")
    if family != "smollm2" and format == "f16":
        engines.run([engines.program("bench"), "random-model", "--kind", family, "--tokenizer", sample(), path])
    else:
        source = sample() if family == "smollm2" else file(family, "f16")
        # A plain format is measured alone, without the finer types that a mixture has for some tensors.
        pure = [] if format.endswith(("_s", "_m", "_l")) else ["--pure"]
        engines.run([engines.program("silicide"), "convert", source, path, "--type", format, "--allow-requantize", *pure])
    return path


def work(path):
    """What a token takes: the bytes of weights that generating it reads, and the weights that a prompt's token meets.

    An embedding counts where it is the head too; a prompt needs the head once, which is left out. Of experts those count
    that see a token.
    """
    report = json.loads(engines.run([engines.program("silicide"), "inspect", path, "--json", "--tensors"]))
    settings = dict(report["metadata"])
    architecture = settings["general.architecture"]
    count, active = (settings.get(f"{architecture}.{key}", 1) for key in ("expert_count", "expert_used_count"))
    names = {tensor["name"] for tensor in report["tensors"]}
    size = weights = 0
    for tensor in report["tensors"]:
        part = active / count if "_exps." in tensor["name"] else 1
        embedding, head = tensor["name"] == "token_embd.weight", tensor["name"] == "output.weight"
        if not embedding or "output.weight" not in names:
            size += part * tensor["bytes"]
        if len(tensor["shape"]) > 1 and not embedding and not head:
            elements = 1
            for extent in tensor["shape"]:
                elements *= extent
            weights += part * elements
    return {"bytes": size, "weights": weights}
