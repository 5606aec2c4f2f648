"""Tests of definitions from Python: TOKITAI=path/to/tokitai python3 -m unittest test_define"""

from __future__ import annotations

import array
import dataclasses
import signal
import unittest
from typing import Any, Dict, List

import tokitai
import tokitai_client as tk
from test_client import SECONDS, Served, program
from tokitai import Client, DefinitionError, ServerDied, Tensor, TokitaiError

# Every step of it is exact on the numbers below.
RMSNORM = """tokitai-def 1
rowwise rmsnorm
  in    x[R,C] f16 bf16 f32
  in    gamma[C] as x or f32
  out   y[R,C] as x
  param eps float default 0
  scale = 1/sqrt(rowsum(x*x)/C + eps)   # of the row
  y <- x*scale*gamma
"""

SUMS = """tokitai-def 1
rowwise sums
  in    x[R,C] f16 bf16 f32
  out   row[R] f32
  out   column[C] as x
  row <- rowsum(x)
  column <- colsum(x)
"""

PICK = """tokitai-def 1
rowwise pick
  in    x[R,C] f16 bf16 f32
  in    label[R] i32 in [0,C)
  out   y[R] as x
  y <- at(x, label)
"""


BEST = """tokitai-def 1
rowwise best
  in    x[R,C]
  param scale float in (0,+Inf)
  out   best[R] i32
  out   value[R] f32
  i = rowargmax(x)
  best <- i
  value <- scale * at(x, i)
"""


