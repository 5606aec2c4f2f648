"""Prints what tokenizers makes of random texts: python peer.py TOKENIZER COUNT SEED."""
import json
import random
import sys
import unicodedata

from tokenizers import Tokenizer

path, count, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
t, plain = Tokenizer.from_file(path), Tokenizer.from_file(path)
plain.encode_special_tokens = True
rand = random.Random(seed)
categories = {}
for c in range(0x110000):
    if not 0xD800 <= c < 0xE000:
        categories.setdefault(unicodedata.category(chr(c)), []).append(chr(c))
names = sorted(categories)
added = [token.content for token in t.get_added_tokens_decoder().values()]
SPACES = [" ", "\n", "\r\n", "\r", "\t", "\u00a0", "\u2028", "\u0085", "\u3000", "\v", "\f", "\u200b", "\u180e"]
CONTRACTIONS = ["'s", "'S", "'re", "'Ve", "'lL", "'d", "'m", "'ſ", "'", "''", "it's", "'lx"]
PARTS = ["👨‍👩‍👧", "🏳️‍🌈", "🇩🇪🇫", "e\u0301", "n\u0303\u0323", "\u1100\u1161\u11a8", "각", "\u0958", "\u0344", "\u0f73", "豈", "\U00011938", "ſ", "İ", "\u212b", "Ⅷ", "٣٤", "१", "\ufeff", "\0"]
WORDS = "The reader has read it again and again; größer déjà Zażółć 敏捷的棕色 いろは 다람쥐 नमस्ते العربية fmt.Println(i) camelCase HTTPServer 3.14159 //".split()


def anyone(names):
    return rand.choice(categories[rand.choice(names)])


def part():
    kind = rand.randrange(12)
    if kind < 3:
        return " " * rand.randrange(2) + rand.choice(WORDS)
    if kind < 5:
        return rand.choice(SPACES) * rand.choice([1, 1, 1, 2, 3, 5])
    return [lambda: rand.choice(CONTRACTIONS), lambda: rand.choice(PARTS), lambda: rand.choice(added), lambda: "".join(anyone(names) for _ in range(rand.randrange(1, 6))),
            lambda: "".join(anyone(["Lu", "Lt", "Lm", "Lo", "Ll", "Mn", "Mc", "Nd"]) for _ in range(rand.randrange(1, 8))), lambda: anyone(["Mn"]) * rand.randrange(1, 40) + anyone(["Mn"]),
            lambda: rand.choice("aAzé漢.,-_=*/ 1") * rand.randrange(1, 60)][kind - 5]()


for _ in range(count):
    text = "".join(part() for _ in range(rand.choice([0, 1, 2, 3, 4, 6, 10])))
    ids = t.encode(text).ids
    print(json.dumps({"text": text, "ids": ids, "no_special": t.encode(text, add_special_tokens=False).ids, "special_as_text": plain.encode(text, add_special_tokens=False).ids,
                      "decoded": t.decode(ids, skip_special_tokens=False), "skipped": t.decode(ids)}))
