"""What the comparing programs share: silicide and llama.cpp found or built and run, the machine's limits, and its noise.

Every measurement is a process of its own, so that engines neither share caches of weights nor keep threads spinning.
"""
import functools
import json
import os
import pathlib
import platform
import resource
import statistics
import subprocess
import sys
import time
import venv

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
RELEASE = pathlib.Path(os.environ.get("CARGO_TARGET_DIR") or ROOT / "target") / "release"
PACKAGE = "llama-cpp-python"
# Other work on the machine that makes figures doubtful: part of all CPU time.
FOREIGN = 0.05
# A spread that does: of the median, between the smallest and the largest.
SPREAD = 0.15
# The features that each instruction set of silicide needs (`Isa::is_available`), best first.
ISAS = {
    "avx512": {"avx2", "fma", "f16c", "avx512f", "avx512bw", "avx512dq", "avx512cd", "avx512vl", "avx512_vnni"},
    "avx2": {"avx2", "fma", "f16c"},
    "neon": {"asimd", "asimddp"},
}
# CMake options of llama.cpp for less than the best instruction set.
LLAMA_BUILDS = {
    "avx2": "-DGGML_NATIVE=OFF -DGGML_AVX=ON -DGGML_AVX2=ON -DGGML_FMA=ON -DGGML_F16C=ON -DGGML_BMI2=ON -DGGML_AVX512=OFF",
}
# Features of CPUs that the speed of products depends on, as Linux spells them.
FEATURES = ["avx2", "avx_vnni", "avx512f", "avx512_vnni", "avx512_bf16", "avx512vbmi", "avx512_bitalg",
            "amx_int8", "asimddp", "i8mm", "bf16", "sve"]


class Failed(Exception):
    """An engine that could not run a file, with what it said."""


def cache():
    """The folder of files that can be made again: of models, and of llama.cpp where it had to be built."""
    base = os.environ.get("SILICIDE_CACHE") or pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "silicide"
    folder = pathlib.Path(base) / "bench"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def say(*words):
    print(*words, file=sys.stderr, flush=True)


def run(command):
    """What a command prints; `Failed` with the end of its complaints if it fails."""
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode:
        complaints = done.stderr.strip().splitlines() or [f"code {done.returncode}"]
        raise Failed(complaints[-1])
    return done.stdout


@functools.cache
def program(name):
    """A program of this repository as it is now, built if need be: `silicide` or `bench`."""
    named = os.environ.get(f"{name.upper()}_PROGRAM")
    if named:
        return pathlib.Path(named)
    package = {"silicide": "silicide-cli", "bench": "bench"}[name]
    subprocess.run(["cargo", "build", "--release", "--quiet", "-p", package], cwd=ROOT, check=True)
    return RELEASE / name


@functools.cache
def python_with_llama(isa=None):
    """A Python that has llama.cpp: this one, or one in the cache folder, where the package is built once.

    With an instruction set of `LLAMA_BUILDS` that is not the best of this CPU, it is a build for that set, beside the usual one.
    """
    probe = ["-c", "import llama_cpp; print(llama_cpp.__version__)"]
    options = None if isa == next(iter(instruction_sets(features())), None) else LLAMA_BUILDS.get(isa)
    place = cache() / (f"python-{isa}" if options else "python")
    python = place / "bin" / "python"
    for python in [python] if options else [pathlib.Path(sys.executable), python]:
        if python.exists() and subprocess.run([python, *probe], capture_output=True).returncode == 0:
            return python
    say(f"{PACKAGE} is not there: building it in {place}, which takes some minutes")
    venv.create(place, with_pip=True, clear=True)
    # pip keeps what it builds by name and version alone, and the two builds would be mixed up.
    install = [python, "-m", "pip", "install", "--quiet", "--no-cache-dir", PACKAGE]
    subprocess.run(install, check=True, stdout=sys.stderr, env=os.environ | {"CMAKE_ARGS": options or os.environ.get("CMAKE_ARGS", "")})
    return python


def llama_version(isa=None):
    return run([python_with_llama(isa), "-c", "import llama_cpp; print(llama_cpp.__version__)"]).strip()


# The device of silicide, as its `--device` takes it.
device = "cpu"


def placed(path, threads, isa):
    """The options of silicide that name a file, the device, a number of threads, and an instruction set (None: the best)."""
    return ["-m", path, "--device", device, "-t", threads, *(["--isa", isa] if isa else []), "--json"]