class Definitions(Served):
    def test_call(self) -> None:
        rmsnorm = self.client.define(RMSNORM)
        x = Tensor.of("f32", [2, -2, 2, 2, 4, 4, -4, 4], (2, 4))
        gamma = Tensor.of("f32", [1, 2, 3, 0.5])
        want = [1, -2, 3, 0.5, 1, 2, -3, 0.5]
        result = rmsnorm(x=x, gamma=gamma)
        self.assertEqual(result["y"].values(), want)
        self.assertEqual((result["y"].dtype, result["y"].shape), ("f32", (2, 4)))
        self.assertTrue(result.lowering)
        # With eps 12 the roots are 4 and sqrt(28); the first row is exact.
        self.assertEqual(rmsnorm(x=x, gamma=gamma, eps=12)["y"].values()[:4], [0.5, -1, 1.5, 0.25])
        given = Tensor.empty("f32", (2, 4))
        self.assertEqual(rmsnorm(y=given, x=x, gamma=gamma)["y"].values(), want)

    def test_form(self) -> None:
        rmsnorm = self.client.define(RMSNORM)
        self.assertEqual(rmsnorm.name, "rmsnorm")
        self.assertRegex(rmsnorm.identity, "^def:[0-9a-f]{64}$")
        self.assertEqual(
            rmsnorm.form.operands,
            [
                tk.OperandForm("x", 1, ["R", "C"], ["f16", "bf16", "f32"], ""),
                tk.OperandForm("gamma", 1, ["C"], ["f32"], "x"),
                tk.OperandForm("y", 2, ["R", "C"], [], "x"),
            ],
        )
        self.assertEqual(rmsnorm.form.params, [tk.ParamForm("eps", False, 0.0)])
        self.assertIn("rmsnorm(x, gamma, y, eps)", repr(rmsnorm))
        listed = {d.name: d for d in self.client.list()}[rmsnorm.identity]
        self.assertEqual((listed.operands, listed.params), ({"x": 1, "gamma": 1, "y": 2}, ["eps"]))

    def test_identity_is_of_the_definition(self) -> None:
        rmsnorm = self.client.define(RMSNORM)
        spaced = RMSNORM.replace("  in  ", "\tin").replace("# of the row", "\r\n# nothing\r\n").replace("x*x", "(x * x)")
        count = len(self.client.list())
        self.assertEqual(self.client.define(spaced).form, rmsnorm.form)
        self.assertEqual(self.client.define(RMSNORM.encode()).form, rmsnorm.form)
        self.assertEqual(len(self.client.list()), count)
        other = self.client.define(RMSNORM.replace("default 0", "default 1"))
        self.assertNotEqual(other.identity, rmsnorm.identity)
        self.assertEqual(other.form.params[0].default, 1.0)

    def test_shapes_of_outputs(self) -> None:
        sums = self.client.define(SUMS)
        for shape, row in {(2, 3): (2,), (1, 2, 3): (1, 2), (2, 1, 3): (2, 1)}.items():
            result = sums(x=Tensor.of("f16", [1, 2, 3, 4, 5, 6], shape))
            self.assertEqual((result["row"].dtype, result["row"].shape, result["row"].values()), ("f32", row, [6, 15]))
            self.assertEqual((result["column"].dtype, result["column"].shape), ("f16", (3,)))
            self.assertEqual(result["column"].values(), [5, 7, 9])

    def test_indices(self) -> None:
        pick = self.client.define(PICK)
        x = Tensor.of("bf16", [1, 2, 3, 4, 5, 6], (2, 3))
        self.assertEqual(pick(x=x, label=array.array("i", [2, 0]))["y"].values(), [3, 4])
        with self.assertRaises(TokitaiError) as caught:
            pick(x=x, label=array.array("i", [2, 3]))
        self.assertEqual((caught.exception.code, caught.exception.details["position"]), (2, "1"))

    def test_int32_outputs(self) -> None:
        best = self.client.define(BEST)
        result = best(x=Tensor.of("f16", [1, 5, 5, -3, -2, -9], (2, 3)), scale=0.5)
        self.assertEqual((result["best"].dtype, result["best"].values()), ("i32", [1, 1]))
        self.assertEqual(result["value"].values(), [2.5, -1])
        with self.assertRaises(TokitaiError) as caught:
            best(x=Tensor.of("f16", [1], (1, 1)), scale=0)
        self.assertEqual((caught.exception.code, caught.exception.details["operand"]), (2, "scale"))

    def test_arrays(self) -> None:
        rmsnorm = self.client.define(RMSNORM)
        flat = array.array("f", [2, -2, 2, 2, 4, 4, -4, 4])
        table = memoryview(flat).cast("B").cast("f", (2, 4))
        gamma = array.array("f", [1, 2, 3, 0.5])
        self.assertEqual(rmsnorm(x=table, gamma=gamma)["y"].values(), [1, -2, 3, 0.5, 1, 2, -3, 0.5])
        every_second = memoryview(array.array("f", [1, 9, 2, 9, 3, 9, 0.5, 9]))[::2]
        self.assertEqual(rmsnorm(x=table, gamma=every_second)["y"].values(), [1, -2, 3, 0.5, 1, 2, -3, 0.5])
        self.assertEqual(Tensor.from_buffer(array.array("i", [-1, 7])), Tensor.of("i32", [-1, 7]))
        halves = memoryview(Tensor.of("f16", [1, 2]).data).cast("B")
        with self.assertRaisesRegex(TypeError, "format 'B'"):
            Tensor.from_buffer(halves)
        with self.assertRaisesRegex(TypeError, "rmsnorm: x is array, .*format 'd'"):
            rmsnorm(x=array.array("d", [1.0]), gamma=gamma)
        with self.assertRaisesRegex(TypeError, "rmsnorm: gamma is list, want a Tensor, or an array"):
            rmsnorm(x=table, gamma=[1.0] * 4)

    def test_places(self) -> None:
        rmsnorm = self.client.define(RMSNORM)
        x, gamma = Tensor.of("f32", [2, -2, 2, 2], (1, 4)), Tensor.of("f32", [1, 2, 3, 0.5])
        for home in (self.client.arena(4096), self.client.new(64)):
            home.write(x.data)
            there = home.tensor("f32", (1, 4))
            self.assertEqual(dict(rmsnorm(x=there, gamma=gamma, y=there).outputs), {})
            self.assertEqual(Tensor("f32", (4,), home.read(16)).values(), [1, -2, 3, 0.5])

    def test_several_by_one_request(self) -> None:
        rmsnorm, sums = self.client.define(RMSNORM), self.client.define(SUMS)
        memory = self.client.new(16)
        y = memory.tensor("f32", (1, 4))
        first = rmsnorm.prepare(x=Tensor.of("f32", [2, -2, 2, 2], (1, 4)), gamma=Tensor.of("f32", [1, 2, 3, 0.5]), y=y)
        second = dataclasses.replace(sums.prepare(x=y), policy="same")
        softmax = tk.Call("softmax.forward", {"x": y, "y": Tensor.empty("f32", (1, 4))})
        results = self.client.calls([first, second, softmax])
        self.assertEqual(results[1]["row"].values(), [2.5])
        self.assertEqual(len(results[2]["y"].values()), 4)

    def test_wrong_arguments(self) -> None:
        rmsnorm = self.client.define(RMSNORM.replace(" default 0", ""))
        good: Dict[str, Any] = {"x": Tensor.of("f32", [1.0], (1, 1)), "gamma": Tensor.of("f32", [1.0]), "eps": 0}
        self.assertEqual(rmsnorm(**good)["y"].values(), [1.0])
        for change, message in (
            ({"z": 1}, "rmsnorm: z is unknown, want x, gamma, y, eps"),
            ({"x": None}, "rmsnorm: the operand x is missing"),
            ({"eps": None}, "rmsnorm: the parameter eps is missing"),
        ):
            arguments = {name: value for name, value in {**good, **change}.items() if value is not None}
            with self.assertRaisesRegex(TypeError, message):
                rmsnorm(**arguments)
        for change in ({"gamma": Tensor.of("f32", [1.0, 2.0])}, {"y": Tensor.empty("f16", (1, 1))}, {"x": Tensor.of("i32", [1], (1, 1))}):
            self.assertRefused(2, lambda: rmsnorm(**{**good, **change}))

    def test_outputs_that_nothing_determines(self) -> None:
        # What is refused here has to be given by the caller.
        form = tk.Defined("def:0", "none", [tk.OperandForm("y", 2, ["R"], ["f16", "f32"], "")], [])
        operation = self.client.define(RMSNORM)
        operation.form = form
        with self.assertRaisesRegex(TypeError, "none: no input determines the dtype of y"):
            operation.prepare()
        operation.form = form._replace(operands=[tk.OperandForm("y", 2, ["R"], ["f32"], "")])
        with self.assertRaisesRegex(TypeError, "none: no input determines the size R of y"):
            operation.prepare()

    def test_mistakes_have_a_place(self) -> None:
        lines = RMSNORM.splitlines()
        wrong: List[Any] = [
            ("", 1, 1),
            ("tokitai-def 77\n", 1, 1),
            ("\n".join(lines[:2] + ["  in x[R,C] f16", "  out y[R,C] as x", "  y <- x * (x"]), 5, 12),
            ("\n".join(lines[:7] + ["  y <- x*scales*gamma"]), 8, 10),
            (RMSNORM.encode().replace(b"# of", b"\xff"), 7, 41),
        ]
        for text, line, column in wrong:
            with self.subTest(text), self.assertRaises(DefinitionError) as caught:
                self.client.define(text)
            error = caught.exception
            self.assertEqual((error.code, error.name, error.line, error.column), (13, "definition", line, column), error)
            self.assertIn(f"line {line}, column {column}: ", str(error))
        self.assertRefused(2, self.client.define, "(" * ((1 << 20) + 1))
        self.assertEqual(self.client.define(RMSNORM).name, "rmsnorm")

    def test_a_megabyte_of_parentheses(self) -> None:
        with Client(program(), device="cpu", max_frame=1 << 21) as client:
            with self.assertRaises(DefinitionError):
                client.define("\n".join(RMSNORM.splitlines()[:6] + ["  y <- " + "(" * 1_000_000]))


