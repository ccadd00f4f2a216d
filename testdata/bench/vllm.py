#!/usr/bin/env python3
"""Measures served models beside vLLM's CPU build, and prints the ratios.

    vllm.py VLLM LOADGEN HEARTH FOLDER MODEL.gguf... [--threads 2] [--rounds 3] [--dtypes float32,bfloat16] [--bind nobind]

VLLM is its program, FOLDER a Hugging Face folder in bf16 that it serves, once with each of the dtypes, and this engine too,
with activations = "bf16", since vLLM rounds them so; this engine serves the MODELs besides. Ratios are to the first dtype. vLLM runs as it does by default, compiled, with tcmalloc
and Intel's OpenMP preloaded where its environment's lib has them, as its documentation asks; it compiles at each start, for
minutes. All servers stay up and are asked in turn, by 1, 8 and 32 streaming chat clients with 128 tokens in and out, no prompt
twice; a vLLM that is not asked is stopped, since its processes go on spinning after their last step. Before that each must
name the capital of France. Memory is what each server's processes hold, shared pages divided, after the last round. Loopback
only; ends by itself.
"""
import argparse
import contextlib
import glob
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

from served import Server, row

class VLLM:
    """vllm serve, in a session of its own: its processes are stopped, continued and ended together."""

    def __init__(self, a, dtype):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            port = s.getsockname()[1]
        self.base, self.key = f"http://127.0.0.1:{port}", None
        self.log = tempfile.NamedTemporaryFile("w+", suffix=".log")
        program = os.path.abspath(a.vllm)
        bin = os.path.dirname(program)
        preload = [p for n in ("libtcmalloc_minimal.so*", "libiomp5.so") for p in glob.glob(os.path.join(bin, "../lib", n))[:1]]
        env = {**os.environ, "PATH": bin + ":" + os.environ["PATH"], "LD_PRELOAD": ":".join(preload), "HF_HUB_OFFLINE": "1",
               "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1", "VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_CPU_OMP_THREADS_BIND": a.bind}
        if a.bind == "nobind":  # else vLLM sets these itself, the second to the same
            env |= {"OMP_NUM_THREADS": str(a.threads), "KMP_BLOCKTIME": "5"}
        self.began = time.time()
        self.p = subprocess.Popen([program, "serve", os.path.abspath(a.folder), "--host", "127.0.0.1", "--port", str(port), "--dtype", dtype,
                                   "--max-model-len", "1024", "--served-model-name", "m"],
                                  stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log, start_new_session=True, env=env,
                                  cwd="/")  # it runs python -m vllm..., which in this script's folder would be this script

    def __enter__(self):
        while True:
            if self.p.poll() is not None:
                self.fail(f"ended with {self.p.returncode}")
            if time.time() - self.began > 900:
                self.fail("is not ready after 900 s")
            try:
                urllib.request.urlopen(self.base + "/health", timeout=5)
                return self
            except OSError:
                time.sleep(0.2)

    def fail(self, what):
        text = open(self.log.name).read()
        first = [l for l in text.splitlines() if "Error" in l][:3]  # the causes; what follows are the processes that lost theirs
        sys.exit(f"cannot start vLLM: it {what}\n" + "\n".join(first) + "\n...\n" + text[-3000:])

    def pause(self):
        self.signal(signal.SIGSTOP)

    def resume(self):
        self.signal(signal.SIGCONT)

    def signal(self, sig):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.p.pid, sig)

    def __exit__(self, *_):
        self.signal(signal.SIGTERM)
        self.resume()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.p.wait(20)
        self.signal(signal.SIGKILL)  # the first process may end before its workers
        self.p.wait()


class Hearth(Server):
    """hearth serve, which waits asleep."""

    def pause(self):
        pass

    resume = pause


def resident(root):
    """MiB of a process and of all that descend from it, each page divided among those that share it."""
    parents, kib = {}, 0
    for p in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            parents[int(p)] = int(open(f"/proc/{p}/stat").read().rpartition(")")[2].split()[1])
    for p in parents:
        up = p
        while up and up != root:
            up = parents.get(up)
        if up:
            with contextlib.suppress(OSError), open(f"/proc/{p}/smaps_rollup") as f:
                kib += next(int(l.split()[1]) for l in f if l.startswith("Pss:"))
    return kib / 1024


def sane(name, s):
    """Ends the script unless the server answers with sense."""
    body = {"model": "m", "messages": [{"role": "user", "content": "What is the capital of France? Answer in one sentence."}], "max_tokens": 40, "temperature": 0}
    headers = {"Content-Type": "application/json", **({"Authorization": "Bearer " + s.key} if s.key else {})}
    request = urllib.request.Request(s.base + "/v1/chat/completions", json.dumps(body).encode(), headers)
    try:
        with urllib.request.urlopen(request, timeout=300) as r:
            answer = r.read()
    except OSError as e:
        sys.exit(f"{name} does not answer: {e}: {e.read().decode()[:2000] if isinstance(e, urllib.error.HTTPError) else ''}")
    text = json.loads(answer)["choices"][0]["message"]["content"]
    if "Paris" not in text:
        sys.exit(f"{name} answers without sense: got {text!r}, wanted the capital of France")


