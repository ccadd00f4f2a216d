#!/usr/bin/env python3
"""Breaks a running Hearth on purpose and checks that the books stay right. Standard library only, loopback only.

    chaos.py crash  BINARY --rounds 100     kill -9 of the whole appliance at random moments under 16 paid streams
    chaos.py worker BINARY --rounds 100     the engine worker killed or stopped in mid-stream
    chaos.py gpu    BINARY --rounds 100 --library DIR
                                            the GPU worker killed, stopped, stuck, out of memory, with error 700 in mid-stream,
                                            all equally often, in one server; DIR has kernels/fakecuda as libcuda.so.1

Each prints a summary and ends with "N passed, M failed"; the exit status is 1 if anything failed.
"""
import argparse
import http.client
import json
import os
import random
import signal
import ssl
import subprocess
import sys
import tempfile
import threading
import time

CONFIG = """price_version = "chaos-1"
[[model]]
name = "hearth-tiny"
path = "embedded"
[[tenant]]
name = "default"
[[tenant.budget]]
period = "total"
cap_usd = "{cap}"
[[price]]
model = "*"
input_usd_per_m = "1.00"
output_usd_per_m = "4.00"
"""


class Server:
    def __init__(self, binary, data, port, *flags):
        self.binary, self.data, self.port, self.flags = binary, data, port, flags
        self.proc = None

    def start(self, **env):
        self.log = open(self.data + ".log", "ab")
        self.proc = subprocess.Popen([self.binary, "serve", "--data", self.data, "--listen", f"localhost:{self.port}", *self.flags],
                                     stdout=self.log, stderr=self.log, env=dict(os.environ, **env))
        until = time.time() + 30
        while time.time() < until:
            if self.proc.poll() is not None:
                raise SystemExit(f"the server ended with {self.proc.returncode}; see {self.data}.log")
            try:
                if self.get("/readyz", key=None)[0] == 200:
                    return
            except OSError:
                pass
            time.sleep(0.02)
        raise SystemExit("the server was not ready within 30 s")

    def info(self):
        return json.load(open(self.data + "/first-run.json"))

    def connect(self, timeout=60):
        i = self.info()
        return http.client.HTTPSConnection("localhost", self.port, timeout=timeout, context=ssl.create_default_context(cafile=i["ca_file"]))

    def get(self, path, key=""):
        c = self.connect(5)
        try:
            c.request("GET", path, headers={} if key is None else {"Authorization": "Bearer " + self.info()["api_key"]})
            r = c.getresponse()
            return r.status, r.read()
        finally:
            c.close()

    def metric(self, name, label=""):
        """The sum over all that have the label; a metric that is not there is a fault of the caller."""
        total, lines = 0.0, [x for x in self.get("/metrics")[1].decode().splitlines() if x.startswith(name) and x[len(name)] in "{ "]
        if not lines:
            raise SystemExit(f"there is no metric {name}")
        for line in lines:
            if label in line:
                total += float(line.rsplit(" ", 1)[1])
        return total

    def command(self, *args):
        r = subprocess.run([self.binary, *args, "--data", self.data], capture_output=True, text=True, timeout=120)
        return r.returncode, r.stdout, r.stderr

    def kill(self):
        self.proc.kill()
        self.proc.wait()

    def stop(self):
        self.proc.terminate()
        self.proc.wait(60)


class Stream(threading.Thread):
    """One paid stream. Notes what was seen: request id, tokens, and how it ended."""

    def __init__(self, server, seed, leave=None):
        super().__init__(daemon=True)
        self.server, self.seed, self.leave = server, seed, leave  # leave: the caller goes away after so many tokens
        self.last_at = None  # when the last token came
        self.id, self.status, self.tokens, self.end, self.error, self.ended_at = None, None, 0, None, None, None

    def run(self):
        try:
            self.ask()
        except (OSError, http.client.HTTPException) as e:
            self.end = self.end or f"cut: {type(e).__name__}"
        self.ended_at = time.time()

    def ask(self):
        c = self.server.connect()
        body = {"model": "hearth-tiny", "stream": True, "max_tokens": 600, "seed": self.seed, "ignore_eos": True, "temperature": 1.2, "logprobs": True,
                "messages": [{"role": "user", "content": f"Tell me a long story, number {self.seed}"}]}
        c.request("POST", "/v1/chat/completions", json.dumps(body), {"Authorization": "Bearer " + self.server.info()["api_key"], "Content-Type": "application/json"})
        r = c.getresponse()
        self.status, self.id = r.status, r.headers.get("x-request-id")
        if r.status != 200:
            self.end, self.error = "refused", json.loads(r.read()).get("error")
            return
        for line in r:
            if not line.startswith(b"data: "):
                continue
            if line.strip() == b"data: [DONE]":
                self.end = "done"
                return
            js = json.loads(line[6:])
            if "error" in js:
                self.end, self.error = "error", js["error"]
                rest = r.read().strip()
                if rest:
                    self.end = f"error, and then {rest[:60]!r}"
                return
            # One log-probability a token: an event may carry several tokens.
            self.tokens += sum(len((ch.get("logprobs") or {}).get("content") or []) for ch in js["choices"])
            self.last_at = time.time()
            if self.leave is not None and self.tokens >= self.leave:
                self.end = "left"
                c.close()
                return
        self.end = "cut without a word"