class Module(unittest.TestCase):
    """The client that tokitai.define starts by itself."""

    def setUp(self) -> None:
        program()

    def tearDown(self) -> None:
        tokitai._close()

    def test_define(self) -> None:
        rmsnorm = tokitai.define(RMSNORM)
        x, gamma = Tensor.of("f32", [2, -2], (1, 2)), array.array("f", [1, 2])
        self.assertEqual(rmsnorm(x=x, gamma=gamma)["y"].values(), [1, -2])
        self.assertIs(tokitai.client(), tokitai.client())
        with self.assertRaises(DefinitionError) as caught:
            tokitai.define("tokitai-def 1\n")
        self.assertEqual(caught.exception.line, 2)

    def test_the_next_process_gets_the_definition_again(self) -> None:
        rmsnorm = tokitai.define(RMSNORM)
        x, gamma = Tensor.of("f32", [2, -2], (1, 2)), array.array("f", [1, 2])
        first = tokitai.client()
        first.process.send_signal(signal.SIGKILL)
        with self.assertRaises(ServerDied):
            first.submit([rmsnorm.prepare(x=x, gamma=gamma)]).result(SECONDS)
        for _ in range(2):
            self.assertEqual(rmsnorm(x=x, gamma=gamma)["y"].values(), [1, -2])
        self.assertIsNot(tokitai.client(), first)
        tokitai._close()
        self.assertEqual(rmsnorm(x=x, gamma=gamma)["y"].values(), [1, -2])

    def test_names(self) -> None:
        for name in tokitai.__all__:
            self.assertTrue(hasattr(tokitai, name), name)


if __name__ == "__main__":
    unittest.main()
