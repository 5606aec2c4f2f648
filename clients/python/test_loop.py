"""Tests of what helps while a kernel is being written: progress, remembered failures, given arrays, and the pytest plugin:
TOKITAI=path/to/tokitai python3 -m unittest test_loop"""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tempfile
import unittest
from typing import Any, Callable, List
from unittest import mock

import tokitai
from test_check import check, softmax
from tokitai import Tensor, failures, progress

HERE = os.path.dirname(os.path.abspath(__file__))
_is_wrong = "TOKITAI_TEST_WRONG"  # in the environment: the kernel below is wrong


def wrong_where_small(x: List[List[float]]) -> List[List[float]]:
    """Is wrong in rows of one element alone, if at all."""
    y = softmax(x)
    return [[0.5] for _ in y] if os.environ.get(_is_wrong) and len(x[0]) == 1 else y


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Progress(unittest.TestCase):
    def test_function(self) -> None:
        lines: List[str] = []
        self.assertTrue(check(softmax, seed=1, case="ones/R=1,C=2", progress=lines.append).accepted)
        self.assertEqual(lines[0], "loading softmax")
        with self.assertRaises(TypeError):
            check(softmax, progress="yes")

    def test_lines(self) -> None:
        lines: List[str] = []
        with mock.patch.object(progress, "PAUSE_SECONDS", 0), progress.Progress(lines.append) as shown:
            shown.part("part 1 of 2")
            with open(shown.file, "a", encoding="ascii") as file:
                for text in ("first\nsecond\nunfin", "ished\n"):
                    file.write(text)
                    file.flush()
                    shown.look()
            shown.look()
            path = shown.file
        self.assertEqual(lines, ["part 1 of 2: second", "part 1 of 2: unfinished"])
        self.assertFalse(os.path.exists(path))

    def test_streams(self) -> None:
        def written(stream: io.StringIO, wanted: Any) -> str:
            with mock.patch.object(sys, "stderr", stream), mock.patch.dict(os.environ, {"TERM": "xterm"}), progress.Progress(wanted) as shown:
                shown.say("ten of twelve cases")
                shown.say("twelve")
            return stream.getvalue()

        on_terminal = written(Terminal(), None)
        self.assertTrue(on_terminal.endswith("\rtwelve             \r      \r"), repr(on_terminal))
        self.assertEqual(written(io.StringIO(), None), "")  # nobody looks
        self.assertEqual(written(Terminal(), False), "")
        self.assertEqual(written(io.StringIO(), True), "ten of twelve cases\n")  # and no other for a while


