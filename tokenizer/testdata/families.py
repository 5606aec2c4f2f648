"""Trains small tokenizers in the form of each family, and writes what tokenizers makes of some texts.

python families.py writes NAME.json for each family, answers.json, and words.json: how the regular
expressions divide the texts.
"""
import json
import os

from tokenizers import AddedToken, Regex, Tokenizer, __version__, decoders, models, normalizers, pre_tokenizers, processors, trainers

TEXT = """The tokenizer reads a text, and the text is read again and again; it's what they've read, isn't it? I'll say we're done.
Numbers such as 12345, 678 and 3.14159 are divided. HelloWorld, HTTPServer, camelCase and snake_case are names.
Ein Tokenizer liest einen Text, größer als der andere. Un texte déjà lu. Zażółć gęślą jaźń. Съешь же ещё этих мягких французских булок.
敏捷的棕色狐狸跳过了懒狗。いろはにほへと ちりぬるを。 다람쥐 헌 쳇바퀴에 타고파. नमस्ते दुनिया। العربية لغة
	for i := range 10 {
		fmt.Println(i)   // three spaces

	}
""".splitlines(keepends=True) * 3

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
REST = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
LLAMA3 = CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}" + REST
QWEN = CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}" + REST
QWEN35 = CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}" + REST.replace(r"\p{L}", r"\p{L}\p{M}")
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
HEAD = r"[^\r\n\p{L}\p{N}]?"
TEKKEN = HEAD + UPPER + "*" + LOWER + "+|" + HEAD + UPPER + "+" + LOWER + r"*|\p{N}" + REST.replace(r"[\r\n]*", r"[\r\n/]*")
LLAMA4 = HEAD + UPPER + "*" + LOWER + "+" + CONTRACTIONS + "?|" + HEAD + UPPER + "+" + LOWER + "*" + CONTRACTIONS + r"?|\p{N}{1,3}" + REST.replace(r"[\r\n]*", r"[\r\n/]*")

SPLIT = lambda pattern: pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
REPLACE = normalizers.Replace(" ", "▁")
SPACES = decoders.Replace("▁", " ")
STRIPPED = decoders.Sequence([SPACES, decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
BYTES = ["<0x%02X>" % b for b in range(256)]

# name: normalizer, pre-tokenizer, decoder, special tokens, other added tokens, tokens before a text
FAMILIES = {
    "gpt2": (None, pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel(), ["<|endoftext|>"], [], None),
    "llama3": (None, SPLIT(LLAMA3), decoders.ByteLevel(), ["<|begin_of_text|>", "<|eot_id|>"], [], "<|begin_of_text|>"),
    "llama4": (None, SPLIT(LLAMA4), decoders.ByteLevel(), ["<|begin_of_text|>"], [], "<|begin_of_text|>"),
    "qwen3": (normalizers.NFC(), SPLIT(QWEN), decoders.ByteLevel(), ["<|endoftext|>", "<|im_start|>", "<|im_end|>"], [AddedToken("<think>", normalized=False), AddedToken("</think>", normalized=False)], None),
    "qwen35": (normalizers.NFC(), SPLIT(QWEN35), decoders.ByteLevel(), ["<|endoftext|>"], [], None),
    "tekken": (None, SPLIT(TEKKEN), decoders.ByteLevel(), ["<s>", "</s>"], [], "<s>"),
    "llama2": (normalizers.Sequence([normalizers.Prepend("▁"), REPLACE]), None, STRIPPED, ["<unk>", "<s>", "</s>"], [], "<s>"),
    "mistral": (None, pre_tokenizers.Metaspace("▁", prepend_scheme="first", split=False), STRIPPED, ["<unk>", "<s>", "</s>", "[INST]", "[/INST]"], [], "<s>"),
    "gemma": (REPLACE, pre_tokenizers.Split(" ", "merged_with_previous"), decoders.Sequence([SPACES, decoders.ByteFallback(), decoders.Fuse()]), ["<pad>", "<eos>", "<bos>", "<unk>"],
              [AddedToken(s, normalized=False) for s in ["\n\n", "\n\n\n", "▁▁", "▁▁▁", "<start_of_turn>", "<end_of_turn>"]], "<bos>"),
    "odd": (normalizers.Sequence([normalizers.NFC(), normalizers.Prepend("▁"), REPLACE]), None, decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace("▁", prepend_scheme="always")]), ["<unk>", "<s>"],
            [AddedToken("strip", lstrip=True, rstrip=True, normalized=False), AddedToken("left", lstrip=True, normalized=False), AddedToken("right", rstrip=True), AddedToken("one", single_word=True, normalized=False),
             AddedToken("é"), AddedToken("a b"), AddedToken("  ", normalized=False)], "<s>"),
}

