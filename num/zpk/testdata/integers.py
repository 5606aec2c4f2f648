"""Computes in Z/p^k with Python's integers, in other ways than package zpk does.

Reads one case per line, as JSON, and prints one answer per line: a list of decimal numbers, or
the name of an error. Inverses are Python's own, those of matrices are adjugates over the
determinant (as integers, by Bareiss), and roots are lifted by one digit at a time.
"""
import json
import sys


def is_prime(n):
    """Miller and Rabin, with bases that decide every n below 3.3e24."""
    if n < 2:
        return False
    bases = [2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41]
    if any(n % b == 0 for b in bases):
        return n in bases
    odd, twos = n - 1, 0
    while odd % 2 == 0:
        odd, twos = odd // 2, twos + 1
    for base in bases:
        x = pow(base, odd, n)
        if x not in (1, n - 1):
            for _ in range(twos - 1):
                x = x * x % n
                if x == n - 1:
                    break
            else:
                return False
    return True


def determinant(matrix):
    """The determinant as an integer, by Bareiss: every division is exact."""
    m, sign, last = [row[:] for row in matrix], 1, 1
    for c in range(len(m) - 1):
        if m[c][c] == 0:
            other = next((i for i in range(c + 1, len(m)) if m[i][c] != 0), None)
            if other is None:
                return 0
            m[c], m[other], sign = m[other], m[c], -sign
        for i in range(c + 1, len(m)):
            for j in range(c + 1, len(m)):
                m[i][j] = (m[i][j] * m[c][c] - m[i][c] * m[c][j]) // last
        last = m[c][c]
    return sign * m[-1][-1] if m else 1


def inverse_matrix(a, q):
    n, d = len(a), pow(determinant(a) % q, -1, q)
    minor = lambda r, c: [row[:c] + row[c + 1:] for i, row in enumerate(a) if i != r]
    return [(-1) ** (i + j) * determinant(minor(j, i)) * d % q for i in range(n) for j in range(n)]


def lift(f, root, p, k):
    slope = sum(i * c * root ** (i - 1) for i, c in enumerate(f) if i) % p
    value = lambda x, q: sum(c * pow(x, i, q) for i, c in enumerate(f)) % q
    if value(root, p):
        return "not-root"
    if slope == 0:
        return "not-unit"
    x = root % p
    for n in range(1, k):
        digit = -(value(x, p ** (n + 1)) // p ** n) * pow(slope, -1, p) % p
        x += digit * p ** n
    return [x]


def answer(case):
    p, k, name = int(case["p"]), case["k"], case["op"]
    if name == "ring":  # what a word and a big.Int can represent
        if not is_prime(p):
            return "not-prime"
        if k < 1:
            return "bad-exponent"
        return [p ** k] if p ** k <= 2 ** 63 or not case["word"] else "too-large"
    q = p ** k
    x = [int(v) for v in case["x"]]
    y = [int(v) for v in case.get("y") or []]
    n = case.get("n", 0)
    if name == "int":
        return [v % q for v in x]
    if name == "add":
        return [(x[0] + y[0]) % q]
    if name == "sub":
        return [(x[0] - y[0]) % q]
    if name == "mul":
        return [x[0] * y[0] % q]
    if name == "valuation":
        return [next(v for v in range(k, -1, -1) if x[0] % p ** v == 0)]
    if name in ("inverse", "div"):
        divisor = y[0] if y else x[0]
        if divisor % p == 0:
            return "not-unit"
        return [(x[0] if y else 1) * pow(divisor, -1, q) % q]
    if name == "lift":
        return lift(x, y[0], p, k)
    rows = [x[i * n:(i + 1) * n] for i in range(len(x) // n)]
    if name == "product":
        cols = len(y) // n
        return [sum(row[i] * y[i * cols + j] for i in range(n)) % q for row in rows for j in range(cols)]
    if name == "inverse-matrix":
        return inverse_matrix(rows, q) if determinant(rows) % p else "not-unit"
    raise ValueError(name)


for line in sys.stdin:
    got = answer(json.loads(line))
    print(got if isinstance(got, str) else " ".join(map(str, got)))