class Report:
    def __init__(self):
        self.passed, self.failed = 0, []

    def check(self, ok, text):
        if ok:
            self.passed += 1
        else:
            self.failed.append(text)
            print("FAILED", text, flush=True)

    def finish(self):
        print(f"{self.passed} passed, {len(self.failed)} failed")
        sys.exit(1 if self.failed else 0)


def ledger(server, report, what, running=False):
    code, out, err = server.command("ledger", "check", "--json")
    report.check(code == 0, f"{what}: ledger check: {code} {out[-300:]} {err[-300:]}")
    return json.loads(out) if code == 0 else {}


def crash(a, report):
    r = random.Random(a.seed)
    server = Server(a.binary, a.data, a.port)
    acknowledged, cut = set(), 0
    for n in range(a.rounds):
        server.start()
        streams = [Stream(server, n * 100 + i) for i in range(a.streams)]
        for s in streams:
            s.start()
        time.sleep(r.uniform(0.0, 1.2))
        server.kill()
        for s in streams:
            s.join(30)
        cut += sum(1 for s in streams if s.end != "done")
        acknowledged |= {s.id for s in streams if s.tokens > 0}
        ledger(server, report, f"round {n}")
    server.start()
    ledger(server, report, "at the end, beside the running server")
    code, out, _ = server.command("ledger", "list", "--json", "--limit", "100000")
    rows = {row["request_id"]: row for row in rows_of(out)}
    missing = acknowledged - set(rows)
    report.check(not missing, f"{len(missing)} of {len(acknowledged)} delivered streams have no row")
    report.check(all(row.get("outcome") for row in rows.values()), "a row without an outcome")
    held = server.metric("hearth_ledger_open_holds")
    report.check(held == 0, f"{held} holds open at rest")
    outcomes = {}
    for row in rows.values():
        outcomes[row["outcome"]] = outcomes.get(row["outcome"], 0) + 1
    print(f"{a.rounds} kills, {len(rows)} rows, {cut} streams cut, {len(acknowledged)} had delivered something, outcomes {outcomes}")
    server.stop()


def rows_of(out):
    out = out.strip()
    if out.startswith("["):
        return json.loads(out)
    if out.startswith("{") and "\n{" not in out:
        js = json.loads(out)
        return js.get("rows", [js])
    return [json.loads(line) for line in out.splitlines() if line]


def children(pid):
    out = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True).stdout
    return [int(x) for x in out.split()]


