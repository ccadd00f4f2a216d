#!/usr/bin/env python3
"""Measures served models beside vLLM's CPU build, and prints the ratios.

    vllm.py VLLM LOADGEN HEARTH FOLDER MODEL.gguf... [--threads 2] [--rounds 3]

VLLM is its program, FOLDER a Hugging Face folder in bf16 that it and this engine serve; this engine serves the MODELs
besides. All servers are up at the same time and are asked in turn, by 1, 8 and 32 streaming chat clients with 128 tokens in
and out. Loopback only; ends by itself.
"""
import argparse
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

from served import Server, row


class VLLM:
    """vllm serve, with the memory of all its processes."""

    def __init__(self, a):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            port = s.getsockname()[1]
        self.base, self.key, self.began = f"http://127.0.0.1:{port}", None, time.time()
        self.log = tempfile.NamedTemporaryFile("w+", suffix=".log")
        # A session of its own, so that its workers can be told apart and ended with it.
        self.p = subprocess.Popen([a.vllm, "serve", a.folder, "--host", "127.0.0.1", "--port", str(port), "--dtype", "bfloat16", "--max-model-len", "1024",
                                   "--served-model-name", "m"], stdout=self.log, stderr=self.log, start_new_session=True,
                                  env={**os.environ, "PATH": os.path.dirname(a.vllm) + ":" + os.environ["PATH"], "VLLM_CPU_KVCACHE_SPACE": "2",
                                       "VLLM_CPU_OMP_THREADS_BIND": "nobind", "OMP_NUM_THREADS": str(a.threads), "HF_HUB_OFFLINE": "1",
                                       "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1"})

    def __enter__(self):
        while True:
            if self.p.poll() is not None or time.time() - self.began > 900:
                sys.exit("vLLM did not start:\n" + open(self.log.name).read()[-3000:])
            try:
                urllib.request.urlopen(self.base + "/health", timeout=5)
                return self
            except OSError:
                time.sleep(0.2)

    def __exit__(self, *_):
        if self.p.poll() is None:
            os.killpg(self.p.pid, signal.SIGTERM)
            self.p.wait(60)

    def resident(self):
        kib = 0
        for p in filter(str.isdigit, os.listdir("/proc")):
            try:
                if os.getsid(int(p)) == self.p.pid:
                    kib += next(int(l.split()[1]) for l in open(f"/proc/{p}/status") if l.startswith("VmRSS"))
            except (OSError, StopIteration):
                pass
        return kib / 1024


def load(a, s, clients):
    p = subprocess.run([a.loadgen, "-base-url", s.base + "/v1", "-model", "m", "-c", str(clients), "-n", str(max(4, 2 * clients)), "-prompt-tokens", "128",
                        "-max-tokens", "128", "-endpoint", "chat", "-warmup", "2", *(["-api-key", s.key] if s.key else [])], capture_output=True, text=True)
    if p.returncode:
        sys.exit(p.stderr[-2000:])
    r = json.loads(p.stdout)
    if r["errors"]:
        sys.exit(f"{s.base}: {r['errors']} requests failed: {r.get('error_kinds')}")
    return r


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for n in ("vllm", "loadgen", "hearth", "folder"):
        ap.add_argument(n)
    ap.add_argument("model", nargs="+")
    ap.add_argument("--threads", type=int, default=os.cpu_count())
    ap.add_argument("--rounds", type=int, default=3)
    a = ap.parse_args()
    servers, ready, memory = {}, {}, {}
    got = {}
    try:
        for name, make in [("vLLM bf16", lambda: VLLM(a)), *((os.path.basename(m), lambda m=m: Server(a, m, "context = 1024")) for m in [a.folder, *a.model])]:
            s = make()
            servers[name] = s
            s.__enter__()
            ready[name] = time.time() - s.began
        for i in range(a.rounds):
            for c in (1, 8, 32):
                for name, s in servers.items():
                    r = load(a, s, c)
                    got.setdefault((c, name), []).append((r["output_tok_s"], r["ttft_ms"]["p95"]))
        memory = {name: s.resident() for name, s in servers.items()}
    finally:
        for s in servers.values():
            s.__exit__()
    row("server", "clients", "output tok/s", "÷ vLLM's (least – most)", "TTFT p95 ms", "ready after s", "resident MiB")
    row("---", *["--:"] * 6)
    for (c, name), v in got.items():
        ratio = [x[0] / y[0] for x, y in zip(v, got[c, "vLLM bf16"])]
        row(name, c, f"{statistics.median(x[0] for x in v):.1f}", f"**{statistics.median(ratio):.2f}** ({min(ratio):.2f} – {max(ratio):.2f})",
            f"{statistics.median(x[1] for x in v):.0f}", f"{ready[name]:.1f}", f"{memory[name]:.0f}")


if __name__ == "__main__":
    main()
