"""Tests of the comparing programs: what they conclude from figures, and that what they draw is SVG. Nothing is measured."""
import contextlib
import io
import json
import pathlib
import tempfile
import unittest
import unittest.mock
import xml.etree.ElementTree

import ab
import builds
import drawing
import engines
import machines
import models
import neighbours
import peers
import sweep
import targets


def quietly(call, *arguments):
    """What a call returns and prints."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(io.StringIO()):
        return call(*arguments), printed.getvalue()


def curve(points, **more):
    return {"chart": "a chart", "name": "a curve", "unit": "GOP/s", "x": "rows", "points": points} | more


class Sweep(unittest.TestCase):
    def test_a_step_down_is_a_cliff(self):
        run = {"machine": "m", "when": "w", "busy_before": 0, "busy_meanwhile": 0, "curves": [curve([[1, 10.0], [2, 8.4], [3, 8.0]])]}
        cliffs, printed = quietly(sweep.judge, run)
        self.assertEqual(cliffs, 1)
        self.assertIn("0.84 CLIFF | 1: 10.0 GOP/s | 2: 8.4", printed)

    def test_more_to_read_is_no_cliff(self):
        points = [[depth, 1 / (0.01 + depth * 1e-5)] for depth in (0, 512, 1024, 2048, 4096, 16384)]
        self.assertTrue(all(abs(part - 1) < 1e-9 for part, *_ in sweep.kept(curve(points, line=True))))
        points[3][1] *= 0.7
        self.assertLess(min(part for part, *_ in sweep.kept(curve(points, line=True))), 1 - sweep.LOSS)

    def test_noise_goes_and_cliffs_stay(self):
        truth = {1: 10.0, 2: 20.0, 3: 12.0}
        settled = sweep.settle(curve([[1, 10.0], [2, 8.0], [3, 12.0]]), lambda places: {x: truth[x] for x in places})
        self.assertEqual(settled["points"], [[1, 10.0], [2, 20.0], [3, 12.0]])


class Peers(unittest.TestCase):
    def run_of(self, mine, theirs, **more):
        file = {"family": "1b", "format": "q4_0", "threads": 2, "work": {"bytes": 1e9, "weights": 1e9}, "limits": 0, "failed": {}}
        file |= {"silicide": [{"tg": mine, "pp": 400.0}], "llama.cpp": [{"tg": theirs, "pp": 100.0}]} | more
        run = {"machine": "m", "when": "w", "llama_cpp_python": "0", "prompt": 512, "count": 128, "rounds": 1,
               "busy_before": 0, "busy_meanwhile": 0}
        return run | {"limits": [{"threads": 2, "memory": 30e9, "integers": 1e12}], "files": [file], "kernels": []}

    def test_figures_are_compared_with_limits_and_targets(self):
        run = self.run_of(27.0, 20.0)
        generation, prompt = peers.figures(run)
        self.assertAlmostEqual(generation["ratio"], 1.35)
        self.assertAlmostEqual(generation["bound"], 0.9)
        self.assertAlmostEqual(generation["ik"], 1.35 * 42.7 / 44.6)
        self.assertAlmostEqual(prompt["bound"], 0.8)
        self.assertEqual(quietly(peers.judge, run, None)[0], 0)
        self.assertEqual(quietly(peers.judge, run, 2.0)[0], 1)
        self.assertEqual(quietly(peers.judge, self.run_of(15.0, 20.0), None)[0], 3)

    def test_what_was_skipped_is_missed(self):
        missed, printed = quietly(peers.judge, self.run_of(27.0, 20.0, failed={"silicide": "no such architecture"}), None)
        self.assertEqual(missed, 1)
        self.assertIn("SKIPPED 1b q4_0, 2 threads: silicide: no such architecture", printed)

    def test_a_forced_instruction_set_is_named_and_passed_on(self):
        self.assertEqual(models.label({"family": "1b", "format": "q4_0", "isa": "avx2"}), "1b q4_0 (avx2)")
        self.assertEqual(models.label({"family": "1b", "format": "q4_0", "isa": None}), "1b q4_0")
        commands = []
        answer = lambda command: commands.append(command) or '{"pp": 1, "tg": 2}'
        with unittest.mock.patch.multiple(engines, program=lambda name: name, run=answer):
            engines.ours("file", 1, 8, 8, "avx2")
            engines.ours("file", 1, 8, 8)
        self.assertEqual(commands[0][commands[0].index("--isa") + 1], "avx2")
        self.assertNotIn("--isa", commands[1])

    def test_both_engines_get_the_instruction_set(self):
        commands, pythons = [], []
        answer = lambda command: commands.append(command) or '{"pp": 1, "tg": 2}'
        python = lambda isa=None: pythons.append(isa) or "python"
        with unittest.mock.patch.multiple(engines, python_with_llama=python, run=answer):
            engines.llama("file", 1, 8, 8, "avx2")
            engines.llama("file", 1, 8, 8)
        self.assertEqual(pythons, ["avx2", None])
        self.assertIn("-DGGML_NATIVE=OFF", engines.LLAMA_BUILDS["avx2"])

    def test_tables_under_the_names_of_machines_are_drawn(self):
        head = "| model | threads | test | silicide | llama.cpp | ratio | spread | bound |\n|---|---|---|---|---|---|---|---|\n"
        row = lambda model, test: f"| {model} | 2 | {test} | 238.2 | 90.5 | 2.64 | 2.51 to 2.77 | 1.03 |\n"
        one = "| 1b q4_0 | 1 | tg128 | 1.0 | 1.0 | 1.00 | 1.00 to 1.00 | |\n"
        text = f"#### One & all\n\ntext\n\n{head}{row('smollm2 q4_0', 'tg128')}{row('smollm2 q4_0', 'pp512')}{one}\n"
        text += f"#### Other\n{head}{row('1b q8_0 (avx2)', 'tg128')}\n### No machine\n{head}{one}\n#### No table\n| a |\n|---|\n"
        found = machines.tables(text)
        self.assertEqual([(heading, len(rows)) for heading, rows in found], [("One & all", 3), ("Other", 1)])
        drawn = machines.plot(text)
        tree = xml.etree.ElementTree.fromstring(drawn)
        words = [element.text for element in tree.iter() if element.tag.endswith("text")]
        self.assertEqual([words.count(word) for word in ("One & all", "Other", "Q4_0", "Q8_0", "2.64\u00d7")], [1, 1, 2, 1, 3])

    def test_runs_are_joined_with_their_own_limits(self):
        run = lambda machine, format: {"machine": machine, "prompt": 8, "count": 8, "limits": [{"threads": 1}], "kernels": [format],
                                       "files": [{"format": format, "limits": 0}], "busy_before": 0.0, "busy_meanwhile": 0.1}
        both = peers.joined([run("a", "q4_0"), run("a", "q8_0")])
        self.assertEqual([(file["format"], file["limits"]) for file in both["files"]], [("q4_0", 0), ("q8_0", 1)])
        self.assertEqual((len(both["limits"]), both["kernels"]), (2, ["q4_0", "q8_0"]))
        self.assertRaises(SystemExit, peers.joined, [run("a", "q4_0"), run("b", "q8_0")])

    def test_the_better_form_of_a_kernel_counts(self):
        row = {"rows": 512, "bytes_per_second": 1e9, "of_memory": 0.1}
        plain, interleaved = ({"format": format, "of_peak": part} | row for format, part in [("q4_0", 0.6), ("q4_0x16", 0.7)])
        self.assertEqual(quietly(peers.judge_kernels, {"kernels": [plain]})[0], 1)
        self.assertEqual(quietly(peers.judge_kernels, {"kernels": [plain, interleaved]})[0], 0)

    def test_every_model_has_targets(self):
        for family, format, _ in targets.PUBLISHED:
            self.assertIsNotNone(targets.least(family, format, "tg")[0])

    def test_the_plot_is_drawn(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "peers.svg"
            quietly(peers.plot, self.run_of(27.0, 20.0), path)
            texts = [element.text for element in xml.etree.ElementTree.parse(path).iter() if element.text]
        self.assertIn("1.35\u00d7", texts)


class CompareBuilds(unittest.TestCase):
    OLD = [100.0, 101.0, 99.0, 100.0, 102.0, 98.0, 100.0, 101.0, 99.0, 100.0]

    def run_of(self, factor, format="q4_0", unit="tokens/s", skipped=()):
        figure = {"family": "1b", "format": format, "isa": "avx2", "threads": 2, "test": "tg64", "unit": unit}
        figure |= {"old": self.OLD, "new": [factor * value for value in self.OLD]}
        build = {"name": "main", "binary": "silicide", "version": "silicide 0.1.0", "sha256": "0123456789ab"}
        run = {"machine": "m", "when": "w", "features": ["avx2"], "pairs": 10, "busy_before": 0.0,
               "busy_meanwhile": 0.2, "load": [0.1, 2.0]}
        return run | {"builds": {"old": build, "new": build}, "figures": [figure], "skipped": list(skipped)}

    def refused(self, *words):
        """What `ab.py` says when it refuses its arguments."""
        said = io.StringIO()
        with self.assertRaises(SystemExit) as ended, contextlib.redirect_stderr(said):
            ab.main(list(words))
        self.assertEqual(ended.exception.code, 2)
        return said.getvalue()

    def test_the_interval_is_two_order_statistics_with_their_coverage(self):
        self.assertEqual(ab.interval([5, 3, 1, 9, 7, 2, 8, 4, 10, 6]), (2, 9, 1 - 22 / 1024))
        self.assertEqual(ab.interval(range(1, 21))[:2], (6, 15))
        self.assertEqual(ab.interval([3, 1, 2, 4, 5, 6]), (1, 6, 1 - 2 / 64))
        # Five values can't have 95 %: all of them, with the coverage that this has.
        self.assertEqual(ab.interval([3, 1, 2, 5, 4]), (1, 5, 1 - 2 / 32))
        self.assertEqual(ab.interval([1.5]), (1.5, 1.5, 0))

    def test_a_ratio_below_one_is_slower_for_speeds_and_for_times(self):
        self.assertAlmostEqual(ab.judge(self.run_of(0.5))[0]["ratio"], 0.5)
        self.assertAlmostEqual(ab.judge(self.run_of(2.0, unit="ms"))[0]["ratio"], 0.5)

    def test_ratios_are_of_pairs_so_that_drift_cancels(self):
        run = self.run_of(1.0)
        run["figures"][0] |= {"old": [100.0 + 10 * i for i in range(10)], "new": [99.0 + 9.9 * i for i in range(10)]}
        row = ab.judge(run)[0]
        self.assertAlmostEqual(row["low"], 0.99)
        self.assertAlmostEqual(row["high"], 0.99)

    def test_a_figure_fails_if_the_upper_end_is_below_its_bound(self):
        verdicts = lambda *run, least=None: ab.judge(self.run_of(*run), least)[0]["verdict"]
        self.assertEqual(verdicts(0.96), "FAILED")
        self.assertEqual(verdicts(0.98), "slower")
        self.assertEqual(verdicts(1.0), "same")
        self.assertEqual(verdicts(1.1), "faster")
        for format in ("f16", "bf16", "f32"):
            self.assertEqual(verdicts(0.95, format), "slower")
            self.assertEqual(verdicts(0.89, format), "FAILED")
        self.assertEqual(verdicts(0.98, least=0.99), "FAILED")
        self.assertEqual(verdicts(0.96, least=0.95), "slower")

    def test_one_slow_sample_fails_nothing_and_a_wide_interval_is_unclear(self):
        run = self.run_of(1.0)
        run["figures"][0]["new"] = [50.0, *self.OLD[1:]]
        self.assertEqual(ab.judge(run)[0]["verdict"], "same")
        run["figures"][0]["new"] = [50.0] * 8 + self.OLD[8:]
        self.assertEqual(ab.judge(run)[0]["verdict"], "unclear")

    def test_five_pairs_can_not_fail(self):
        run = self.run_of(0.5)
        for pairs, verdict in [(5, "unclear"), (6, "FAILED")]:
            run["figures"][0] |= {"old": self.OLD[:pairs], "new": [value / 2 for value in self.OLD[:pairs]]}
            self.assertEqual(ab.judge(run)[0]["verdict"], verdict)

    def test_failing_figures_are_named_and_end_with_1(self):
        skipped = {"family": "experts", "format": "q8_0", "isa": None, "threads": 1, "test": "pp512", "why": "no such format"}
        with tempfile.TemporaryDirectory() as folder:
            path, drawn = pathlib.Path(folder) / "run.json", pathlib.Path(folder) / "run.svg"
            for run, code, said in [
                (self.run_of(1.0), 0, "1 figures, 0 failed, 0 unclear, 0 skipped"),
                (self.run_of(0.9), 1, "FAILED: 1b q4_0 (avx2), 2 threads, tg64"),
                (self.run_of(1.0, skipped=[skipped | {"side": "new"}]), 1, "FAILED: experts q8_0, 1 thread, pp512"),
                (self.run_of(1.0, skipped=[skipped | {"side": "old"}]), 0, "OLD can't run it: no such format"),
                (self.run_of(1.0) | {"figures": []}, 1, "nothing was compared"),
            ]:
                path.write_text(json.dumps(run))
                ended, printed = quietly(ab.main, ["--from", str(path), "--plot", str(drawn)])
                self.assertEqual(ended, code)
                self.assertIn(said, printed)
                self.assertIn("others used 20% of it", printed)
                xml.etree.ElementTree.parse(drawn)

    def test_pairs_alternate(self):
        order, figure = [], {"test": "tg64", "unit": "tokens/s", "old": [], "new": []}
        take = lambda side: order.append(side) or [len(order)]
        said = []
        ab.sample([figure], 3, take, said.append)
        self.assertEqual(order, ["old", "new", "new", "old", "old", "new"])
        self.assertEqual((figure["old"], figure["new"]), ([1, 4, 5], [2, 3, 6]))
        self.assertEqual(said[0], "pair 1 of 3: tg64 2.000")

    def test_a_process_measures_its_figures_in_their_order(self):
        a = ab.arguments(["a", "b", "--depth", "8192"])
        calls = []

        def ours(path, threads, prompt, count, isa, depth=0, binary=None):
            calls.append((prompt, count, depth, binary))
            return {"pp": 500.0, "tg": 50.0}

        with unittest.mock.patch.multiple(engines, ours=ours, first_token=lambda *_: 0.02):
            found = [dict(zip(units, probe("file", 2, None, "program"))) for units, probe in ab.tasks(a, a.depth)]
        self.assertEqual(found, [{"tg64": 50.0, "pp512": 500.0}, {"tg64 @ d8192": 50.0}, {"ttft": 20.0}])
        self.assertEqual(calls, [(512, 64, 0, "program"), (0, 64, 8192, "program")])

    def test_a_build_without_isa_leaves_the_default_set(self):
        a = ab.arguments(["a", "b", "--isa", "avx2"])
        for help, sets in [("--isa <ISA>", ["avx2"]), ("--threads <N>", [None])]:
            with unittest.mock.patch.object(engines, "run", lambda command: help if command[0] == "b" else "--isa"):
                self.assertEqual(quietly(ab.sets, a, {"old": "b", "new": "a"})[0], sets)

    def test_instruction_sets_follow_from_features(self):
        self.assertEqual(engines.instruction_sets(engines.ISAS["avx512"] | {"sse2"}), ["avx512", "avx2"])
        self.assertEqual(engines.instruction_sets({"avx2", "fma", "f16c", "avx512f"}), ["avx2"])
        self.assertEqual(engines.instruction_sets(set()), [])

    def test_bad_arguments_are_refused_and_named(self):
        with tempfile.TemporaryDirectory() as folder:
            missing, plain = pathlib.Path(folder) / "no-such-build", pathlib.Path(folder) / "plain"
            plain.write_text("")
            self.assertIn(f"{missing} is neither a file nor a revision", self.refused(str(missing), str(missing)))
            self.assertIn(f"{plain} can't be executed", self.refused(str(plain), str(plain)))
            self.assertIn(str(missing), self.refused("--from", str(missing)))
        self.assertIn("give OLD and NEW, or --from FILE", self.refused("one"))
        self.assertIn("give OLD and NEW, or --from FILE", self.refused("one", "two", "--from", "run.json"))
        self.assertIn("no model 7b; known are smollm2", self.refused("a", "b", "--models", "7b"))
        self.assertIn("no test load; known are tg, pp, ttft", self.refused("a", "b", "--tests", "load"))
        self.assertIn("9 pairs are too few", self.refused("a", "b", "-r", "9"))
        self.assertIn("argument -t", self.refused("a", "b", "-t", "0"))
        self.assertIn("take numbers above 0", self.refused("a", "b", "--least", "0"))
        self.assertIn("has the format q6_k", self.refused("a", "b", "--models", "experts", "--formats", "q6_k"))

    def test_options_choose_figures(self):
        self.assertEqual(ab.arguments(["a", "b", "--few", "-r", "2"]).pairs, 2)
        a = ab.arguments(["a", "b"])
        self.assertEqual((len(a.chosen), a.t, a.pairs), (15, [1, 2], 10))
        a = ab.arguments(["a", "b", "--quick"])
        self.assertEqual((a.chosen, a.t), ([("smollm2", "q4_0"), ("1b", "q4_0"), ("experts", "q4_0")], [2]))
        a = ab.arguments(["a", "b", "--quick", "--formats", "q6_k,bf16", "-t", "1", "--models", "1b,experts"])
        self.assertEqual((a.chosen, a.t), ([("1b", "q6_k"), ("1b", "bf16"), ("experts", "bf16")], [1]))

    def test_one_program_may_be_both_builds(self):
        with tempfile.TemporaryDirectory() as folder:
            program = pathlib.Path(folder) / "silicide"
            program.write_text("#!/bin/sh\necho silicide 0.1.0\n")
            program.chmod(0o755)
            old, new = builds.resolve(str(program)), builds.resolve(str(program))
        self.assertEqual(old, new)
        self.assertIn("silicide 0.1.0, sha256 ", builds.title(old))
        run = self.run_of(1.0)
        self.assertIn("the same program twice: an A/A test", quietly(ab.report, run, ab.judge(run))[1])


class Neighbours(unittest.TestCase):
    def test_neighbours_end(self):
        with self.assertRaises(KeyboardInterrupt), neighbours.neighbours(["pinned", "free"]):
            with open(f"/proc/self/task/{neighbours.os.getpid()}/children") as children:
                busy = children.read().split()
            self.assertEqual(len(busy), 2)
            raise KeyboardInterrupt
        self.assertFalse([child for child in busy if pathlib.Path(f"/proc/{child}").exists()])

    def test_little_kept_is_missed(self):
        speeds = {name: {"alone": 100.0, "one pinned": 50.0, "three": 40.0} for name in engines.ENGINES}
        run = {"machine": "m", "when": "w", "threads": 2, "count": 8, "rounds": 1, "busy_before": 0, "models": {"a": [speeds]}}
        self.assertEqual(quietly(neighbours.judge, run, {"one pinned": 0.55, "three": 0.3})[0], 1)


class Drawing(unittest.TestCase):
    def test_axes_hold_all_values(self):
        axis = drawing.Axis([0, 1, 3, 1000], (10.0, 110.0), True)
        places = [axis.place(value) for value in (0, 1, 3, 1000)]
        self.assertEqual((places[0], places[-1]), (10.0, 110.0))
        self.assertEqual(places, sorted(places))
        self.assertEqual(drawing.steps(0.9), [0, 0.2, 0.4, 0.6000000000000001, 0.8, 1.0])

    def test_intervals_are_svg_and_alarms_are_red(self):
        rows = [drawing.Interval("1b", "q4_0", 0.9, 0.88, 0.92, 0.97, True), drawing.Interval("1b", "q8_0", 1.0, 0.99, 1.01, 0.97)]
        root = xml.etree.ElementTree.fromstring(drawing.intervals("a < b", rows, ["a note"]))
        dots = [element for element in root if element.tag.endswith("circle")]
        self.assertEqual([dot.get("fill") for dot in dots], [drawing.ALARM, drawing.COLORS[0]])
        self.assertLess(float(dots[0].get("cx")), float(dots[1].get("cx")))

    def test_curves_are_svg(self):
        panel = drawing.Curves("a < b", "rows", "GOP/s", {"q4_0": [[1, 2.0], [4, 8.0]]}, alarms=[[4, 8.0]])
        root = xml.etree.ElementTree.fromstring(drawing.curves([panel], ["a note"]))
        self.assertEqual(sum(element.tag.endswith("circle") for element in root), 3)


if __name__ == "__main__":
    unittest.main()
