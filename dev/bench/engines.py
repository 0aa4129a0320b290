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
def python_with_llama():
    """A Python that has llama.cpp: this one, or one in the cache folder, where the package is built once."""
    probe = ["-c", "import llama_cpp; print(llama_cpp.__version__)"]
    place = cache() / "python"
    for python in [pathlib.Path(sys.executable), place / "bin" / "python"]:
        if python.exists() and subprocess.run([python, *probe], capture_output=True).returncode == 0:
            return python
    say(f"{PACKAGE} is not there: building it in {place}, which takes some minutes")
    venv.create(place, with_pip=True, clear=True)
    subprocess.run([python, "-m", "pip", "install", "--quiet", PACKAGE], check=True, stdout=sys.stderr)
    return python


def llama_version():
    return run([python_with_llama(), "-c", "import llama_cpp; print(llama_cpp.__version__)"]).strip()


def ours(path, threads, prompt, count, isa=None):
    """silicide's tokens per second on one file, with the best instruction set or the given one."""
    lengths = ["-t", threads, "-p", prompt, "-n", count, "-r", 1]
    lengths += ["--isa", isa] if isa else []
    report = json.loads(run([program("silicide"), "bench", "-m", path, "--device", "cpu", *lengths, "--json"]))
    return {test: report[test] for test in ("pp", "tg") if report[test] is not None}


def llama(path, threads, prompt, count, isa=None):
    """llama.cpp's tokens per second on one file. It takes the best instruction set, whatever `isa` is."""
    command = [python_with_llama(), HERE / "llama.py", path, "-t", threads, "-p", prompt, "-n", count]
    return json.loads(run(command).splitlines()[-1])


ENGINES = {"silicide": ours, "llama.cpp": llama}


def alternate(turn):
    """The engines in the order of a turn: who is first changes, as the second finds the machine warmer."""
    names = list(ENGINES)
    return names if turn % 2 == 0 else names[::-1]


def rows(*arguments):
    """The rows of a benchmark of kernels."""
    return [json.loads(line) for line in run([program("bench"), *arguments, "--json"]).splitlines()]


def limits(threads):
    """The machine's limits by name, bytes or operations in a second."""
    measured = rows("limits", "--threads", threads)
    return {row["limit"]: row["value"] * 1e9 for row in measured}


def processor():
    try:
        lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
        name = next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        name = platform.processor() or platform.machine()
    return f"{name}, {os.cpu_count()} cores"


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


def warn_before():
    """Warns of a machine that is busy before anything is measured."""
    watch = Watch()
    time.sleep(1)
    foreign = watch.foreign()
    if foreign > FOREIGN:
        say(f"WARNING: others use {foreign:.0%} of this machine; figures will be noisy")
    return foreign
