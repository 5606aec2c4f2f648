"""Tests of tokitai.check in plain Python, and of what it is made of: TOKITAI=path/to/tokitai python3 -m unittest test_check"""

from __future__ import annotations

import html
import itertools
import math
import os
import random
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import types
import unittest
from typing import Any, List
from unittest import mock

import tokitai
from tokitai import Tensor, arrays, autograd, calling, loading, operands, preloaded, processes, settings
from tokitai.calling import Shape, Wrong
from tokitai_client import find_program

os.environ.setdefault("TOKITAI_FAILURES", "")  # checks remember nothing

SOFTMAX = Shape("softmax.forward", ("x",), ("y",), ())
LAYERNORM = Shape("layernorm.forward", ("x", "gamma", "beta"), ("y", "mean", "rstd"), ("eps",))


def softmax(x: List[List[float]]) -> List[List[float]]:
    rows = []
    for row in x:
        largest = max(row) if not any(map(math.isnan, row)) else math.nan
        exps = [math.exp(v - largest) if not math.isnan(v - largest) else math.nan for v in row]
        rows.append([e / math.fsum(exps) for e in exps])
    return rows


def without_last(x: List[List[float]]) -> List[List[float]]:
    rows = []
    for row in x:
        exps = [math.exp(v - max(row)) for v in row]
        rows.append([e / sum(exps[:-1] or exps) for e in exps])
    return rows


def raises(x: Any) -> Any:
    raise KeyError("no such row")


def narrow(x: List[List[float]]) -> List[List[float]]:
    return [row[:-1] for row in x]


def changes(x: List[List[float]]) -> List[List[float]]:
    y = softmax(x)
    x[0][0] += 1
    return y


def sleeps(x: Any) -> Any:
    time.sleep(60)


def leaves_a_child(x: List[List[float]]) -> List[List[float]]:
    number = os.fork()
    if not number:
        time.sleep(600)
    with open(os.environ["LEFT_BEHIND"], "a", encoding="ascii") as file:
        file.write(f"{number}\n")
    return softmax(x)


def rows_of(weight: List[List[float]], index: List[int], is_bad: Any) -> List[List[float]]:
    for i in index:
        if is_bad(i):
            raise IndexError(f"{i} is out of range")
    return [weight[i] for i in index]


def embedding(index: List[int], weight: List[List[float]]) -> List[List[float]]:
    return rows_of(weight, index, lambda i: not 0 <= i < len(weight))


def embedding_by_another_error(index: List[int], weight: List[List[float]]) -> List[List[float]]:
    assert all(0 <= i < len(weight) for i in index), "no such row"
    return [weight[i] for i in index]


def embedding_of_zeros(index: List[int], weight: List[List[float]]) -> List[List[float]]:
    return [weight[i] if 0 <= i < len(weight) else [0.0] * len(weight[0]) for i in index]


def embedding_without_row_8(index: List[int], weight: List[List[float]]) -> List[List[float]]:
    return rows_of(weight, index, lambda i: not 0 <= i < 8)


def embedding_of_row_0(index: List[int], weight: List[List[float]]) -> List[List[float]]:
    return [weight[i if 0 <= i < len(weight) else 0] for i in index]


def embedding_from_the_end(index: List[int], weight: List[List[float]]) -> List[List[float]]:
    return rows_of(weight, index, lambda i: not -len(weight) <= i < len(weight))


def embedding_half_written(index: List[int], weight: List[List[float]], out: List[List[float]]) -> None:
    for q, i in enumerate(index):
        if not 0 <= i < len(weight):
            raise IndexError(f"{i} is out of range")
        out[q][:] = weight[i]


def check(function: Any, **options: Any) -> tokitai.Report:
    return tokitai.check(function, "softmax.forward", **{"level": "smoke", "dtypes": ["f32"], **options})


_first: dict = {}


def remembers(x: List[List[float]]) -> List[List[float]]:
    """Gives the result of the first call of a shape again."""
    return _first.setdefault((len(x), len(x[0])), softmax(x))


def halved(x: List[List[float]]) -> List[List[float]]:
    return [[v * 0.51 for v in row] for row in x]


HALF = """tokitai-def 1
rowwise half

  in    x[R,C] f32
  out   y[R,C] as x

  y <- x * 0.5
"""


