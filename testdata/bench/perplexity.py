#!/usr/bin/env python3
"""Compares the perplexity of a text with llama.cpp's, file by file.

    perplexity.py PEERS HEARTH TEXT MODEL.gguf... [--types Q4_0,Q5_0,...] [--chunks 4] [--threads 2]

Both cut the text into chunks of 512 tokens, the first replaced by the model's beginning of a text if it has one, and score
the second half of each, as llama-perplexity does. With --types each MODEL is first quantized to these by llama-quantize.
"""
import argparse
import json
import math
import os
import re
import subprocess
import sys
import tempfile
import urllib.request

from served import Server, row

WINDOW = 512


def ask(s, path, body):
    r = urllib.request.Request(s.base + path, json.dumps(body).encode(), {"Authorization": "Bearer " + s.key, "Content-Type": "application/json"})
    return json.load(urllib.request.urlopen(r, timeout=600))


def ours(a, model, text):
    with Server(a, model, "context = 1024", "prefix_cache = false") as s:
        tokens = ask(s, "/tokenize", {"model": "m", "prompt": text})["tokens"]
        plain = ask(s, "/tokenize", {"model": "m", "prompt": text, "add_special_tokens": False})["tokens"]
        first = tokens[0] if len(tokens) > len(plain) else None
        total = count = 0
        for i in range(min(a.chunks, len(tokens) // WINDOW)):
            c = tokens[i * WINDOW:(i + 1) * WINDOW]
            if first is not None:
                c[0] = first
            p = ask(s, "/v1/completions", {"model": "m", "prompt": c, "max_tokens": 0, "echo": True, "logprobs": 0})
            l = p["choices"][0]["logprobs"]["token_logprobs"]
            if len(l) != WINDOW:
                sys.exit(f"{model}: {len(l)} scores for {WINDOW} tokens")
            total, count = total - sum(l[WINDOW // 2 + 1:]), count + WINDOW // 2 - 1
        return math.exp(total / count)


def theirs(a, model):
    p = subprocess.run([os.path.join(a.peers, "bin/llama-perplexity"), "-m", model, "-f", a.text, "-c", str(WINDOW), "--chunks", str(a.chunks), "-t", str(a.threads)],
                       stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=3600)
    m = re.search(r"Final estimate: PPL = ([0-9.]+)", p.stdout)
    if p.returncode or not m:
        sys.exit("llama-perplexity: " + p.stdout[-2000:])
    return float(m.group(1))


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for n in ("peers", "hearth", "text"):
        ap.add_argument(n)
    ap.add_argument("model", nargs="+")
    ap.add_argument("--types", default="")
    ap.add_argument("--chunks", type=int, default=4)
    ap.add_argument("--threads", type=int, default=os.cpu_count())
    a = ap.parse_args()
    text = open(a.text).read()
    row("model", "hearth", "llama.cpp", "off by")
    row("---", "--:", "--:", "--:")
    with tempfile.TemporaryDirectory() as d:
        for m in a.model:
            for t in a.types.split(","):
                f = m
                if t:
                    f = f"{d}/{os.path.basename(m)}.{t}.gguf"
                    subprocess.run([os.path.join(a.peers, "bin/llama-quantize"), "--allow-requantize", m, f, t], check=True,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                o, p = ours(a, f, text), theirs(a, f)
                row(os.path.basename(m).removesuffix(".gguf") + (f", as {t}" if t else ""), f"{o:.4f}", f"{p:.4f}", f"{100 * (o / p - 1):+.2f} %")
                if t:
                    os.remove(f)


if __name__ == "__main__":
    main()