def load(a, name, s, clients, seed):
    """One closed loop against a server that is awake only for it."""
    s.resume()
    try:
        p = subprocess.run([a.loadgen, "-base-url", s.base + "/v1", "-model", "m", "-c", str(clients), "-n", str(max(4, 2 * clients)), "-seed", str(seed),
                            "-prompt-tokens", str(a.tokens), "-max-tokens", str(a.tokens), "-endpoint", "chat", "-warmup", "1",
                            *(["-api-key", s.key] if s.key else [])], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=1800)
    except subprocess.TimeoutExpired:
        sys.exit(f"{name}, {clients} clients: not over after 1800 s")
    finally:
        s.pause()
    if p.returncode:
        sys.exit(f"{name}, {clients} clients: {a.loadgen} ended with {p.returncode}: {p.stderr[-2000:]}{p.stdout[-2000:]}")
    r = json.loads(p.stdout)
    if r["errors"]:
        sys.exit(f"{name}, {clients} clients: {r['errors']} requests failed: {r.get('error_kinds')}")
    if r["mean_output_tokens"] != a.tokens:
        sys.exit(f"{name}, {clients} clients: answers of {r['mean_output_tokens']} tokens, wanted {a.tokens}")
    return r["output_tok_s"], r["ttft_ms"]["p95"]


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for n in ("vllm", "loadgen", "hearth", "folder"):
        ap.add_argument(n)
    ap.add_argument("model", nargs="*")
    ap.add_argument("--threads", type=int, default=os.cpu_count(), help="of this engine, and of vLLM unless --bind says otherwise")
    ap.add_argument("--rounds", type=int, default=3)
    ap.add_argument("--tokens", type=int, default=128, help="of each prompt and of each answer; fewer only to try the script")
    ap.add_argument("--dtypes", default="float32,bfloat16", help="of vLLM")
    ap.add_argument("--bind", default="nobind", help="vLLM's VLLM_CPU_OMP_THREADS_BIND: auto (one core is left to its scheduler), nobind, or cores")
    a = ap.parse_args()
    for path in (a.vllm, a.loadgen, a.hearth, a.folder, *a.model):
        if not os.path.exists(path):
            sys.exit(f"cannot find {path}")
    # vLLM outlives a script that is ended by a signal, unless that is made an exit as others.
    for sig in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(sig, lambda n, _: sys.exit(128 + n))
    makes = {"vLLM " + d: lambda d=d: VLLM(a, d) for d in a.dtypes.split(",")}
    first = next(iter(makes))
    base = lambda m: os.path.basename(os.path.normpath(m))
    makes[base(a.folder) + ", activations bf16"] = lambda: Hearth(a, a.folder, "context = 1024", 'activations = "bf16"')
    makes |= {base(m): lambda m=m: Hearth(a, m, "context = 1024") for m in a.model}
    servers, ready, got = {}, {}, {}
    with contextlib.ExitStack() as up:
        for name, make in makes.items():
            s = servers[name] = make()
            up.push(s)
            s.__enter__()
            ready[name] = time.time() - s.began
            sane(name, s)
            s.pause()
            print(f"{name}: ready after {ready[name]:.1f} s", file=sys.stderr)
        for i in range(a.rounds):
            for c in (1, 8, 32):
                for name, s in servers.items():
                    r = load(a, name, s, c, 100 * (i + 1) + c)
                    got.setdefault((c, name), []).append(r)
                    print(f"round {i + 1}, {c} clients, {name}: {r[0]:.1f} tok/s, TTFT p95 {r[1]:.0f} ms", file=sys.stderr)
        memory = {name: resident(s.p.pid) for name, s in servers.items()}
    row("server", "clients", "output tok/s", f"÷ {first}'s (least – most)", "TTFT p95 ms", "ready after s", "memory MiB")
    row("---", *["--:"] * 6)
    for (c, name), v in got.items():
        ratio = [x[0] / y[0] for x, y in zip(v, got[c, first])]
        row(name, c, f"{statistics.median(x[0] for x in v):.1f}", f"**{statistics.median(ratio):.2f}** ({min(ratio):.2f} – {max(ratio):.2f})",
            f"{statistics.median(x[1] for x in v):.0f}", f"{ready[name]:.1f}", f"{memory[name]:.0f}")


if __name__ == "__main__":
    main()