class Remember(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = os.path.join(folder.name, "failures")

    def environment(self, **more: str) -> Any:
        return mock.patch.dict(os.environ, {failures.FOLDER: self.folder, **more})

    def files(self) -> List[str]:
        return sorted(os.listdir(self.folder)) if os.path.isdir(self.folder) else []

    def test_fails_again(self) -> None:
        with self.environment(**{_is_wrong: "1"}):
            first = check(wrong_where_small)
            again = check(wrong_where_small)
            whole = check(wrong_where_small, remember=False)
            seeded = check(wrong_where_small, seed=1)
        self.assertEqual([r.verdict for r in (first, again, whole, seeded)], ["rejected"] * 4)
        self.assertEqual(again.results[0]["cases"], 1)
        self.assertEqual((again.counterexample.case, again.seed), (first.counterexample.case, first.seed))
        self.assertIn("fails again", str(again))
        for other in (first, whole, seeded):
            self.assertGreater(other.results[0]["cases"], 1)
        self.assertEqual(len(self.files()), 1)
        with self.environment():
            self.assertTrue(check(wrong_where_small).accepted)
        self.assertEqual(self.files(), [])  # a case that passes is forgotten

    def test_kept(self) -> None:
        """What is kept is bounded, belongs to one kernel and operation, and does no harm if it is damaged."""
        cases = [failures.Failed("softmax.forward", "f32", f"ones/R=1,C={c}", c) for c in range(1, 20)]

        def of(function: Callable, op: str = "softmax.forward") -> failures.Failures:
            return failures.Failures({"": function}, tokitai.forms.source_of(op))

        with self.environment():
            kept = of(softmax)
            kept.write(cases + [failures.Failed("softmax.forward", "f32", "x" * 5000, 1), failures.Failed("softmax.forward", "f32", "ones", -1)])
            self.assertEqual(kept.read(), cases[: failures.MOST_CASES])
            self.assertEqual(of(softmax).read(), kept.read())
            self.assertEqual(of(wrong_where_small).read() + of(softmax, "gelu.forward").read(), [])
            for damaged in ("", "{", "[]", '{"failures": 1}', '{"failures": [{"op": 1}]}', '{"failures": [{"op": "a", "dtype": "b", "case": ["c"], "seed": 1}]}'):
                with open(kept.file, "w", encoding="ascii") as file:
                    file.write(damaged)
                self.assertEqual(kept.read(), [], damaged)
            with mock.patch.object(failures, "MOST_FILES", 3):
                for i in range(6):
                    of(softmax, f"tokitai-def 1\nrowwise name{i}\n").write(cases)
            self.assertEqual(len(self.files()), 3)
        with mock.patch.dict(os.environ, {failures.FOLDER: "/proc/nowhere"}):
            of(softmax).write(cases)
            self.assertEqual(of(softmax).read(), [])
        with mock.patch.dict(os.environ, {failures.FOLDER: ""}):
            of(softmax).write(cases)

    def test_case_of_another_version(self) -> None:
        with self.environment():
            kept = failures.Failures({"": softmax}, tokitai.forms.source_of("softmax.forward"))
            kept.write([failures.Failed("softmax.forward", "f32", "no-such-pattern/R=1,C=1", 1)])
            self.assertTrue(check(softmax).accepted)
            self.assertEqual(kept.read(), [])


class Compare(unittest.TestCase):
    def test_given(self) -> None:
        x = Tensor.of("f32", [1, 2, 3, 4], (2, 2))
        y = tokitai.reference("softmax.forward", x)
        for report in (tokitai.compare("softmax.forward", x, y), tokitai.compare("softmax.forward", {"x": x}, {"y": y})):
            self.assertTrue(report.accepted, report)
        wrong = Tensor.of("f32", [*y.values()[:3], y.values()[3] * 1.001], (2, 2))
        report = tokitai.compare("softmax.forward", x, wrong)
        self.assertEqual((report.verdict, report.counterexample.place, report.results[0]["mismatches"]), ("rejected", "y[1,1]", 1))
        for word in ("y[1,1]", "0.001 of the value", "nothing was run", "replay  tokitai.compare"):
            self.assertIn(word, str(report))
        for word in ("case: ", "make the call again", "function"):
            self.assertNotIn(word, str(report))


TESTS = '''
import tokitai
from test_check import softmax, without_last

def report_of(function):
    return tokitai.check(function, "softmax.forward", dtypes=["f32"], level="smoke", seed=1)

def test_named():
    report = report_of(without_last)
    assert report.accepted, report

def test_unnamed():
    assert report_of(without_last)

def test_other():
    report_of(softmax)
    assert 1 == 2

@tokitai.kernel("softmax.forward", dtypes=["f32"])
def marked(x):
    return without_last(x)
'''


class Pytest(unittest.TestCase):
    def test_shown(self) -> None:
        """A failing test shows the whole report of what was not accepted, and a marked kernel is checked at level smoke with one seed."""
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "test_mine.py"), "w", encoding="ascii") as file:
                file.write(TESTS)
            environment = {**os.environ, "PYTHONPATH": HERE, failures.FOLDER: os.path.join(folder, "failures")}
            command = [sys.executable, "-m", "pytest", "-p", "tokitai.pytest_plugin", "-p", "no:cacheprovider", "-q", "test_mine.py"]
            out = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True).stdout
        parts = {name: text for name, text in zip(("named", "unnamed", "other", "set", "verdict"), out.split("\n____")[1:])}
        for name in ("named", "unnamed", "set", "verdict"):
            for word in ("smallest failing case: ", "  got  ", "  replay  ", "seed 1, run in fresh processes"):
                self.assertIn(word, parts[name], out)
        self.assertNotIn("tokitai: ", parts["other"], out)
        self.assertIn("5 failed", out)


if __name__ == "__main__":
    unittest.main()
