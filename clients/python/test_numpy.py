"""Tests of tokitai.check that need numpy: python3 -m unittest test_numpy"""

from __future__ import annotations

import unittest

import numpy
import tokitai
from tokitai import operands


class Views(unittest.TestCase):
    def test_views_of_inputs(self) -> None:
        library, x = operands.NumPy(), numpy.ones((2, 3), numpy.float32)
        self.assertTrue(library.shares(x.reshape(3, 2), x))
        self.assertTrue(library.shares(x[:, 1:], x))
        self.assertFalse(library.shares(x + 0, x))


class Wide(unittest.TestCase):
    def test_int64(self) -> None:
        """An output in i64 may have numbers that no int32 holds."""

        def product(a: numpy.ndarray, b: numpy.ndarray) -> numpy.ndarray:
            return (a.astype(object) @ b.astype(object) % 3**39).astype(numpy.int64)

        report = tokitai.check(product, "gemm.zpk", case="wide-64-summed/M=5,K=37,N=7", seed=1)
        self.assertEqual(report.verdict, "accepted", report)


if __name__ == "__main__":
    unittest.main()
