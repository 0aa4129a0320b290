"""What `peers.py` and `ab.py` have to show, and what ik_llama.cpp reaches.

ik_llama.cpp is not run. Its figures were measured once beside llama.cpp's (an AMD Zen 4 with two cores, AVX-512 with VNNI and BF16;
llama.cpp b21e4de74567, ik_llama.cpp 8337e4cd3861, the better of its runs with and without `-rtr 1`). What it would reach here is
llama.cpp's speed in the same run times the ratio of the two there.
"""

# (family, format, threads): (llama.cpp's pp512 and tg128, ik_llama.cpp's).
PUBLISHED = {
    ("smollm2", "q4_1", 2): ((303, 127), (1170, 168)),
    ("smollm2", "q4_0", 2): ((775, 182), (1041, 193)),
    ("smollm2", "q8_0", 2): ((631, 119), (1148, 156)),
    ("smollm2", "q4_k_m", 2): ((453, 114), (1208, 186)),
    ("smollm2", "f16", 2): ((589, 89), (1156, 88)),
    ("1b", "q4_0", 2): ((126, 42.7), (195, 44.6)),
    ("1b", "q4_k_m", 2): ((114, 42.3), (188, 42.0)),
    ("1b", "q8_0", 2): ((103, 23.2), (210, 24.8)),
    ("1b", "q6_k", 2): ((57, 28.7), (156, 30.5)),
    ("experts", "q4_0", 2): ((903, 292), (1924, 365)),
    ("experts", "q4_k_m", 2): ((961, 282), (1820, 329)),
    ("experts", "q8_0", 2): ((603, 173), (1853, 220)),
    ("smollm2", "q4_1", 1): ((152, 78), (636, 97)),
    ("smollm2", "q4_0", 1): ((422, 123), (555, 146)),
    ("smollm2", "q8_0", 1): ((273, 71), (607, 109)),
    ("smollm2", "q4_k_m", 1): ((305, 91), (601, 152)),
    ("smollm2", "f16", 1): ((307, 62), (362, 40)),
    ("1b", "q4_0", 1): ((65, 26.5), (95, 22)),
    ("1b", "q4_k_m", 1): ((58, 26.3), (99, 24.3)),
    ("1b", "q8_0", 1): ((53, 14.3), (104, 20.3)),
}
TESTS = ["pp", "tg"]

# Kernels alone, one thread: weights of one row over memory's speed, 512 rows over the peak of their unit. Weights may lie as in the file or
# interleaved, as loading chooses: the better counts.
ONE_ROW = 25 / 30
MANY_ROWS = {"q4_0": 0.65, "q8_0": 0.65, "q4_k": 0.65, "bf16": 0.85}
INTERLEAVED = "x16"

# The least ratio of a new build's speed to an old one's, for `ab.py`: of block formats, and of the plain ones.
KEPT, KEPT_PLAIN, PLAIN = 0.97, 0.90, ("f16", "bf16", "f32")


def kept(format):
    """The least ratio of a new build's speed to an old one's."""
    return KEPT_PLAIN if format in PLAIN else KEPT


def over_ik(family, format, threads, test):
    """How much faster than llama.cpp ik_llama.cpp is, or None where it was not measured."""
    published = PUBLISHED.get((family, format, threads))
    if published is None:
        return None
    theirs, ik = (figures[TESTS.index(test)] for figures in published)
    return ik / theirs


def least(family, format, test):
    """The least ratios to llama.cpp and to ik_llama.cpp, and the least part of memory's speed; None where there is none."""
    if family == "smollm2":
        over = {"tg": 1.0 if format == "f16" else 1.5, "pp": 4 if format == "q4_1" else 2}[test]
        return over, {"tg": 1.3, "pp": 1.35}[test], None
    if family == "1b":
        over = {"tg": 1.0, "pp": 3 if format == "q6_k" else 2}[test]
        return over, {"tg": 1.0, "pp": 1.35}[test], 0.85 if test == "tg" else None
    if family == "experts":
        return {"tg": 1.2, "pp": 2}[test], None, None
    return None, None, None