TEXTS = ["", " ", "  ", "a", " a", "a ", "hello world", "Hello World!", "it's they've I'LL we'Re isn'T 'ſ ''s", "1 12 123 1234 12345 ١٢٣٤ Ⅷ½", "a\nb\r\nc\r\rd\n\n\ne \n f\n ", "\t\ttab\t \t", "   three   spaces   ",
         "HelloWorld HTTPServer camelCase'S snake_case", "naïve café cafe\u0301 e\u0323\u0307 e\u0307\u0323", "\u1100\u1161\u11a8 각 \u0958 \u212b \ufb1d", "敏捷的棕色狐狸。いろはA日B", "👨‍👩‍👧‍👦🏳️‍🌈👍🏽", "नमस्ते दुनिया العربية לְ",
         "x\u00a0y\u2028z\u3000w\u0085v\u200bu", "\u0378\U000e0041\U0010ffff\x00\x7f", "a/b//c\n/d --- ...!?\n\n", "<s>x</s> <|endoftext|>a<|im_start|> <think>b</think>", "<|begin_of_text|> <|eot_id|>\n<bos><start_of_turn>",
         "  strip  left left  x right  right x stripleft", "strip   x strip\n\ny", " \n   f\n\t  g", "one one. aone one1 oneé", "éa b é a  b", "[INST] hi [/INST]", "<0x41><unk>▁ ▁▁", "\U00016d40\U000105c0\u1c89\u0897 new in Unicode 16", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "'", "''", "a'", "é'sx", "\u0301", "\u0301\u0301a", "ǅǅa ʰA"]


def make(name):
    normalizer, splitter, decoder, special, added, before = FAMILIES[name]
    is_byte_level = name in ("gpt2", "llama3", "llama4", "qwen3", "qwen35", "tekken")
    t = Tokenizer(models.BPE(ignore_merges=name == "llama3") if is_byte_level else models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    if normalizer:
        t.normalizer = normalizer
    if splitter:
        t.pre_tokenizer = splitter
    t.decoder = decoder
    if is_byte_level:
        t.train_from_iterator(TEXT, trainers.BpeTrainer(vocab_size=330, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    else:  # words of SentencePiece begin with a space
        trained = Tokenizer(models.BPE())
        trained.normalizer, trained.pre_tokenizer = REPLACE, pre_tokenizers.Split("▁", "merged_with_next")
        trained.train_from_iterator(TEXT, trainers.BpeTrainer(vocab_size=160, limit_alphabet=90, show_progress=False))
        model = json.loads(trained.to_str())["model"]
        vocab = {}
        for token in special + BYTES + list(model["vocab"]):
            vocab.setdefault(token, len(vocab))
        t.model = models.BPE(vocab=vocab, merges=[tuple(m) for m in model["merges"]], unk_token="<unk>", fuse_unk=True, byte_fallback=True)
    t.add_special_tokens([AddedToken(s, special=True, normalized=False) for s in special])
    t.add_tokens(added)
    if before:
        t.post_processor = processors.TemplateProcessing(single=before + " $A", pair=before + " $A $B:1", special_tokens=[(before, t.token_to_id(before))])
    elif is_byte_level:
        t.post_processor = processors.ByteLevel(trim_offsets=False)
    return t


if __name__ == "__main__":
    answers = {}
    for name in FAMILIES:
        t = make(name)
        t.save(name + ".json", pretty=False)
        plain = Tokenizer.from_file(name + ".json")
        plain.encode_special_tokens = True
        rows = []
        for text in TEXTS:
            ids = t.encode(text).ids
            no_special, as_text = t.encode(text, add_special_tokens=False).ids, plain.encode(text, add_special_tokens=False).ids
            decoded, skipped = t.decode(ids, skip_special_tokens=False), t.decode(ids)
            row = {"text": text, "ids": ids}  # what is missing is as what is before it
            row.update({} if no_special == ids else {"no_special": no_special})
            row.update({} if as_text == no_special else {"special_as_text": as_text})
            row.update({} if decoded == text else {"decoded": decoded})
            row.update({} if skipped == decoded else {"skipped": skipped})
            rows.append(row)
        answers[name] = rows
    with open("answers.json", "w") as f:
        f.write('{"tokenizers": "%s",\n' % __version__)
        f.write(",\n".join('"%s": [\n%s]' % (name, ",\n".join(json.dumps(r, separators=(",", ":")) for r in rows)) for name, rows in answers.items()))
        f.write("}\n")
    with open("words.json", "w") as f:
        rows = {}
        for pattern in (GPT2, LLAMA3, LLAMA4, QWEN, QWEN35, TEKKEN):
            split = pre_tokenizers.Split(Regex(pattern), "isolated")
            rows[pattern] = [[word for word, _ in split.pre_tokenize_str(text)] for text in TEXTS]
        f.write("{%s}\n" % ",\n".join("%s: %s" % (json.dumps(p), json.dumps(words, separators=(",", ":"))) for p, words in rows.items()))
