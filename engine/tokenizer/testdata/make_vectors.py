#!/usr/bin/env python3
"""Makes tiny.json: three vocabularies trained on the text below and the ids of
some strings, by code that is as plain and slow as can be, so that it is a check
on the Go code and not a copy of it. CC0-1.0. Usage: make_vectors.py > tiny.json"""
import json, math, unicodedata

TEXT = """A kettle that sings before the water is warm has told a lie; a kettle that
sings after it has boiled away has told a worse one. We keep ours honest: it
measures 98 or 99 degrees, it's patient, and it doesn't hurry the tea. The cups
are blue, the saucers are bluer, the bluest spoon is lost. Un café, s'il vous
plaît! Größe, naïve, señor, тёплый чай, 茶を一杯。 def brew(cups=2):
    for cup in range(cups):
        pour(cup, 250)
    return cups
"""
SPECIALS = ["<|start|>", "<|end|>", "<|pad|>"]
CASES = ["", " ", "\n", "the kettle sings", " the  kettle\n\n  sings ", "It's 1234 degrees, DON'T hurry", "bluest bluer blue",
         "café cafe\u0301 naïve Größe", "тёплый чай 茶を一杯。", "\u00a0x\u3000y\t\tz\r\n", "🫖 tea", "a\ufffdb", "<|start|>cup<|end|>\n<|end|>",
         "<|sta<|start|>rt|>", "def brew(cups=2):\n    return cups", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "<0x41> <unk> ▁tea ▁▁", "singsingsingsing" * 5]


def letter(c): return unicodedata.category(c)[0] == "L"
def number(c): return unicodedata.category(c)[0] == "N"
def space(c): return c in "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" or "\u2000" <= c <= "\u200a"


def words(s):
    """The Qwen 2 expression, one alternative after the other."""
    out, i = [], 0
    while i < len(s):
        j = None
        low = s[i:i + 3].lower()
        for c in ("'s", "'t", "'re", "'ve", "'m", "'ll", "'d"):
            if j is None and low.startswith(c):
                j = i + len(c)
        if j is None:
            k = i
            if not letter(s[k]) and not number(s[k]) and s[k] not in "\r\n":
                k += 1
            e = k
            while e < len(s) and letter(s[e]): e += 1
            if e > k: j = e
        if j is None and number(s[i]): j = i + 1
        if j is None:
            k = i + (s[i] == " ")
            e = k
            while e < len(s) and not (space(s[e]) or letter(s[e]) or number(s[e])): e += 1
            if e > k:
                while e < len(s) and s[e] in "\r\n": e += 1
                j = e
        if j is None:
            e = i
            while e < len(s) and space(s[e]): e += 1
            nl = [k for k in range(i, e) if s[k] in "\r\n"]
            if nl: j = nl[-1] + 1
            elif e == len(s) or e == i + 1: j = e
            else: j = e - 1
        out.append(s[i:j])
        i = j
    return out


def train(seqs, n):
    """Merges the commonest neighbours n times; the first seen wins a tie."""
    merges = []
    for _ in range(n):
        count = {}
        for q in seqs:
            for p in zip(q, q[1:]): count[p] = count.get(p, 0) + 1
        if not count: break
        best = max(count, key=count.get)
        if count[best] < 2: break
        merges.append(best)
        seqs = [merge(q, best) for q in seqs]
    return merges


def merge(q, pair):
    out, i = [], 0
    while i < len(q):
        if i + 1 < len(q) and (q[i], q[i + 1]) == pair:
            out.append(q[i] + q[i + 1]); i += 2
        else:
            out.append(q[i]); i += 1
    return out


def apply(q, merges):
    """Applies the best merge once, at its leftmost place, until none is left."""
    rank = {m: i for i, m in enumerate(merges)}
    while True:
        have = [(rank[p], i) for i, p in enumerate(zip(q, q[1:])) if p in rank]
        if not have: return q
        _, i = min(have)
        q = q[:i] + [q[i] + q[i + 1]] + q[i + 2:]


def cut(text, special, names=SPECIALS):
    """Splits at the specials."""
    out = [text]
    for s in (names if special else []):
        parts = []
        for t in out:
            if t in names: parts.append(t); continue
            for k, x in enumerate(t.split(s)):
                if k: parts.append(s)
                parts.append(x)
        out = parts
    return [t for t in out if t]


def added(vocab):
    return [{"id": vocab[s], "content": s, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True} for s in SPECIALS + ["<unk>"] if s in vocab]


def byte_level():
    table, n = {}, 0
    for b in range(256):
        if 33 <= b <= 126 or 161 <= b <= 172 or b >= 174: table[b] = chr(b)
        else: table[b] = chr(256 + n); n += 1
    enc = lambda w: [table[b] for b in w.encode()]
    merges = train([enc(w) for w in words(unicodedata.normalize("NFC", TEXT))], 150)
    names = sorted(table.values()) + [a + b for a, b in merges] + SPECIALS
    vocab = {s: i for i, s in enumerate(names)}
    back = {c: b for b, c in table.items()}
    pieces = [s.encode() if s in SPECIALS else bytes(back[c] for c in s) for s in names]
    def ids(text, special):
        out = []
        for t in cut(text, special):
            if special and t in SPECIALS: out.append(vocab[t]); continue
            for w in words(unicodedata.normalize("NFC", t)): out += [vocab[x] for x in apply(enc(w), merges)]
        return out
    expr = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    tok = {"added_tokens": added(vocab), "normalizer": {"type": "NFC"},
           "pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "Split", "pattern": {"Regex": expr}, "behavior": "Isolated", "invert": False}, {"type": "ByteLevel", "add_prefix_space": False, "use_regex": False}]},
           "decoder": {"type": "ByteLevel"}, "model": {"type": "BPE", "vocab": {s: i for s, i in vocab.items() if s not in SPECIALS}, "merges": [f"{a} {b}" for a, b in merges]}}
    gguf = {"model": "gpt2", "pre": "qwen2", "tokens": names, "types": [3 if s in SPECIALS else 1 for s in names], "merges": [f"{a} {b}" for a, b in merges]}
    return pack("bytes", tok, gguf, pieces, ids)