class Replays(unittest.TestCase):
    """Every printed replay runs, in any folder, with the same verdict and the same failing element."""

    reports: List[tokitai.Report]

    @classmethod
    def setUpClass(cls) -> None:
        case = "normal/R=2,C=12"
        cls.reports = [check(without_last, seed=1, case=case), tokitai.check(halved, HALF, seed=1, case=case)]

    def again(self, report: tokitai.Report) -> None:
        printed = re.findall(r"^  replay  (.*)$", str(report), re.MULTILINE)
        self.assertEqual(len(printed), 1, report)
        example = report.counterexample
        environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "TOKITAI")}
        with tempfile.TemporaryDirectory() as folder:
            ended = subprocess.run(["sh", "-c", printed[0]], cwd=folder, env=environment, capture_output=True, text=True)
        self.assertEqual(ended.returncode, 3, printed[0] + ended.stdout + ended.stderr)
        for line in (example.message, f"  got     {example.got}", f"  want    {example.want}"):
            self.assertIn(line, ended.stdout)

    def test_command(self) -> None:
        if not shutil.which("sh"):
            self.skipTest("there is no sh")
        for report in self.reports:
            self.again(report)

    def test_call(self) -> None:
        for report in self.reports:
            again = eval(report.replay)  # as a user types it
            self.assertEqual((again.verdict, again.counterexample.got, again.counterexample.case), ("rejected", report.counterexample.got, report.counterexample.case))

    def test_state(self) -> None:
        """A callable that keeps state is said to, and nothing is said of strides."""
        report = check(remembers, seed=1)
        self.assertTrue(report.keeps_state, report)
        self.assertIn("the kernel keeps state", str(report))
        self.assertNotIn("strides", str(report))
        if shutil.which("sh"):
            self.again(report)

    def test_no_name(self) -> None:
        report = check(lambda x: halved(x), seed=1, case="normal/R=5,C=33")
        self.assertEqual((report.verdict, report.replay), ("rejected", ""))
        self.assertIn("only the calling program", str(report))

    def test_page(self) -> None:
        """The page of a check names no file that is gone."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "page.html")
            tokitai.check(halved, HALF, seed=1, case="normal/R=2,C=12", html=path)
            with open(path, encoding="utf-8") as file:
                text = html.unescape(file.read())
        for command in re.findall(r'<pre class="command"[^>]*>([^<]*)<', text):
            self.assertNotIn("--out", command)
            for name in re.findall(r"(?:^|[\s'=:])(/[^\s':]+)", command):
                self.assertTrue(os.path.exists(name), f"{name} of {command}")


class Verdicts(unittest.TestCase):
    def test_right(self) -> None:
        report = check(softmax)
        self.assertTrue(report.accepted, report)
        self.assertIsNone(report.counterexample)
        self.assertEqual(report.process, "fresh processes")

    def test_wrong(self) -> None:
        report = check(without_last)
        self.assertEqual(report.verdict, "rejected")
        example = report.counterexample
        self.assertIn("y[", example.place)
        self.assertGreater(example.error, 0)
        self.assertTrue(any(t.name == "set" and t.failed for t in report.tiers))
        for word in ("rejected", example.case, "replay", "off by"):
            self.assertIn(word, str(report))
        again = check(without_last, case=example.case, seed=example.seed)
        self.assertEqual(again.counterexample.got, example.got)

    def test_closure(self) -> None:
        power = 1.001
        report = check(lambda x: softmax([[v * power for v in row] for row in x]))
        self.assertEqual((report.verdict, report.process), ("rejected", "forked children of this process"))

    def test_faults(self) -> None:
        for function, word in ((raises, "raised KeyError: 'no such row', at "), (narrow, "gave y with shape [5, 32], want [5, 33]"), (changes, "changed its input x")):
            with self.subTest(function.__name__):
                report = check(function, case="normal/R=5,C=33", seed=1)
                self.assertFalse(report.accepted)
                self.assertIn(word, str(report))

    def test_bad_indices(self) -> None:
        """A call with an index outside of the table may be refused, if nothing was written; no other may."""
        for function, word in (
            (embedding, ""),
            (embedding_by_another_error, ""),
            (embedding_of_zeros, ""),
            (embedding_without_row_8, "it refuses a good call, in which every index is in its table: the kernel answered CALL with error 2: embedding_without_row_8 raised IndexError"),
            (embedding_of_row_0, "embedding.forward.C3"),
            (embedding_from_the_end, "embedding.forward.C3"),
            (embedding_half_written, "refused the call, but wrote out"),
        ):
            with self.subTest(function.__name__):
                one = {embedding_from_the_end: "special/Q=1,V=1,D=1", embedding_half_written: "extreme/Q=4,V=1,D=1"}.get(function, "just-outside/Q=70,V=9,D=13")
                report = tokitai.check(function, "embedding.forward", dtypes=["f32"], case=one, seed=1)
                self.assertEqual(report.verdict, "rejected" if word else "accepted", report)
                self.assertIn(word, str(report))

    def test_deadline(self) -> None:
        report = check(sleeps, case="normal/R=5,C=33", seed=1, deadline=1)
        self.assertIn("did not answer CALL within 1s", str(report))

    def test_children_left_behind(self) -> None:
        """Processes that a callable has started end with it."""
        with tempfile.TemporaryDirectory() as folder, mock.patch.dict(os.environ, LEFT_BEHIND=os.path.join(folder, "left")):
            self.assertTrue(check(leaves_a_child, case="normal/R=5,C=33", seed=1).accepted)
            with open(os.environ["LEFT_BEHIND"], encoding="ascii") as file:
                for number in map(int, file):
                    while _runs(number):  # until somebody has waited for it
                        time.sleep(0.01)

    def test_budget(self) -> None:
        report = check(softmax, budget="1ns")
        self.assertEqual((report.verdict, report.accepted), ("unfinished", False))
        self.assertIn("no fault in 0 of the ", str(report))

    def test_definition(self) -> None:
        twice = "tokitai-def 1\nrowwise twice\n  in x[R,C] f32\n  out y[R,C] as x\n  y <- x + x\n"
        report = tokitai.check(lambda x: [[2 * v for v in row] for row in x], twice, level="smoke")
        self.assertTrue(report.accepted, report)

    def test_wrong_use(self) -> None:
        for error, word, call in (
            (tokitai.CheckError, "did you mean softmax.forward", lambda: tokitai.check(softmax, "softmax.forwad")),
            (tokitai.CheckError, "unknown promise", lambda: check(softmax, promise="much")),
            (tokitai.CheckError, "needs dim, which softmax.forward does not have", lambda: check(lambda x, dim: x)),
            (ValueError, "layouts 'odd', want one of varied", lambda: check(softmax, layouts="odd")),
            (TypeError, "fn is a int, want a callable", lambda: check(3)),
        ):
            with self.subTest(word):
                with self.assertRaisesRegex(error, word):
                    call()

    def test_judge(self) -> None:
        x = Tensor.of("f32", [1, 2, 3], (1, 3))
        y = tokitai.reference("softmax.forward", x)
        self.assertTrue(tokitai.judge("softmax.forward", x, y).accepted)
        self.assertEqual(tokitai.judge("softmax.forward", {"x": x}, {"y": x}).verdict, "rejected")
        ends = tokitai.truth("softmax.forward", x=x)
        self.assertLessEqual(ends.lo[0][0], math.exp(1 - 3) / (1 + math.exp(-1) + math.exp(-2)) * (1 + 2**-50))
        self.assertLess(ends.hi[0][0] - ends.lo[0][0], 2**-40)


def _runs(number: int) -> bool:
    try:
        with open(f"/proc/{number}/stat", encoding="ascii") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


class Script(unittest.TestCase):
    """A script that checks functions of its own is loaded up to the call of check."""

    def test_redefined(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "script.py")
            with open(path, "w", encoding="utf-8") as file:
                file.write("import tokitai\ndef f(x): return 1\ntokitai.check(f, 'softmax.forward')\ndef f(x): return 2\ntokitai.check(f, 'softmax.forward')\nraise SystemExit('not reached')\n")
            for number, result in ((1, 1), (2, 2)):
                self.assertEqual(loading.load(f"{path}:f", {loading.STOP_AT: str(number)})(0), result)
            with self.assertRaisesRegex(calling.Absent, "another function"):
                loading.load(f"{path}:f", {loading.STOP_AT: "1", loading.DIGEST: '{"%s:f": "0"}' % path})
            with self.assertRaisesRegex(calling.Absent, "has no function g"):
                loading.load(f"{path}:g", {loading.STOP_AT: "1"})


    def test_prints(self) -> None:
        """A script may print as much as it likes before it calls check."""
        script = (
            "import sys, tokitai\nprint('a' * 200_000)\nprint('b' * 200_000, file=sys.stderr)\n"
            "def double(x): return [[2 * v for v in row] for row in x]\n"
            "report = tokitai.check(double, 'softmax.forward', dtypes=['f32'], case='normal/R=5,C=33', seed=1)\nprint(report.verdict, report.process)\n"
        )
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "script.py")
            with open(path, "w", encoding="utf-8") as file:
                file.write(script)
            own = os.path.dirname(os.path.abspath(tokitai.__file__))
            done = subprocess.run([sys.executable, path], env={**os.environ, "PYTHONPATH": os.path.dirname(own)}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.assertEqual(done.stdout.splitlines()[-1:], ["rejected fresh processes"], done.stderr[-1000:])

    def test_module(self) -> None:
        """A module that checks its functions when it is imported does not do so in the process that serves one of them."""
        with tempfile.TemporaryDirectory() as folder, mock.patch.object(sys, "path", [folder, *sys.path]):
            with open(os.path.join(folder, "checks_itself.py"), "w", encoding="utf-8") as file:
                file.write("import tokitai\ndef f(x): return 1\ntokitai.check(f, 'softmax.forward')\n")
            with mock.patch("tokitai.checking.run", side_effect=AssertionError("a check was run")):
                self.assertEqual(loading.load("checks_itself:f")(0), 1)

    def test_libraries(self) -> None:
        """A function's library is one that it names or imports, not one that something of an attribute's name uses."""
        names = {"numpy": types.ModuleType("numpy"), "torch": types.ModuleType("torch")}
        exec("def shape(x): return torch.f(x)\ndef f(x): return numpy.f(x.shape)\ndef g(x):\n    import torch.nn\n    return x\n", names)
        self.assertEqual([[n for n in loading.libraries_in(names[f]) if n in ("numpy", "torch")] for f in "fg"], [["numpy"], ["torch"]])


class Forks(unittest.TestCase):
    def test_not_with_a_driver(self) -> None:
        """A driver that was started does not work in a forked child."""
        self.assertTrue(processes.can_fork("torch", "cuda"))
        with mock.patch("os.readlink", return_value="/dev/nvidiactl"):
            self.assertFalse(processes.can_fork("torch", "cuda"))
            self.assertTrue(processes.can_fork("torch", "cpu"))


class Devices(unittest.TestCase):
    def test_missing(self) -> None:
        """What is missing is said before a process is started."""
        with self.assertRaisesRegex(tokitai.CheckError, "device='cuda': the callable gets nested lists on the CPU alone: leave device= out"):
            check(softmax, device="cuda", arrays="list")
        for cuda, hip, files, word in (
            (None, None, (), "torch 9.9 is built without CUDA: install a build"),
            ("13.2", None, (), "no driver of a GPU (/dev/nvidiactl does not exist): run the check on one that has"),
            ("13.2", None, ("/dev/nvidiactl",), ""),
            (None, "7.0", ("/dev/nvidiactl",), "no driver of a GPU (/dev/kfd does not exist)"),
        ):
            torch = types.SimpleNamespace(__version__="9.9", version=types.SimpleNamespace(cuda=cuda, hip=hip))
            said = operands.missing_driver(torch, files.__contains__)
            self.assertTrue(word in said and bool(word) == bool(said), said)


def eats(x: Any) -> Any:
    kept = []
    while True:
        kept.append(bytearray(1 << 24))


class Memory(unittest.TestCase):
    def test_exhausted(self) -> None:
        report = check(eats, case="normal/R=5,C=33", seed=1, memory=1 << 28)
        self.assertEqual(report.verdict, "undecided")
        self.assertIn("eats raised MemoryError", str(report))
        self.assertIn("the memory ran out: its process may allocate 0.25 GiB, or as many bytes as memory= says", str(report))


class Batches(unittest.TestCase):
    """A kernel of a batch is forked from the process that has loaded the libraries of the first one."""

    KERNEL = """
