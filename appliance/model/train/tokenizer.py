"""Byte-level BPE (Sennrich et al., arXiv 1508.07909) with GPT-2's word splitting, trained on the corpus.

The corpus is ASCII, for which the pattern below splits as GPT-2's does.
"""
import re
from collections import Counter

SPLIT = re.compile(r"'(?:[sdmt]|ll|ve|re)| ?[A-Za-z]+| ?[0-9]+| ?[^\sA-Za-z0-9]+|\s+(?!\S)|\s+")
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]


def byte_names():
    """GPT-2's printable name of each byte."""
    keep = list(range(33, 127)) + list(range(161, 173)) + list(range(174, 256))
    names, extra = {}, 0
    for b in range(256):
        if b in keep:
            names[b] = chr(b)
        else:
            names[b] = chr(256 + extra)
            extra += 1
    return names


class Tokenizer:
    def __init__(self, texts, size):
        names = byte_names()
        self.tokens = [names[b] for b in range(256)]
        self.merges = []
        words = Counter(w for t in texts for w in SPLIT.findall(t))
        split = {w: [names[b] for b in w.encode()] for w in words}
        while len(self.tokens) + len(SPECIAL) < size:
            pairs = Counter()
            for w, n in words.items():
                s = split[w]
                for p in zip(s, s[1:]):
                    pairs[p] += n
            if not pairs:
                break
            best = max(pairs, key=lambda p: (pairs[p], p))
            if pairs[best] < 2:
                break
            self.merges.append(best)
            self.tokens.append("".join(best))
            for w, s in split.items():
                split[w] = merge(s, best)
        while len(self.tokens) + len(SPECIAL) < size:  # keep the matrix a fixed size
            self.tokens.append(f"<unused{len(self.tokens)}>")
        self.tokens += SPECIAL
        self.ids = {t: i for i, t in enumerate(self.tokens)}
        self.rank = {m: i for i, m in enumerate(self.merges)}
        self.names = names
        self.cache = {}

    def word(self, w):
        if w not in self.cache:
            s = [self.names[b] for b in w.encode()]
            while len(s) > 1:
                p = min(zip(s, s[1:]), key=lambda p: self.rank.get(p, 1 << 30))
                if p not in self.rank:
                    break
                s = merge(s, p)
            self.cache[w] = [self.ids[t] for t in s]
        return self.cache[w]

    def encode(self, text):
        return [i for w in SPLIT.findall(text) for i in self.word(w)]


def merge(s, pair):
    out, i = [], 0
    while i < len(s):
        if i + 1 < len(s) and s[i] == pair[0] and s[i + 1] == pair[1]:
            out.append(pair[0] + pair[1])
            i += 2
        else:
            out.append(s[i])
            i += 1
    return out
