"""Prints the tables of characters that the tokenizers package goes by, asking it about every one.

python tables.py classes > ../classes.txt
python tables.py compositions > ../compositions.txt
"""
import sys
import unicodedata

from tokenizers import AddedToken, Regex, Tokenizer, __version__, models
from tokenizers.normalizers import NFC, NFD
from tokenizers.pre_tokenizers import Split

POINTS = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]


def members(pattern):
    """The characters that match a pattern."""
    split, found = Split(Regex(pattern), behavior="removed"), set()
    for i in range(0, len(POINTS), 4096):
        part = POINTS[i : i + 4096]
        kept = {ord(c) for piece, _ in split.pre_tokenize_str("".join(map(chr, part))) for c in piece}
        found.update(c for c in part if c not in kept)
    return found


def words():
    """The characters that may not stand beside a token that is a single word."""
    t = Tokenizer(models.BPE(vocab={"a": 0}, merges=[]))
    t.add_tokens([AddedToken("X", single_word=True, normalized=False)])
    return {c for c in POINTS if chr(c) == "X" or not t.encode("X" + chr(c)).ids}


def runs(points):
    """Sorted points as lo, hi, stride."""
    points, out, i = sorted(points), [], 0
    while i < len(points):
        stride = points[i + 1] - points[i] if i + 1 < len(points) else 1
        j = i
        while j + 1 < len(points) and points[j + 1] - points[j] == stride:
            j += 1
        if stride > 2 or stride == 2 and j - i < 3:
            j, stride = i, 1
        out.append((points[i], points[j], stride))
        i = j + 1
    return out


def show(name, items):
    """Prints lines that begin with the name and have at most 120 characters."""
    line = name
    for item in items:
        if len(line) + 1 + len(item) > 120:
            print(line)
            line = name
        line += " " + item
    print(line)


def show_points(name, points):
    show(name, ["%X" % lo if lo == hi else "%X-%X" % (lo, hi) + ("/2" if stride == 2 else "") for lo, hi, stride in runs(points)])


def classes():
    print("# Classes of characters, as tokenizers", __version__, "has them.")
    letters = members(r"\p{L}") | members(r"\p{M}")
    for name, pattern in [("upper", r"\p{Lu}|\p{Lt}"), ("lower", r"\p{Ll}"), ("letter", r"\p{Lm}|\p{Lo}"), ("mark", r"\p{M}"), ("number", r"\p{N}"), ("space", r"\s")]:
        show_points(name, members(pattern))
    show_points("word", words() - letters)


def compositions():
    print("# Combining classes and canonical decompositions, as tokenizers", __version__, "has them.")
    nfc, nfd = NFC().normalize_str, NFD().normalize_str
    ranks = {}
    for c in POINTS:
        rank = unicodedata.combining(chr(c))
        low, high = ("\u0334", "\u0345") if rank > 1 else ("\u0345", "\u0345")  # of classes 1 and 240
        if rank and nfd("a" + chr(c) + low)[-1] == chr(c) != low or rank and nfd("a" + high + chr(c))[-1] == high != chr(c):
            ranks.setdefault(rank, []).append(c)
    for rank in sorted(ranks):
        show_points("rank %d" % rank, ranks[rank])
    line, last = [], None
    for c in POINTS + [-1]:
        if c == -1 or 0xAC00 <= c <= 0xD7A3 or nfd(chr(c)) == chr(c):
            if line:
                for i in range(0, len(line), 8):
                    show("from %X" % (first + i), line[i : i + 8])
            line = []
            continue
        if not line:
            first = c
        parts = unicodedata.decomposition(chr(c)).split()
        text = "".join(chr(int(p, 16)) for p in parts)
        line.append("+".join("%X" % int(p, 16) for p in parts) + ("!" if len(parts) == 2 and nfc(text) != chr(c) else ""))


{"classes": classes, "compositions": compositions}[sys.argv[1]]()
