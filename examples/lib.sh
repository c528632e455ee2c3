# Functions for the examples. A script sets `here` to its folder and sources this file.
#
# The variable DRAGOMAN names the program, and POST names a small HTTP client. If a variable is
# not set, the program for it is built with Go.

set -eu
folder=$(mktemp -d)
children=
failed=0

# finish stops the processes that the example has started, and removes its files.
finish() {
	for child in $children; do kill "$child" 2>/dev/null || true; done
	for child in $children; do wait "$child" 2>/dev/null || true; done
	rm -rf "$folder"
}
trap finish EXIT
trap 'exit 130' INT TERM

if [ -z "${DRAGOMAN:-}" ]; then
	# It's not $folder/dragoman: that's where serve keeps its files, with the variables below.
	mkdir "$folder/program"
	(cd "$here/../.." && CGO_ENABLED=0 go build -o "$folder/program/dragoman" ./cmd/dragoman)
	DRAGOMAN=$folder/program/dragoman
fi
# With another HOME, Go would have an empty cache, and would need a minute to build post.
if [ -z "${POST:-}" ]; then
	GOCACHE=$(go env GOCACHE)
	export GOCACHE
fi
# With these variables, the examples do not read the user's configuration.
HOME=$folder XDG_CONFIG_HOME=$folder XDG_CACHE_HOME=$folder XDG_RUNTIME_DIR=$folder
export DRAGOMAN HOME XDG_CONFIG_HOME XDG_CACHE_HOME XDG_RUNTIME_DIR

dragoman() { "$DRAGOMAN" "$@"; }

# post URL [BODY [HEADER: VALUE]...] sends a request, and prints the answer: status, headers, body.
post() {
	if [ -z "${POST:-}" ]; then
		(cd "$here/../.." && go build -o "$folder/post" ./examples/post)
		POST=$folder/post
	fi
	"$POST" "$@"
}

title() { printf '\n%s\n' "$*"; }

# prove TEXT COMMAND... runs a command, and prints the text with ok or FAIL.
prove() {
	text=$1
	shift
	if "$@" >"$folder/proof" 2>&1; then
		printf '  ok    %s\n' "$text"
	else
		printf '  FAIL  %s\n' "$text"
		sed 's/^/        /' "$folder/proof"
		failed=1
	fi
}

# has FILE TEXT succeeds if the file contains the text, and lacks FILE TEXT if it does not.
has() { grep -qF -- "$2" "$1" || { printf 'not in the output: %s\n' "$2"; tail -n 20 "$1"; return 1; }; }
lacks() { ! grep -F -- "$2" "$1"; }

# equal FILE compares a file with the text on stdin.
equal() { cat >"$folder/want" && diff -u "$folder/want" "$1"; }

# soon COMMAND... repeats a command until it succeeds, for about one minute at most.
soon() {
	for _ in $(seq 300); do
		"$@" >"$folder/last" 2>&1 && return
		sleep 0.2
	done
	cat "$folder/last"
	return 1
}

# serve ARGUMENTS... starts `dragoman serve` on a free port and waits until it is ready. It sets
# `url` to the URL of the server without a path, and `log` to the name of the log file.
serve() {
	log=$(mktemp "$folder/serve.XXXXXX")
	"$DRAGOMAN" serve --listen 127.0.0.1:0 --log-format json --no-console "$@" >/dev/null 2>"$log" &
	children="$children $!"
	url=
	for _ in $(seq 600); do
		url=$(sed -n 's/.*MCP clients connect to \(http:.*\)\/mcp.*/\1/p' "$log" | head -n 1)
		[ -n "$url" ] && grep -q 'servers after the start' "$log" && break
		sleep 0.1
	done
	[ -n "$url" ] || { echo "serve did not start:"; cat "$log"; exit 1; }
}

# end prints whether all checks passed. If a check failed, end exits with status 1.
end() {
	if [ "$failed" = 0 ]; then
		printf '\nAll of it is so.\n'
	else
		printf '\nSomething is not so.\n'
		exit 1
	fi
}
