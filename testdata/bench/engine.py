#!/usr/bin/env python3
"""Measures this engine beside llama.cpp on the same files, and prints the ratios.

    engine.py PEERS HEARTH MODEL.gguf... [--rounds 5] [--threads 2] [--decode 128] [--work prefill,decode,batch,serve]

PEERS/bin has llama-bench, llama-batched-bench, llama-server and loadgen (any build of them will do; say which). The two take
turns in every round, so that what else the machine does hits both; the figures are medians over the rounds, each with its
least and most, and the ratio is ours by theirs of the same round, its median. Work:
    prefill   512 tokens, tokens a second
    decode    one sequence from an empty cache, tokens a second
    batch     8 and 32 sequences of 128 tokens each, tokens a second
    serve     8 and 32 streaming chat clients, 128 tokens in and out: output tokens a second, TTFT at the 95th percentile
Loopback only; ends by itself.
"""
import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import time
import urllib.request

from served import Server


def run(cmd):
    p = subprocess.run(cmd, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=3600)
    if p.returncode:
        sys.exit(f"{os.path.basename(cmd[0])}: status {p.returncode}\n{p.stderr[-2000:]}")
    return p.stdout


def lines(text):
    return [json.loads(l) for l in text.splitlines() if l.startswith("{")]


class Ours:
    name = "hearth"

    def __init__(self, a):
        self.a = a

    def bench(self, model, *args):
        return json.loads(run([self.a.hearth, "bench", "model", "--json", "--quiet", "--repeat", "1", "--threads", str(self.a.threads), *args, model]))

    def prefill(self, model):
        return {"prefill 512": self.bench(model, "--prefill", "512", "--decode", "1", "--batch", "1")["prefill_tok_s"][0]}

    def decode(self, model):
        return {"decode 1": self.bench(model, "--prefill", "1", "--decode", str(self.a.decode), "--batch", "1")["decode_tok_s"]["1"][0]}

    def batch(self, model):
        r = self.bench(model, "--prefill", "1", "--depth", "128", "--decode", str(self.a.decode), "--batch", "8,32")["decode_tok_s"]
        return {"decode 8": r["8"][0], "decode 32": r["32"][0]}

    def serve(self, model, clients):
        with Server(self.a, model, "context = 384") as s:
            return load(self.a, s.base + "/v1", clients, ["-api-key", s.key])


class Theirs:
    name = "llama.cpp"

    def __init__(self, a):
        self.a = a
        self.bin = os.path.join(a.peers, "bin")

    def bench(self, model, *args):
        return json.loads(run([self.bin + "/llama-bench", "-m", model, "-t", str(self.a.threads), "-r", "1", "-o", "json", *args]))[0]["avg_ts"]

    def prefill(self, model):
        return {"prefill 512": self.bench(model, "-p", "512", "-n", "0")}

    def decode(self, model):
        return {"decode 1": self.bench(model, "-p", "0", "-n", str(self.a.decode))}

    def batch(self, model):
        t, n = str(self.a.threads), self.a.decode
        out = run([self.bin + "/llama-batched-bench", "-m", model, "-t", t, "-tb", t, "-c", str(32 * (128 + n) + 64), "-b", "2048", "-ub", "512",
                   "-npp", "128", "-ntg", str(n), "-npl", "8,32", "--output-format", "jsonl"])
        return {f"decode {r['pl']}": r["speed_tg"] for r in lines(out) if "pl" in r}

    def serve(self, model, clients):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            port = s.getsockname()[1]
        t = str(self.a.threads)
        p = subprocess.Popen([self.bin + "/llama-server", "-m", model, "--host", "127.0.0.1", "--port", str(port), "-t", t, "-tb", t,
                              "-np", str(clients), "-c", str(clients * 384)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            until = time.time() + 300
            while True:
                if p.poll() is not None or time.time() > until:
                    sys.exit("llama-server did not start")
                try:
                    urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5)
                    break
                except OSError:
                    time.sleep(0.05)
            return load(self.a, f"http://127.0.0.1:{port}/v1", clients, [])
        finally:
            p.terminate()
            p.wait(60)


def load(a, base, clients, more):
    r = json.loads(run([os.path.join(a.peers, "bin/loadgen"), "-base-url", base, "-model", "m", "-c", str(clients), "-n", str(2 * clients),
                        "-prompt-tokens", "128", "-max-tokens", "128", "-endpoint", "chat", "-warmup", "2", "-seed", str(a.seed), *more]))
    if r["errors"]:
        sys.exit(f"{base}: {r['errors']} requests failed: {r.get('error_kinds')}")
    return {f"serve {clients}, tok/s": r["output_tok_s"], f"serve {clients}, p95 TTFT ms": r["ttft_ms"]["p95"]}


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("peers")
    ap.add_argument("hearth")
    ap.add_argument("model", nargs="+")
    ap.add_argument("--rounds", type=int, default=5)
    ap.add_argument("--threads", type=int, default=os.cpu_count())
    ap.add_argument("--decode", type=int, default=128, help="steps of decode and of batches")
    ap.add_argument("--work", default="prefill,decode,batch")
    a = ap.parse_args()
    a.hearth = os.path.abspath(a.hearth)
    sides = [Ours(a), Theirs(a)]
    print("| model | work | hearth | llama.cpp | ratio (least – most) |\n| --- | --- | --: | --: | --: |", flush=True)
    for model in a.model:
        for work in a.work.split(","):
            seen = []  # by round: by side: figures
            for r in range(a.rounds):
                a.seed = 1000 + r
                turn = [None, None]
                for i in ((0, 1), (1, 0))[r % 2]:
                    turn[i] = {}
                    for clients in (8, 32) if work == "serve" else (0,):
                        turn[i].update(sides[i].serve(model, clients) if clients else getattr(sides[i], work)(model))
                seen.append(turn)
            for what in seen[0][0]:
                figures = [[t[i][what] for t in seen] for i in (0, 1)]
                ratios = sorted(x / y for x, y in zip(*figures))
                middle = [f"{statistics.median(f):.1f} ({min(f):.1f} – {max(f):.1f})" for f in figures]
                print(f"| {os.path.basename(model)} | {what} | {middle[0]} | {middle[1]} | "
                      f"**{statistics.median(ratios):.2f}** ({ratios[0]:.2f} – {ratios[-1]:.2f}) |", flush=True)


if __name__ == "__main__":
    main()
