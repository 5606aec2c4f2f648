"""Multiplies matrices of i8 with torch._int_mm.

Reads "rows cols depth" on a line, then A (rows,depth) and B (cols,depth), until the input ends, and
writes A·Bᵀ for each. The first line of the output names the library.
"""
import ctypes
import sys

import torch

stdin, stdout = sys.stdin.buffer, sys.stdout.buffer
has = getattr(torch.cpu, "_is_vnni_supported", lambda: False)()
stdout.write(f"{torch.__version__} {'vnni' if has else 'plain'}\n".encode())
for line in stdin:
    rows, cols, depth = map(int, line.split())
    a, b = (torch.frombuffer(bytearray(stdin.read(n * depth)), dtype=torch.int8).view(n, depth) for n in (rows, cols))
    c = torch._int_mm(a, b.t()).contiguous()
    stdout.write(ctypes.string_at(c.data_ptr(), 4 * rows * cols))
