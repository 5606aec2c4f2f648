"""Tests of judge and truth of tokitai_client.py: TOKITAI=path/to/tokitai python3 -m unittest test_judge"""

from __future__ import annotations

import math
import unittest

from test_client import program, softmax
from tokitai_client import Client, Placed, Tensor, TokitaiError

ROW = [1.0, 2.0, 3.0]

SCALED = """tokitai-def 1
rowwise scaled
  in x[R,C] f32
  param a float default 2
  out y[R,C] as x
  y <- a*x
"""


class Judges(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.client = Client(program(), device="cpu")

    @classmethod
    def tearDownClass(cls) -> None:
        cls.client.close()

    def judge(self, values, **options):
        x, y = (Tensor.of("f16", v, (1, 3)) for v in (ROW, values))
        return self.client.judge("softmax.forward", x=x, outputs={"y": y}, **options)

    def encloses(self, ends, values, error=0.0) -> None:
        """Values with an error lie between the ends, which are closer than numbers of f32 are there."""
        self.assertEqual((len(ends.lo), len(ends.hi)), (len(values), len(values)))
        for lo, hi, value in zip(ends.lo, ends.hi, values):
            self.assertTrue(lo <= value + error and value - error <= hi, (lo, hi, value))
            self.assertLess(hi - lo, math.ldexp(1, math.frexp(value)[1] - 24))

    def test_right_and_wrong(self) -> None:
        right = self.judge(softmax(ROW))
        self.assertEqual((right["verdict"], right["promise"], right["elements"], right["level"]), ("accepted", "stable", 3, "call"))
        wrong = self.judge([0.09, 0.245, 0.7])
        self.assertEqual((wrong["verdict"], wrong["failure"]["place"][:3]), ("rejected", "y[0"))
        self.assertEqual(self.judge(softmax(ROW), promise="bits", waive=["softmax.forward.C4"])["contract"], "bits")
        declared = self.judge(softmax(ROW), profile="torch", declare="exp=2ulp")
        self.assertEqual((declared["profile"], declared["declared"].split()[0]), ("torch", "profile=torch"))

    def test_before_and_after(self) -> None:
        one = {"A": Tensor.of("f32", [3, 4], (1, 2)), "B": Tensor.of("f32", [5, 6], (2, 1)), "C": Tensor.of("f32", [100], (1, 1))}
        for after, verdict in ((139, "accepted"), (39, "rejected")):
            report = self.client.judge("gemm.forward.accumulate", outputs={"C": Tensor.of("f32", [after], (1, 1))}, **one)
            self.assertEqual(report["verdict"], verdict, after)

    def test_own_definition(self) -> None:
        scaled = self.client.define(SCALED)
        x = Tensor.of("f32", ROW, (1, 3))
        report = self.client.judge(scaled.identity, {"a": 4.0}, x=x, outputs={"y": Tensor.of("f32", [4, 8, 12], (1, 3))}, promise="bits")
        self.assertEqual((report["verdict"], report["op"]), ("accepted", "scaled"))
        ends = self.client.truth(scaled.identity, {"a": 4.0}, x=x, y=Tensor.empty("f32", (1, 3)))["y"]
        self.assertEqual(ends.shape, (1, 3))
        self.encloses(ends, [4, 8, 12])

    def test_truth(self) -> None:
        empty = Tensor.empty("f32", (1, 3))
        ends = self.client.truth("softmax.forward", x=Tensor.of("f32", ROW, (1, 3)), y=empty)["y"]
        self.encloses(ends, softmax(ROW), 2**-51)  # four roundings below 1
        none = self.client.truth("softmax.forward", x=Tensor.of("f32", [1, math.nan, 3], (1, 3)), y=empty)["y"]
        self.assertTrue(all(map(math.isnan, (*none.lo, *none.hi))))

    def test_several_outputs(self) -> None:
        x, ones, zeros = (Tensor.of("f32", v, s) for v, s in (([1, 3], (1, 2)), ([1, 1], (2,)), ([0, 0], (2,))))
        ends = self.client.truth(
            "layernorm.forward", {"eps": 0.0}, x=x, gamma=ones, beta=zeros, y=Tensor.empty("f32", (1, 2)), mean=Tensor.empty("f32", (1,)), rstd=Tensor.empty("f32", (1,))
        )
        for name, values in {"y": [-1, 1], "mean": [2], "rstd": [1]}.items():
            self.encloses(ends[name], values)
        left_out = {"y": Tensor.of("f32", [-1, 1], (1, 2)), "mean": Tensor.empty("f32", (1,)), "rstd": Tensor.empty("f32", (1,))}
        report = self.client.judge("layernorm.forward", {"eps": 0.0}, x=x, gamma=ones, beta=zeros, outputs=left_out, declare="omit=mean omit=rstd")
        self.assertEqual((report["verdict"], report["omitted"]), ("accepted", ["mean", "rstd"]))
        report = self.client.judge("layernorm.forward", {"eps": 0.0}, x=x, gamma=ones, beta=zeros, outputs=left_out)
        self.assertEqual(report["verdict"], "rejected")

    def test_wrong_questions(self) -> None:
        x, y = Tensor.of("f32", ROW, (1, 3)), Tensor.of("f32", ROW, (1, 3))
        for wanted, outputs, options in (
            ("y is missing", {}, {}),
            ("z is given as an output, want y", {"y": y, "z": y}, {}),
            ("y is list, want a Tensor", {"y": ROW}, {}),
            ("x is Placed, want a Tensor", {"y": y}, {"x": Placed("f32", (1, 3), None, 0, 3)}),
        ):
            with self.assertRaisesRegex(TypeError, wanted):
                self.client.judge("softmax.forward", **{"x": x, **options}, outputs=outputs)
        with self.assertRaisesRegex(ValueError, "C is f32 .* after the call, and was f32"):
            self.client.judge("gemm.forward.accumulate", A=x, B=x, C=Tensor.of("f32", [1], (1, 1)), outputs={"C": y})
        for wanted, options in (
            ("sure", {"promise": "sure"}),
            ("mine", {"profile": "mine"}),
            ("exp", {"declare": "exp=-1ulp"}),
            ("C999", {"waive": ["softmax.forward.C999"]}),
        ):
            with self.assertRaisesRegex(TokitaiError, wanted) as raised:
                self.judge(softmax(ROW), **options)
            self.assertEqual(raised.exception.code, 2)
        with self.assertRaises(TokitaiError):
            self.client.truth("softmax.sideways", x=x)
        self.assertEqual(self.judge(softmax(ROW))["verdict"], "accepted")


if __name__ == "__main__":
    unittest.main()