import math, os, signal, sys
from test_check import softmax
assert "TOKITAI_BATCH" not in os.environ
def forked(x):
    assert "wave" in sys.modules and "test_judge" not in sys.modules, "it is not a fork"
    return softmax(x)
def dies(x):
    os.kill(os.getpid(), signal.SIGSEGV)
"""

    def judge(self, function: str) -> str:
        command = [find_program(), "check", "softmax.forward", "--exec", f"{sys.executable} -m tokitai.kernel {self.path}:{function} --op softmax.forward", "--dtype", "f32", "--case", "normal/R=5,C=33", "--seed", "1"]
        done = subprocess.run(command, env={**os.environ, "TOKITAI_BATCH": self.folder, "PYTHONPATH": os.path.dirname(os.path.abspath(__file__))}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        return done.stdout

    def test_forked(self) -> None:
        with tempfile.TemporaryDirectory() as self.folder, socket.socket(socket.AF_UNIX) as alive:
            self.path = os.path.join(self.folder, "kernel.py")
            with open(self.path, "w", encoding="utf-8") as file:
                file.write(self.KERNEL)
            alive.bind(os.path.join(self.folder, preloaded.ALIVE))
            alive.listen()
            self.assertIn("AssertionError: it is not a fork", self.judge("forked"))
            name = subprocess.run([sys.executable, "-c", f"from tokitai import preloaded; print(preloaded._place({self.folder!r}))"], stdout=subprocess.PIPE, text=True, check=True, env={**os.environ, "PYTHONPATH": os.path.dirname(os.path.abspath(__file__))}).stdout.strip()
            with subprocess.Popen([sys.executable, "-m", "tokitai.preloaded", name, "wave"]) as process:
                connection, _ = alive.accept()
                while not os.path.exists(name):
                    time.sleep(0.01)
                try:
                    self.assertIn("1 accepted", self.judge("forked"))
                    self.assertIn("died: signal segmentation fault", self.judge("dies"))
                    self.assertIn("1 accepted", self.judge("forked"))
                finally:
                    connection.close()  # as when the batch is over
                self.assertEqual(process.wait(60), 0)


class Conventions(unittest.TestCase):
    def test_inputs(self) -> None:
        for function, shape, positional, named, written in (
            (lambda x: 0, SOFTMAX, (), ("x",), ()),
            (lambda y: 0, SOFTMAX, ("x",), (), ()),
            (lambda x, y: 0, SOFTMAX, (), ("x",), ("y",)),
            (lambda x, out=None: 0, SOFTMAX, (), ("x",), ("y",)),
            (lambda *a, **k: 0, SOFTMAX, ("x",), (), ()),
            (lambda a, b, c, eps=1: 0, LAYERNORM, ("x", "gamma", "beta"), ("eps",), ()),
            (lambda beta, x, gamma: 0, LAYERNORM, (), ("x", "gamma", "beta"), ()),
            (lambda **k: 0, LAYERNORM, (), ("x", "gamma", "beta", "eps"), ()),
        ):
            how = calling.convention(function, shape)
            self.assertEqual((how.positional, how.by_name, how.written), (positional, named, written))

    def test_applied(self) -> None:
        """apply of a torch.autograd.Function gets the parameters of forward, in their order."""

        class Kept:
            @staticmethod
            def forward(ctx: Any, x: Any, gamma: Any, beta: Any, eps: float = 1e-5, other: int = 3) -> Any:
                raise AssertionError

            @staticmethod
            def apply(*arguments: Any) -> Any:
                return arguments

        class SetUp(Kept):
            @staticmethod
            def forward(beta: Any, x: Any, gamma: Any, eps: float = 1e-5) -> Any:  # type: ignore[override]
                raise AssertionError

            @staticmethod
            def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
                raise AssertionError

        values = {"x": 1, "gamma": 2, "beta": 3, "eps": 4}
        for function, want in ((Kept, (1, 2, 3, 4, 3)), (SetUp, (3, 1, 2, 4))):
            applied = autograd._applied(function)
            how = calling.convention(applied, LAYERNORM)
            self.assertEqual(how.by_name, ("x", "gamma", "beta", "eps"))
            self.assertEqual(calling.call(applied, how, LAYERNORM, values, {}), want)

    def test_refused(self) -> None:
        for function, shape, word in (
            (lambda x, z: 0, SOFTMAX, "needs z"),
            (lambda: 0, SOFTMAX, "takes 0 arguments"),
            (lambda a, eps, b, c: 0, LAYERNORM, "eps stands among"),
            (lambda x, gamma, beta, mean: 0, LAYERNORM, "takes the output mean but not y, rstd"),
        ):
            with self.assertRaisesRegex(Wrong, word):
                calling.convention(function, shape)

    def test_outputs(self) -> None:
        how = calling.convention(lambda x, gamma, beta: 0, LAYERNORM)
        give = lambda result: calling.outputs(how, LAYERNORM, result, {}, {}, str, lambda v: isinstance(v, str), "f")
        self.assertEqual(give(("a", "b", "c")), {"y": "a", "mean": "b", "rstd": "c"})
        for result, word in ((None, "returned None"), ("a", "returned one array, want 3"), (("a",), "returned 1 values, want 3"), (7, "returned a int")):
            with self.assertRaisesRegex(Wrong, word):
                give(result)


def adamw(weight: Any, m: Any, v: Any, grad: Any, lr: float, beta1: float, beta2: float, eps: float, weight_decay: float, t: int) -> Any:
    """AdamW by what people set, in binary64."""
    step, root = lr / settings.correction(beta1, t), settings.correction(beta2, t) ** 0.5
    weights, firsts, seconds = [], [], []
    for row in zip(weight, m, v, grad):
        news = []
        for w, a, b, g in zip(*row):
            a, b = beta1 * a + (1 - beta1) * g, beta2 * b + (1 - beta2) * g * g
            down = math.sqrt(b) / root + eps if b >= 0 else math.nan
            news.append((w - (step * (a / down) + lr * weight_decay * w), a, b))
        for rows, values in zip((weights, firsts, seconds), zip(*news)):
            rows.append(list(values))
    return weights, firsts, seconds


class Settings(unittest.TestCase):
    def test_follow(self) -> None:
        """The parameters of a call follow from the settings that a callable gets, within four roundings of binary64."""

        def derived(lr: float, beta1: float, beta2: float, weight_decay: float, t: int) -> dict:
            corrections = settings.correction(beta1, t), settings.correction(beta2, t)
            return {"beta1": beta1, "beta2": beta2, "step_size": lr / corrections[0], "inverse_sqrt_bc2": 1 / math.sqrt(corrections[1]), "decay": lr * weight_decay}

        for lr, beta1, beta2, decay, t in itertools.product(
            (0, 1e-8, 1e-3, 1), (0, 0.1, 0.9, 1 - 2**-20), (0, 0.5, 0.999, 1 - 2**-22), (0, 0.01, 1), (1, 2, 10, 1000, 10**5, 2**24 + 1, 2**31 - 1)
        ):
            want = derived(lr, beta1, beta2, decay, t)
            got = settings.values_of("adamw.step", want, {})
            self.assertIsInstance(got["t"], int)
            self.assertTrue(1 <= got["t"] < 2**31, got)
            again = derived(got["lr"], beta1, beta2, got["weight_decay"], got["t"])
            for name, value in want.items():
                self.assertLessEqual(abs(again[name] - value), abs(value) * 2**-51, (name, lr, beta1, beta2, decay, t))

    def test_taken(self) -> None:
        shape = Shape("adamw.step", ("weight", "grad"), ("weight",), ("beta1", "step_size"), ("lr", "weight_decay", "t"))
        self.assertEqual(calling.convention(lambda weight, grad, lr, beta1, t: 0, shape).by_name, ("weight", "grad", "beta1", "lr", "t"))
        self.assertEqual(calling.convention(lambda weight, grad, **rest: 0, shape).by_name, ("weight", "grad", "beta1", "step_size"))
        with self.assertRaisesRegex(Wrong, "needs momentum, .* its parameters beta1, step_size, lr, weight_decay, t"):
            calling.convention(lambda weight, grad, momentum: 0, shape)

    def test_seed(self) -> None:
        """A callable may take the seed that tokitai explain lists, instead of its halves."""
        self.assertEqual(settings.values_of("sample", {"seed_low": -1, "seed_high": 3, "use": 0}, {}), {"seed": 0x3FFFFFFFF})

        def dropout(x: Any, seed: int, tensor: int, step: int, first_low: int, first_high: int, threshold: int, scale: float) -> Any:
            return [[v * scale if seed == 5 else 0 for v in row] for row in x]

        self.assertEqual(tokitai.check(dropout, "dropout.forward", dtypes=["f32"], case="keep-all/R=2,C=3", seed=1).verdict, "accepted")

    def test_listed(self) -> None:
        """A callable may take every parameter without a default that tokitai explain lists."""

        def dropout(x: Any, keep: float, seed: int, tensor: int, step: int, first: int) -> Any:
            return [[v / keep for v in row] if keep else [0.0 for v in row] for row in x]

        def gradient(index: Any, dout: Any, vocab: int) -> Any:
            if any(i not in range(vocab) for i in index):
                raise IndexError
            return [[sum(row[c] for i, row in zip(index, dout) if i == v) for c in range(len(dout[0]))] for v in range(vocab)]

        def dispatch(expert: Any, experts: int) -> Any:
            width = len(expert[0])
            order = sorted(range(len(expert) * width), key=lambda r: expert[r // width][r % width])
            counts = [sum(row.count(e) for row in expert) for e in range(experts)]
            rows = [[order[r] for r in range(t * width, (t + 1) * width)] for t in range(len(expert))]
            places = [[order.index(t * width + s) for s in range(width)] for t in range(len(expert))]
            return counts, [sum(counts[:e]) for e in range(experts + 1)], [[r // width for r in row] for row in rows], rows, places

        for function, op, dtype, case in (
            (dropout, "dropout.forward", "f32", "keep-all/R=2,C=3"),
            (gradient, "embedding.backward", "f32", "integers/Q=5,D=3,V=4"),
            (dispatch, "dispatch.forward", "i32", "uniform/T=5,S=2,E=3"),
        ):
            report = tokitai.check(function, op, dtypes=[dtype], case=case, seed=1)
            self.assertEqual(report.verdict, "accepted", report)
        params = {"threshold": -(2**31), "scale": 2.0, "seed_low": 0, "seed_high": 0, "first_low": -2, "first_high": 1}
        self.assertEqual(settings.values_of("dropout.forward", params, {}), {"keep": 0.5, "seed": 0, "first": 0x1FFFFFFFE})
        self.assertEqual(settings.values_of("dropout.forward", {**params, "threshold": 0, "scale": 0.0}, {})["keep"], 0)

    def test_judged(self) -> None:
        def late(weight: Any, m: Any, v: Any, grad: Any, lr: float, beta1: float, beta2: float, eps: float, weight_decay: float, t: int) -> Any:
            return adamw(weight, m, v, grad, lr, beta1, beta2, eps, weight_decay, t + 1)

        def without_decay(weight: Any, m: Any, v: Any, grad: Any, lr: float, beta1: float, beta2: float, eps: float, t: int) -> Any:
            return adamw(weight, m, v, grad, lr, beta1, beta2, eps, 0.01, t)

        for function, case, verdict in ((adamw, "step-10/R=5,C=33", "accepted"), (late, "step-10/R=5,C=33", "rejected"), (without_decay, "step-10/R=5,C=33", "accepted")):
            self.assertEqual(tokitai.check(function, "adamw.step", dtypes=["f32"], case=case, seed=1).verdict, verdict, function)


class Shapes(unittest.TestCase):
    def test_declared(self) -> None:
        def by_16(x: List[List[float]]) -> List[List[float]]:
            if len(x[0]) % 16:
                raise NotImplementedError("rows of other lengths")
            return softmax(x)

        refused, declared = check(by_16), check(by_16, shapes=["C % 16 == 0", "R <= 4"])
        self.assertEqual((refused.verdict, declared.verdict), ("undecided", "accepted"))
        self.assertIn("--shapes 'C % 16 == 0'", str(refused))
        self.assertIn("shapes other than C % 16 == 0 and R <= 4 were left out", str(declared))


class Blocks(unittest.TestCase):
    def block(self, dtype: str = "f32", name: str = operands.STRIDED) -> Any:
        self.memory = bytearray()

        def make(data: bytearray, place: operands.Layout) -> Any:
            self.memory = data
            return None, lambda: bytes(data)

        choice = random.Random(5)
        tensor = Tensor.of(dtype, range(6), (2, 3))
        return operands.Block("x", tensor, operands.layout(name, (2, 3), 4, choice), operands.pattern(dtype, choice), make)

    def test_guards(self) -> None:
        for name in operands.LAYOUTS:
            place = self.block(name=name).place
            self.assertEqual(place.first * 4 % operands.ALIGNMENT == 0, name in (operands.PLAIN,) or place.first % 16 == 0)
            for element, may_write, word in ((place.first - 2, True, "2 elements before"), (place.first + place.stride + 3, True, "1 elements after its end"), (place.first + 1, False, r"input x at \[0, 1\]")):
                block = self.block(name=name)
                block.inspect(False, "f")
                self.memory[element * 4] ^= 1
                with self.assertRaisesRegex(Wrong, word):
                    block.inspect(may_write, "f")
        block = self.block()
        self.memory[block.place.first * 4] ^= 1
        block.inspect(True, "f")
        self.memory[(block.place.first + 3) * 4] ^= 1
        with self.assertRaisesRegex(Wrong, "between its rows 0 and 1"):
            block.inspect(True, "f")

    def test_strides(self) -> None:
        place = operands.Layout(0, 7, 6, 5, 99)
        self.assertEqual((place.strides((2, 3, 5)), place.strides((6, 5)), place.strides((5,)), place.strides(())), ((21, 7, 1), (7, 1), (1,), ()))
        self.assertEqual(place._replace(repeated=True).strides((2, 3, 5)), (0, 7, 1))

    def test_equal_matrices_are_repeated(self) -> None:
        equal, other = Tensor.of("f32", [1, 2, 3, 4] * 3, (3, 2, 2)), Tensor.of("f32", range(12), (3, 2, 2))
        self.assertTrue(operands.is_repeated(operands.VARIED, equal))
        self.assertFalse(operands.is_repeated(operands.PLAIN, equal))
        self.assertFalse(operands.is_repeated(operands.VARIED, other))
        place = operands.layout(operands.STRIDED, (3, 2, 2), 4, random.Random(5), repeated=True)
        self.assertEqual((place.rows, place.strides((3, 2, 2))), (2, (0, place.stride, 1)))

    def test_outputs_in_the_memory_of_inputs(self) -> None:
        library, x = operands.Lists(), [[1.0, 2.0], [3.0, 4.0]]
        self.assertTrue(library.shares(x, x))
        self.assertFalse(library.shares([x[1], x[0]], x))  # rows are copied when they are stored


class Lists(unittest.TestCase):
    def test_shapes(self) -> None:
        self.assertEqual(arrays.shape_of_lists([[1, 2], [3, 4], [5, 6]]), (3, 2))
        self.assertEqual(arrays.nested([1, 2, 3, 4, 5, 6], (3, 1, 2)), [[[1, 2]], [[3, 4]], [[5, 6]]])
        with self.assertRaisesRegex(arrays.ArrayError, "different lengths"):
            arrays.shape_of_lists([[1], [2, 3]])

    def test_integers(self) -> None:
        """A definition whose operands are all integers is judged like any other."""

        def dispatch(expert: Any, counts: Any, offsets: Any, source: Any, slot: Any, place: Any) -> None:
            choices = sorted((e, t * len(row) + s) for t, row in enumerate(expert) for s, e in enumerate(row))
            for e in range(len(counts)):
                counts[e] = sum(c[0] == e for c in choices)
            offsets[:] = [sum(counts[:e]) for e in range(len(offsets))]
            for r, (_, at) in enumerate(choices):
                t, s = divmod(at, len(expert[0]))
                source[r // len(expert[0])][r % len(expert[0])], slot[r // len(expert[0])][r % len(expert[0])] = t, at
                place[t][s] = r

        report = tokitai.check(dispatch, "dispatch.forward", case="normal/T=5,S=13,E=4", seed=1)
        self.assertEqual((report.verdict, [row["dtype"] for row in report.json["results"]]), ("accepted", ["i32"]), report)


if __name__ == "__main__":
    unittest.main()
