"""Tests of the comparing programs: what they conclude from figures, and that what they draw is SVG. Nothing is measured."""
import contextlib
import io
import pathlib
import tempfile
import unittest
import unittest.mock
import xml.etree.ElementTree

import drawing
import engines
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
        run = {"machine": "m", "when": "w", "llama_cpp_python": "0", "prompt": 512, "count": 128, "rounds": 1, "busy_before": 0, "busy_meanwhile": 0}
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
        self.assertEqual(peers.label({"family": "1b", "format": "q4_0", "isa": "avx2"}), "1b q4_0 (avx2)")
        self.assertEqual(peers.label({"family": "1b", "format": "q4_0", "isa": None}), "1b q4_0")
        commands = []
        with unittest.mock.patch.multiple(engines, program=lambda name: name, run=lambda command: commands.append(command) or '{"pp": 1, "tg": 2}'):
            engines.ours("file", 1, 8, 8, "avx2")
            engines.ours("file", 1, 8, 8)
        self.assertEqual(commands[0][commands[0].index("--isa") + 1], "avx2")
        self.assertNotIn("--isa", commands[1])

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

    def test_curves_are_svg(self):
        panel = drawing.Curves("a < b", "rows", "GOP/s", {"q4_0": [[1, 2.0], [4, 8.0]]}, alarms=[[4, 8.0]])
        root = xml.etree.ElementTree.fromstring(drawing.curves([panel], ["a note"]))
        self.assertEqual(sum(element.tag.endswith("circle") for element in root), 3)


if __name__ == "__main__":
    unittest.main()
