#!/usr/bin/env python3
"""Measures a served model as its owner would meet it, without a peer.

    lab.py HEARTH MODEL.gguf [WORK...] [--threads 2] [--minutes 30]

Work (default: table ceiling prefix start):
    table    1, 8 and 32 streaming chat clients: output tokens a second, TTFT and ITL, the queue
    ceiling  a small cache: how many clients run at once before requests wait, beside what fits by count
    prefix   time to the first token of prompts that share a long beginning, the prefix cache on and off
    start    from nothing to the first token, beside reading and repacking the file; "added": its digest is known, by model add
    soak     32 clients for --minutes: memory and the 99th percentile of ITL, a tenth of the time at a time
    gc       32 clients, with Go's garbage collector on and off, in turn: what it costs at the 99th percentile of ITL

One server on loopback at a time, over plain HTTP; ends by itself.
"""
import argparse
import json
import os
import statistics
import subprocess
import tempfile
import time

from served import Server, row

BLOCK = 16  # tokens of a block of the cache


def table(a):
    row("clients", "output tok/s", "TTFT p50 ms", "TTFT p95 ms", "ITL p50 ms", "ITL p99 ms", "running at most", "waiting, mean", "waiting, most")
    row(*["---"] + ["--:"] * 8)
    with Server(a, a.model) as s:
        s.load(1, 2, 90, 16)
        for c in (1, 8, 32):
            running, waiting = [], []

            def watch(s):
                running.append(s.gauge("vllm:num_requests_running"))
                waiting.append(s.gauge("vllm:num_requests_waiting"))

            r = s.load(c, max(8, 3 * c), 90, 128, watch=watch)
            row(c, f"{r['output_tok_s']:.1f}", f"{r['ttft_ms']['p50']:.0f}", f"{r['ttft_ms']['p95']:.0f}", f"{r['itl_ms']['p50']:.1f}", f"{r['itl_ms']['p99']:.1f}",
                int(max(running)), f"{statistics.mean(waiting):.1f}", int(max(waiting)))


def ceiling(a):
    row("clients", "cache, tokens", "tokens a request", "fit by count", "running at most", "waiting, mean")
    row(*["--:"] * 6)
    with Server(a, a.model, 'kv_memory = "64MiB"', "context = 512", "max_sequences = 256", "prefix_cache = false") as s:
        tokens = BLOCK * s.gauge("hearth_kv_blocks")
        for c in (2, 4, 8, 16, 32, 64):
            running, waiting = [], []

            def watch(s):
                running.append(s.gauge("vllm:num_requests_running"))
                waiting.append(s.gauge("vllm:num_requests_waiting"))

            r = s.load(c, 2 * c, 90, 128, watch=watch)
            each = (r["prompt_tokens"] + r["output_tokens"]) / r["requests"]
            row(c, int(tokens), f"{each:.0f}", f"{tokens / each:.1f}", int(max(running)), f"{statistics.mean(waiting):.1f}")
            if statistics.mean(waiting) > c / 2:
                return


def prefix(a):
    at = {}
    for on in ("true", "false"):
        with Server(a, a.model, "prefix_cache = " + on) as s:
            s.load(1, 2, 8, 4, "--shared-words", str(a.shared))
            r = s.load(1, 20, 8, 4, "--shared-words", str(a.shared))
            at[on] = r["ttft_ms"]["p50"]
            tokens = r["prompt_tokens"] / r["requests"]
    row("tokens a prompt", "TTFT p50, cache on", "off", "off ÷ on")
    row(*["--:"] * 4)
    row(f"{tokens:.0f}", f"{at['true']:.1f} ms", f"{at['false']:.1f} ms", f"{at['false'] / at['true']:.1f}")


