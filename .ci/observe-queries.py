"""Asks a Prometheus every query of the dashboard, and for what the rules record.

usage: observe-queries.py PROMETHEUS_URL DASHBOARD_JSON
"""
import json, sys, time, urllib.error, urllib.parse, urllib.request

base, board = sys.argv[1], json.load(open(sys.argv[2]))

# What a box with one local model on a CPU has nothing to say of.
QUIET = ["DCGM_", "hearth_device_temperature", "hearth_device_power", "hearth_device_throttle", "hearth_upstream_state", 'failure!=""',
         "hearth_repeated_requests_total", "hearth_device_utilization", 'outcome=~"error|partial']


def ask(path, **args):
    try:
        with urllib.request.urlopen(base + path + "?" + urllib.parse.urlencode(args), timeout=10) as r:
            return json.load(r)["data"]
    except urllib.error.HTTPError as e:
        sys.exit(f"{args}: {e.read().decode()}")


def values(expr):
    out = ask("/api/v1/query", query=expr)["result"]
    return [s["value"][1] for s in out if s["value"][1] != "NaN"]


def expand(expr):
    for name, to in {"$__rate_interval": "30s", "$instance": ".*", "$model|none": ".*", "$model": ".*", "$tenant": ".*"}.items():
        expr = expr.replace(name, to)
    assert "$" not in expr, f"a variable that nobody knows: {expr}"
    return expr


deadline = time.time() + 30
while not values("hearth:ttft_seconds:p95") or not values("hearth:cost_usd_per_request:rate1h"):
    if time.time() > deadline:
        sys.exit(f"the rules record nothing: {ask('/api/v1/targets')}")
    time.sleep(0.5)

asked = empty = 0
for panel in board["panels"]:
    for target in panel.get("targets", []):
        expr = expand(target["expr"])
        asked += 1
        if values(expr):
            continue
        if any(q in expr for q in QUIET):
            empty += 1
        else:
            sys.exit(f"panel {panel['title']!r} shows nothing: {expr}")
for v in board["templating"]["list"]:
    if v["type"] == "query":
        metric, label = v["definition"].removeprefix("label_values(").removesuffix(")").split(", ")
        names = ask(f"/api/v1/label/{label}/values", **{"match[]": metric})
        assert names, f"the variable {v['name']} has no values"

groups = ask("/api/v1/rules")["groups"]
rules = [r for g in groups for r in g["rules"]]
for r in rules:
    if r["health"] == "err":
        sys.exit(f"rule {r['name']}: {r.get('lastError')}")
firing = sorted({r["name"] for r in rules if r.get("state") == "firing"})
if firing:
    sys.exit(f"on a sound box these alerts fire: {firing}")
print(f"{asked} queries of the dashboard are answered, {empty} have nothing to say here; {len(rules)} rules, none fails, none fires")