def ours(path, threads, prompt, count, isa=None, depth=0, binary=None):
    """silicide's tokens per second on one file: this tree's build or `binary`, with `depth` tokens in the KV cache before the test."""
    lengths = ["-p", prompt, "-n", count, "-r", 1, *(["-d", depth] if depth else [])]
    report = json.loads(run([binary or program("silicide"), "bench", *placed(path, threads, isa), *lengths]))
    return {test: report[test] for test in ("pp", "tg") if report[test] is not None}


def first_token(path, threads, isa=None, binary=None):
    """silicide's seconds from a short prompt to the first token, without the time that loading takes."""
    prompt = ["-p", "Why is the sky blue?", "--raw", "--temp", 0, "-n", 1]
    report = json.loads(run([binary or program("silicide"), "run", *placed(path, threads, isa), *prompt]))
    return report["timings"]["first_token_seconds"]


def llama(path, threads, prompt, count, isa=None):
    """llama.cpp's tokens per second on one file: with `isa` if it can be built for it, else with the best instruction set."""
    command = [python_with_llama(isa), HERE / "llama.py", path, "-t", threads, "-p", prompt, "-n", count]
    return json.loads(run(command).splitlines()[-1])


ENGINES = {"silicide": ours, "llama.cpp": llama}


def alternate(turn, names=tuple(ENGINES)):
    """`names` (the engines) in the order of a turn: every second turn is reversed, so that drift of the machine cancels."""
    return list(names) if turn % 2 == 0 else list(names)[::-1]


def rows(*arguments):
    """The rows of a benchmark of kernels."""
    return [json.loads(line) for line in run([program("bench"), *arguments, "--json"]).splitlines()]


def limits(threads, isa=None):
    """The machine's limits by name, bytes or operations in a second, with an instruction set (None: the best)."""
    measured = rows("limits", "--threads", threads, *(["--isa", isa] if isa else []))
    return {row["limit"]: row["value"] * 1e9 for row in measured}


def cpuinfo(*keys):
    """The value of the first line of /proc/cpuinfo that begins with one of `keys`, or None."""
    try:
        lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return None
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith(keys)), None)


def processor():
    return f"{cpuinfo('model name') or platform.processor() or platform.machine()}, {os.cpu_count()} cores"


def features():
    """The names of the CPU's features, in Linux's words; none where /proc/cpuinfo is missing."""
    return set((cpuinfo("flags", "Features") or "").split())


def instruction_sets(found):
    """The instruction sets of silicide that a CPU with the features `found` has, best first, without `portable`."""
    return [name for name, needed in ISAS.items() if needed <= found]


def numbers(text):
    """The positive numbers of an option's list: `1,2`."""
    values = [int(number) for number in text.split(",")]
    if min(values) < 1:
        raise ValueError(text)
    return values


def words(text):
    """The words of an option's list: `q4_0,q8_0`."""
    return text.split(",")


def spread(samples):
    """The distance between the smallest and the largest, as a part of the median."""
    return (max(samples) - min(samples)) / statistics.median(samples)


class Watch:
    """How much of the machine others use while we measure. Knows nothing where there is no /proc/stat."""

    def __init__(self):
        self.begin = self.now()

    @staticmethod
    def now():
        """Seconds of CPU time: all, busy, and used by this process and those that it has ended."""
        try:
            fields = [int(field) for field in pathlib.Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
        except OSError:
            return None
        ticks = [field / os.sysconf("SC_CLK_TCK") for field in fields]
        used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        return sum(ticks), sum(ticks) - ticks[3] - ticks[4], sum(usage.ru_utime + usage.ru_stime for usage in used)

    def foreign(self):
        """The part of all CPU time that others used since the beginning, or that was taken from this machine."""
        if self.begin is None:
            return 0.0
        total, busy, own = (now - then for now, then in zip(self.now(), self.begin))
        return max(0.0, (busy - own) / total) if total > 0 else 0.0


def warn_of_others(share):
    """Prints a warning if other processes used more than a small part of the machine."""
    if share > FOREIGN:
        print(f"WARNING: the machine was noisy: others used {share:.0%} of it")


def warn_before():
    """Warns of a machine that is busy before anything is measured."""
    watch = Watch()
    time.sleep(1)
    foreign = watch.foreign()
    if foreign > FOREIGN:
        say(f"WARNING: others use {foreign:.0%} of this machine; figures will be noisy")
    return foreign