def descriptors(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


def worker(a, report):
    r = random.Random(a.seed)
    server = Server(a.binary, a.data, a.port)
    server.start()
    before, slowest_end, slowest_back = None, 0.0, 0.0
    for n in range(a.rounds):
        pids = children(server.proc.pid)
        report.check(len(pids) == 1, f"round {n}: {len(pids)} workers")
        streams = [Stream(server, n * 100 + i) for i in range(a.streams)]
        for s in streams:
            s.start()
        until = time.time() + 20
        while time.time() < until and not all(s.tokens > 2 or s.end for s in streams):
            time.sleep(0.005)
        how = [signal.SIGKILL, signal.SIGSTOP, signal.SIGSEGV][n % 3]
        time.sleep(r.uniform(0, 0.2))
        struck = time.time()
        open_at = [s for s in streams if not s.end]
        os.kill(pids[0], how)
        for s in open_at:
            s.join(30)
        allowed = a.detect + 1 if how == signal.SIGSTOP else 1
        for s in open_at:
            took = (s.ended_at or 1e18) - struck
            slowest_end = max(slowest_end, took)
            report.check(s.end in ("error", "done") and took <= allowed, f"round {n} {how.name}: stream ended with {s.end!r} after {took:.2f} s")
        report.check(server.get("/livez", key=None)[0] == 200, f"round {n}: the server is down")
        while time.time() < struck + 30:
            if server.get("/readyz", key=None)[0] == 200 and children(server.proc.pid) not in ([], pids):
                break
            time.sleep(0.02)
        back = time.time() - struck
        slowest_back = max(slowest_back, back)
        report.check(back <= 5 + (a.detect if how == signal.SIGSTOP else 0), f"round {n} {how.name}: ready again after {back:.1f} s")
        for s in open_at:
            charged(server, report, f"round {n}", s)
        if n == 4:
            before = descriptors(server.proc.pid)
    if before is not None:
        after = descriptors(server.proc.pid)
        report.check(after <= before + 8, f"descriptors grew from {before} to {after}")
    ledger(server, report, "at the end")
    print(f"{a.rounds} blows, slowest end of a stream {slowest_end:.2f} s, slowest return {slowest_back:.2f} s")
    server.stop()


# What strikes a worker: what its driver is told to do (counts are of kernels that have run: a worker is opened and warmed up
# well before), the signal that is sent to it, and after how long the supervisor knows of it, in seconds.
STALL = 4
KINDS = {
    "killed": ("", signal.SIGKILL, 0),
    "stopped": ("", signal.SIGSTOP, 3),
    "stuck": ("FAKECUDA_HANG=launch:{n}", None, STALL),
    "out of memory": ("FAKECUDA_ERRORS=launch:{n}=2", None, 0),
    "error 700": ("FAKECUDA_ERRORS=launch:{n}=700", None, 0),
}


def gpu(a, report):
    """One server; its workers are struck in turn, every kind about equally often, in no order."""
    r, order = random.Random(a.seed), []
    while len(order) < a.rounds:
        order += r.sample(list(KINDS), len(KINDS))
    order = order[:a.rounds]
    fate = a.data + ".fate"

    def ordain(n):
        """What the driver does to the worker that is started next."""
        with open(fate, "w") as f:
            f.write(KINDS[order[n]][0].format(n=r.randint(a.launches, 2 * a.launches)) if n < len(order) else "")

    ordain(0)
    server = Server(a.binary, a.data, a.port, "--device", "cuda")
    server.start(FAKECUDA_DEVICES="8.0,memory=1GiB", FAKECUDA_CHECKS="0", FAKECUDA_FILE=fate)
    before, ends, backs = None, {}, {}
    until = time.time() + a.seconds
    for n, kind in enumerate(order):
        if time.time() > until:
            print(f"no time for {len(order) - n} of {len(order)} rounds")
            break
        ordain(n + 1)
        end, back = gpu_round(a, report, server, f"round {n}, {kind}", kind, n)
        ends.setdefault(kind, []).append(end)
        backs.setdefault(kind, []).append(back)
        if n == 4:
            before = at_rest(server)
    cut_by_callers(a, report, server)
    after = at_rest(server, before)
    for what, most in (("descriptors", 4), ("goroutines", 8)):
        report.check(before is None or after[what] <= before[what] + most, f"{what} grew from {before and before[what]} to {after[what]}")
    report.check(server.metric("hearth_ledger_open_holds") == 0, "holds open at rest")
    ledger(server, report, "at the end")
    server.stop()
    for kind in sorted(ends):
        print(f"{kind}: {len(ends[kind])} times, a stream ended at most {max(ends[kind]):.2f} s after it was known (median {median(ends[kind]):.2f}), "
              f"back after at most {max(backs[kind]):.2f} s (median {median(backs[kind]):.2f})")
    print(f"{sum(map(len, ends.values()))} blows; after the fifth {before}, at the end {after}")


def median(list):
    return sorted(list)[len(list) // 2]


def at_rest(server, like=None):
    """Descriptors and goroutines once nothing is asked; what the callers left behind gets some seconds to end."""
    until = time.time() + 20
    while True:
        now = dict(descriptors=descriptors(server.proc.pid), goroutines=int(server.metric("go_goroutines")))
        if time.time() > until or like and all(now[k] <= like[k] for k in now):
            return now
        time.sleep(1)


def cut_by_callers(a, report, server):
    """Streams whose callers go away: their blocks are given back."""
    streams = [Stream(server, 10**6 + i, leave=5 * i) for i in range(8)]
    for s in streams:
        s.start()
    for s in streams:
        s.join(120)
    report.check(all(s.end == "left" for s in streams), f"streams that are left: {[s.end for s in streams]}")
    until = time.time() + 10
    while time.time() < until and used_blocks(server) > 0:
        time.sleep(0.05)
    report.check(used_blocks(server) == 0, f"{used_blocks(server):.0f} blocks are in use at rest")


def used_blocks(server):
    return server.metric("hearth_kv_blocks", 'state="used"')


def gpu_round(a, report, server, what, kind, seed):
    """Strikes one worker under streams; gives how long streams and the return took."""
    _, how, detect = KINDS[kind]
    pids = children(server.proc.pid)
    report.check(len(pids) == 1, f"{what}: {len(pids)} workers")
    streams = [Stream(server, seed * 100 + i) for i in range(a.streams)]
    for s in streams:
        s.start()
    until = time.time() + 120
    while time.time() < until and not all(s.tokens > 1 or s.end for s in streams):
        time.sleep(0.005)
    if how:
        struck = time.time()
        report.check(strike(pids[0], how), f"{what}: the worker was gone before it was struck")
    else:  # the driver strikes: no token comes after that
        while time.time() < until and not any(s.end for s in streams):
            time.sleep(0.005)
        struck = max(s.last_at or time.time() for s in streams)
    watch = Readiness(server, pids, struck, detect)
    while any(s.is_alive() for s in streams) and time.time() < struck + 60:
        watch.look()
        time.sleep(0.01)
    slowest = 0.0
    for s in streams:
        took = (s.ended_at or 1e18) - struck - detect
        slowest = max(slowest, took)
        report.check(s.end in ("error", "done") and took <= 1 or s.end == "refused", f"{what}: stream ended with {s.end!r} {s.error} {took:.2f} s after it was known")
    report.check(any(s.end == "error" for s in streams), f"{what}: no stream was cut: {[s.end for s in streams]}")
    report.check(server.get("/livez", key=None)[0] == 200, f"{what}: the server is down")
    while time.time() < struck + 60 and not watch.look():
        time.sleep(0.01)
    back = time.time() - struck - detect
    report.check(back <= a.patience, f"{what}: ready again after {back:.1f} s")
    report.check(watch.refused > 0 and not watch.lies, f"{what}: /readyz refused {watch.refused} times, and {watch.lies or 'never'} said ready with no worker")
    for s in streams:
        if s.end != "refused":
            charged(server, report, what, s)
    report.check(used_blocks(server) == 0, f"{what}: {used_blocks(server):.0f} blocks are in use at rest")
    return slowest, back


def strike(pid, how):
    try:
        os.kill(pid, how)
    except ProcessLookupError:
        return False
    return True


class Readiness:
    """Whether /readyz tells the truth: once a loss may be known, it says ready only where there is another worker."""

    def __init__(self, server, old, struck, detect):
        self.server, self.old, self.known = server, old, struck + detect + 1
        self.refused, self.lies = 0, []

    def look(self):
        """Looks once; true when another worker is ready."""
        at = time.time()
        ready = self.server.get("/readyz", key=None)[0] == 200
        other = any(pid not in self.old for pid in children(self.server.proc.pid))  # looked at later: a worker is there before it is ready
        self.refused += not ready
        if ready and not other and at > self.known:
            self.lies.append(f"{at - self.known:.2f} s late")
        return ready and other


def charged(server, report, what, s):
    """A stream is charged for the tokens that its caller got."""
    code, out, err = server.command("ledger", "show", s.id, "--json")
    row = json.loads(out) if code == 0 else {}
    made = row.get("row", row).get("usage", {}).get("output", -1)
    report.check(code == 0 and made == s.tokens, f"{what}: {s.tokens} tokens delivered, {made} charged ({err.strip()})")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("mode", choices=["crash", "worker", "gpu"])
    p.add_argument("binary")
    p.add_argument("--rounds", type=int, default=100)
    p.add_argument("--streams", type=int, default=16)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--port", type=int, default=0)
    p.add_argument("--cap", default="1000.00", help="budget of the tenant in USD")
    p.add_argument("--detect", type=float, default=3.0, help="seconds in which a stopped worker is to be noticed")
    p.add_argument("--library", dest="driver", help="gpu: folder of the driver's library")
    p.add_argument("--patience", type=float, default=5, help="gpu: seconds until a new worker is to be ready")
    p.add_argument("--seconds", type=float, default=1e9, help="gpu: begin no round after so long")
    p.add_argument("--launches", type=int, default=1500, help="gpu: the driver strikes a worker after so many kernels, or up to twice as many")
    p.add_argument("--data")
    a = p.parse_args()
    a.binary = os.path.abspath(a.binary)
    a.port = a.port or random.randrange(20000, 30000)
    report = Report()
    with tempfile.TemporaryDirectory() as tmp:
        a.data = a.data or tmp + "/data"
        os.makedirs(a.data, mode=0o700, exist_ok=True)
        with open(a.data + "/appliance.toml", "w") as f:
            f.write(CONFIG.format(cap=a.cap))
            if a.driver:
                f.write(f'[cuda]\nlibrary = "{os.path.abspath(a.driver)}"\nstall = "{STALL}s"\n')
        {"crash": crash, "worker": worker, "gpu": gpu}[a.mode](a, report)
    report.finish()


main()