def base_names(chars):
    return ["<unk>"] + SPECIALS + ["<0x%02X>" % b for b in range(256)] + chars


def meta_pieces(names):
    out = []
    for s in names:
        if s.startswith("<0x"): out.append(bytes([int(s[3:5], 16)]))
        else: out.append(s.encode() if s in SPECIALS + ["<unk>"] else s.replace("▁", " ").encode())
    return out


def spm():
    esc = lambda t: "▁" + t.replace(" ", "▁")
    seqs = [list("▁" + w) for w in TEXT.split()]
    merges = train(seqs, 150)
    chars = sorted(set(esc(TEXT)) - set("\n"))
    names = base_names(chars) + [a + b for a, b in merges]
    vocab = {s: i for i, s in enumerate(names)}
    scores = [0.0] * len(names)
    for k, (a, b) in enumerate(merges): scores[vocab[a + b]] = -float(k)
    for k, c in enumerate(chars): scores[vocab[c]] = -float(len(merges) + k)
    def ids(text, special):
        out = []
        for t in cut(text, special, SPECIALS + ["<unk>"]):
            if special and t in SPECIALS + ["<unk>"]: out.append(vocab[t]); continue
            for x in apply(list(esc(t)), merges):
                out += [vocab[x]] if x in vocab else [vocab["<0x%02X>" % b] for b in x.encode()]
        return out
    tok = {"added_tokens": added(vocab), "normalizer": {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "▁"}, {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]},
           "pre_tokenizer": None, "decoder": {"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
           "model": {"type": "BPE", "unk_token": "<unk>", "fuse_unk": True, "byte_fallback": True, "vocab": vocab, "merges": [[a, b] for a, b in merges]}}
    gguf = {"model": "llama", "tokens": names, "scores": scores, "types": kinds(names)}
    return pack("scores", tok, gguf, meta_pieces(names), ids)


def kinds(names):
    return [2 if s == "<unk>" else 3 if s in SPECIALS else 6 if s.startswith("<0x") else 1 for s in names]


def unigram():
    esc = lambda t: "▁" + t.replace(" ", "▁") if not t.startswith((" ", "▁")) else t.replace(" ", "▁")
    seqs = [list("▁" + w) for w in TEXT.split()]
    pieces = sorted({a + b for a, b in train(seqs, 120)})
    chars = sorted(set(esc(TEXT)) - set("\n"))
    count = {p: max(1, TEXT.replace(" ", "▁").count(p)) * len(p) for p in pieces + chars}
    total = sum(count.values())
    names = ["<unk>"] + SPECIALS + chars + pieces[: len(pieces)]
    names = list(dict.fromkeys(names))
    vocab = {s: i for i, s in enumerate(names)}
    score = {p: round(math.log(c / total), 3) for p, c in count.items()}
    scores = [score.get(s, 0.0) for s in names]
    lowest = min(score.values()) - 10
    def best(t):
        """Every way to write t, by the length of what is written."""
        state = [(0.0, [])] + [None] * len(t)
        for i in range(len(t)):
            if state[i] is None: continue
            s, path = state[i]
            options = [(score[t[i:j]], [vocab[t[i:j]]], j) for j in range(i + 1, len(t) + 1) if t[i:j] in score]
            if t[i] not in score: options.append((lowest, [0], i + 1))
            for ds, p, j in options:
                if state[j] is None or s + ds > state[j][0]: state[j] = (s + ds, path + p)
        out = []
        for x in state[len(t)][1]:
            if x == 0 and out and out[-1] == 0: continue
            out.append(x)
        return out
    def ids(text, special):
        out = []
        for t in cut(text, special, SPECIALS + ["<unk>"]):
            out += [vocab[t]] if special and t in SPECIALS + ["<unk>"] else best(esc(t))
        return out
    tok = {"added_tokens": added(vocab), "pre_tokenizer": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": False},
           "decoder": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always"}, "model": {"type": "Unigram", "unk_id": 0, "vocab": [[s, x] for s, x in zip(names, scores)]}}
    gguf = {"model": "t5", "tokens": names, "scores": scores, "types": kinds(names)}
    return pack("unigram", tok, gguf, meta_pieces(names), ids)


def pack(name, tok, gguf, pieces, ids):
    cases = []
    for t in CASES:
        c = {"text": t, "ids": ids(t, True)}
        if ids(t, False) != c["ids"]: c["plain"] = ids(t, False)
        cases.append(c)
    return {"name": name, "tokenizer": tok, "gguf": gguf, "pieces_hex": [p.hex() for p in pieces], "cases": cases}


print(json.dumps([byte_level(), spm(), unigram()], ensure_ascii=False, separators=(",", ":")))