def start(a):
    row("run", "model", "first token", "ready", "read", "open and repack", "first token ÷ (read + repack)")
    row("--:", "---", *["--:"] * 5)
    with tempfile.TemporaryDirectory() as d:
        subprocess.run([a.hearth, "model", "add", a.model, "--data", d + "/data", "--name", "m", "--quiet"], check=True, stdout=subprocess.DEVNULL)
        added = max((os.path.join(at, f) for at, _, files in os.walk(d + "/data") for f in files), key=os.path.getsize)
        for i in range(a.rounds):
            for how, file in (("by path", a.model), ("added", added)):
                began = time.time()
                with open(file, "rb") as f:
                    while f.read(1 << 20):
                        pass
                read = time.time() - began
                r = json.loads(subprocess.run([a.hearth, "bench", "model", "--json", "--quiet", "--repeat", "1", "--threads", str(a.threads), "--prefill", "1",
                                               "--decode", "1", "--batch", "1", file], capture_output=True, text=True, check=True).stdout)
                with Server(a, a.model, **({"data": d + "/data"} if how == "added" else {})) as s:
                    ready = time.time() - s.began
                    s.first_token()
                    first = time.time() - s.began
                row(i + 1, how, f"{first:.2f} s", f"{ready:.2f} s", f"{read:.2f} s", f"{r['load_s']:.2f} s", f"{first / (read + r['load_s']):.2f}")


def soak(a):
    row("minute", "resident MiB", "output tok/s", "ITL p50 ms", "ITL p99 ms", "TTFT p95 ms")
    row(*["--:"] * 6)
    with Server(a, a.model) as s:
        rate = s.load(32, 64, 90, 128)["output_tok_s"] / 128
        began, rows = time.time(), []
        for i in range(10):
            r = s.load(32, max(32, int(rate * a.minutes * 6)), 90, 128, "--seed", str(i + 1))
            rate = r["output_tok_s"] / 128
            rows.append((s.resident(), r["itl_ms"]["p99"]))
            row(f"{(time.time() - began) / 60:.1f}", f"{rows[-1][0]:.1f}", f"{r['output_tok_s']:.1f}", f"{r['itl_ms']['p50']:.1f}", f"{r['itl_ms']['p99']:.1f}",
                f"{r['ttft_ms']['p95']:.0f}")
    print(f"\nresident {rows[-1][0] / rows[4][0]:.3f} of what it was after half (until then the cache fills up); ITL p99 of the last fifth by the first's "
          f"{(rows[-1][1] + rows[-2][1]) / (rows[0][1] + rows[1][1]):.3f}")


def gc(a):
    at = {"on": [], "off": []}
    row("collector", "output tok/s", "ITL p50 ms", "ITL p99 ms", "TTFT p95 ms")
    row(*["---"] + ["--:"] * 4)
    for _ in range(a.rounds):
        for name in at:
            with Server(a, a.model, env={"GOGC": "off"} if name == "off" else {}) as s:
                s.load(1, 2, 90, 16)
                r = s.load(32, 64, 90, 128)
            at[name].append(r["itl_ms"]["p99"])
            row(name, f"{r['output_tok_s']:.1f}", f"{r['itl_ms']['p50']:.1f}", f"{r['itl_ms']['p99']:.1f}", f"{r['ttft_ms']['p95']:.0f}")
    print(f"\nITL p99, on ÷ off, median of the rounds: {statistics.median(x / y for x, y in zip(at['on'], at['off'])):.3f}")


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("hearth")
    ap.add_argument("model")
    ap.add_argument("work", nargs="*", default=["table", "ceiling", "prefix", "start"])
    ap.add_argument("--threads", type=int, default=os.cpu_count())
    ap.add_argument("--minutes", type=float, default=30)
    ap.add_argument("--shared", type=int, default=760, help="words that all prompts begin with")
    ap.add_argument("--rounds", type=int, default=5)
    a = ap.parse_args()
    works = {f.__name__: f for f in (table, ceiling, prefix, start, soak, gc)}
    for w in a.work:
        if w not in works:
            ap.error(f"got work {w!r}, wanted one of {', '.join(works)}")
    for w in a.work:
        print(f"\n{w}\n")
        works[w](a)


if __name__ == "__main__":
    main()
