# Sourced by the suites: starts a server on a fresh data directory and waits until it is ready.
#
#   serve BINARY DATA_DIR [flags…]   sets server_pid
#   stop                             ends it and waits
serve() {
	local binary=$1 data=$2
	shift 2
	"$binary" serve --data "$data" --listen localhost:0 "$@" >"$data.out" 2>"$data.log" &
	server_pid=$!
	trap 'kill "$server_pid" 2>/dev/null || true' EXIT # a suite that fails leaves no server behind
	local ca base
	for _ in $(seq 300); do
		kill -0 "$server_pid" 2>/dev/null || { cat "$data.log"; echo "the server ended" >&2; return 1; }
		if [ -f "$data/first-run.json" ]; then
			base=$(python3 -c 'import json,sys; print(json.load(open(sys.argv[1]))["base_url"])' "$data/first-run.json")
			ca=$(python3 -c 'import json,sys; print(json.load(open(sys.argv[1]))["ca_file"])' "$data/first-run.json")
			curl -fsS --cacert "$ca" "$base/readyz" >/dev/null 2>&1 && return 0
		fi
		sleep 0.1
	done
	cat "$data.log"
	echo "the server was not ready within 30 s" >&2
	return 1
}

stop() {
	kill -TERM "$server_pid"
	wait "$server_pid"
	trap - EXIT
}

# field FILE NAME prints a field of a JSON file.
field() { python3 -c 'import json,sys; print(json.load(open(sys.argv[1]))[sys.argv[2]])' "$1" "$2"; }
