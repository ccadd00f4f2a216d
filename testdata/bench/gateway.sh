#!/usr/bin/env bash
# Compare the gateway with its peers in front of one cheap provider on loopback, all in one sitting.
#
#   gateway.sh PEERS BENCH [NAME...]
#
# PEERS: the folder of installed peers, with bin/mock_upstream and bin/loadgen. BENCH: the folder of
# bench_gateway.sh. NAMEs: what runs there beside us (default: direct ferrogw vrouter envoy own).
# Environment: HEARTH (the binary; built from this tree if unset), and that of bench_gateway.sh (REPEAT, DUR, NICE...).
# First the table of bench_gateway.sh, where we listen without TLS, as the peers do; then we alone, over TLS: CPU time
# a request and a stream under wrk, and memory with 1000 open streams. Key, limits, durable holds and settlements,
# ledger, metrics and log are on throughout.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
peers=$(cd "${1:?usage: gateway.sh PEERS BENCH [NAME...]}" && pwd); bench=$(cd "${2:?usage: gateway.sh PEERS BENCH [NAME...]}" && pwd); shift 2
work=$(mktemp -d)
pids=()
trap 'for p in "${pids[@]}"; do kill -TERM "$p" 2>/dev/null || true; done; wait; rm -rf "$work"' EXIT
if [ -z "${HEARTH:-}" ]; then
  HEARTH=$work/hearth
  (cd "$here/../.." && CGO_ENABLED=0 go build -o "$HEARTH" .)
fi
export MOCK_KEY=sk-up

config() { # config DIR TLS-MODE UPSTREAM
  mkdir -p "$1"
  cat >"$1/c.toml" <<T
price_version = "bench"
[tls]
mode = "$2"
[server]
max_requests = 4096
[[model]]
name = "hearth-tiny"
path = "embedded"
[[tenant]]
name = "default"
[tenant.limits]
requests_per_minute = 100000000
tokens_per_minute = 1000000000
concurrency = 100000
[[tenant.budget]]
period = "month"
cap_usd = "1000000"
[[upstream]]
name = "mock"
kind = "openai-compatible"
base_url = "$3"
credential = "env:MOCK_KEY"
[[route]]
model = "mock"
effect = "read-only"
[[route.candidate]]
upstream = "mock"
model = "mock"
max_output_tokens = 64
[[price]]
model = "mock"
input_usd_per_m = "0.10"
output_usd_per_m = "0.40"
T
}

freeport() { python3 -c 'import socket; s=socket.socket(); s.bind(("127.0.0.1",0)); print(s.getsockname()[1])'; }

# The key is made at the first start: one is made here, and its data folder is what is measured.
config "$work/plain" off http://127.0.0.1:1/v1
"$HEARTH" serve --config "$work/plain/c.toml" --data "$work/plain/d" --listen "127.0.0.1:$(freeport)" >"$work/first.log" 2>&1 & first=$!
for _ in $(seq 600); do [ -s "$work/plain/d/first-run.json" ] && break; sleep 0.05; done
key=$(python3 -c 'import json,sys; print(json.load(open(sys.argv[1]))["api_key"])' "$work/plain/d/first-run.json")
kill -TERM $first; wait $first || true

