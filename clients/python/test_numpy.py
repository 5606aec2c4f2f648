"""Tests of tokitai.check that need numpy: python3 -m unittest test_numpy"""

from __future__ import annotations

import unittest

import numpy
from tokitai import operands


class Views(unittest.TestCase):
    def test_views_of_inputs(self) -> None:
        library, x = operands.NumPy(), numpy.ones((2, 3), numpy.float32)
        self.assertTrue(library.shares(x.reshape(3, 2), x))
        self.assertTrue(library.shares(x[:, 1:], x))
        self.assertFalse(library.shares(x + 0, x))


if __name__ == "__main__":
    unittest.main()