cat >"$work/own.sh" <<X2
#!/usr/bin/env bash
sed "s|^base_url = .*|base_url = \"\$2\"|" "$work/plain/c.toml" >"$work/plain/run.toml"
exec "$HEARTH" serve --config "$work/plain/run.toml" --data "$work/plain/d" --listen 127.0.0.1:\$1
X2
chmod +x "$work/own.sh"
names=("$@"); [ ${#names[@]} -gt 0 ] || names=(direct ferrogw vrouter envoy own)
OWN_CMD="$work/own.sh {port} {upstream}" OWN_KEY=$key OWN_MODEL=mock "$bench/bench_gateway.sh" "$peers" "${names[@]}"

ticks() { awk '{print $14+$15}' "/proc/$1/stat"; }

# serve NAME TLS-MODE MOCK-ARGS...: provider and gateway; sets gw (its pid), port and key
serve() {
  local name=$1 mode=$2 up; shift 2
  up=$(freeport); port=$(freeport)
  "$peers/bin/mock_upstream" -addr "127.0.0.1:$up" "$@" >/dev/null 2>&1 & pids+=($!)
  config "$work/$name" "$mode" "http://127.0.0.1:$up/v1"
  "$HEARTH" serve --config "$work/$name/c.toml" --data "$work/$name/d" --listen "127.0.0.1:$port" >"$work/$name.log" 2>&1 & gw=$!; pids+=($gw)
  for _ in $(seq 600); do [ -s "$work/$name/d/first-run.json" ] && break; sleep 0.05; done
  key=$(python3 -c 'import json,sys; print(json.load(open(sys.argv[1]))["api_key"])' "$work/$name/d/first-run.json")
  sleep 2 # the model inside loads beside it
}

metric() { curl -sk "https://127.0.0.1:$port/metrics" | awk -v m="$1" '$1==m {print $2}'; }

serve tls internal
for kind in whole stream; do
  extra=; [ $kind = stream ] && extra=',"stream":true'
  cat >"$work/w.lua" <<L
wrk.method='POST'
wrk.body='{"model":"mock","messages":[{"role":"user","content":"Hello, how are you today?"}],"max_tokens":64,"temperature":0$extra}'
wrk.headers['Content-Type']='application/json'
wrk.headers['Authorization']='Bearer $key'
L
  for _ in $(seq "${REPEAT:-3}"); do
    c0=$(metric hearth_ledger_commits_total); o0=$(metric hearth_ledger_operations_total); s0=$(metric hearth_ledger_commit_seconds_total); t0=$(ticks $gw)
    wrk -t1 "-c${CONNS:-32}" "-d${DUR:-6}s" --latency --timeout 30s -s "$work/w.lua" "https://127.0.0.1:$port/v1/chat/completions" >"$work/wrk.out"
    t1=$(ticks $gw); c1=$(metric hearth_ledger_commits_total); o1=$(metric hearth_ledger_operations_total); s1=$(metric hearth_ledger_commit_seconds_total)
    python3 - "$work/wrk.out" "$kind" $((t1 - t0)) "$c0" "$c1" "$o0" "$o1" "$s0" "$s1" "$(getconf CLK_TCK)" <<'P'
import re, sys
out, kind, hz = open(sys.argv[1]).read(), sys.argv[2], float(sys.argv[10])
ticks, c0, c1, o0, o1, s0, s1 = (float(x) for x in sys.argv[3:10])
n = int(re.search(r"(\d+) requests in", out)[1])
if re.search("Non-2xx|Socket errors", out):
    sys.exit("requests failed:\n" + out)
us = ticks / hz * 1e6 / n
p50, p99 = (re.search(p + r"%\s+(\S+)", out)[1] for p in ("50", "99"))
print(f"TLS {kind}: {n} requests, {us:.0f} us CPU each, {1e6 / us:.0f} a CPU second, p50 {p50}, p99 {p99}; "
      f"{(o1 - o0) / (c1 - c0):.1f} operations and {(s1 - s0) / (c1 - c0) * 1e3:.2f} ms a commit")
P
  done
done

serve open off -tpot 50ms
"$peers/bin/loadgen" -base-url "http://127.0.0.1:$port/v1" -model mock -api-key "$key" -prompt-tokens 0 -prompt "Hello, how are you today?" \
  -max-tokens 64 -ignore-eos=false -allow-errors -stream -c 1000 -n 1000 >"$work/open.json"
python3 - "$work/open.json" <<'P'
import json, sys
r = json.load(open(sys.argv[1]))
print(f"1000 streams at once: {r['ok']} whole, {r['errors']} failed")
P
grep -E 'VmHWM|RssAnon' "/proc/$gw/status"
