#!/bin/sh
# The order of the messages that a server receives. See README.md.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib.sh"

# A gated server refuses everything before notifications/initialized, and also the first
# requests after this notification. Each process of the server records its input in its own file.
cat >"$folder/server" <<'END'
#!/bin/sh
tee "$RECORDS/$$" | exec "$DRAGOMAN" fake gate-initialized
END
chmod +x "$folder/server"
mkdir "$folder/shared" "$folder/call"
cat >"$folder/dragoman.yaml" <<END
mcpServers:
  kept: {command: "$folder/server", env: {RECORDS: "$folder/shared", DRAGOMAN: "$DRAGOMAN"}}
  fresh: {command: "$folder/server", env: {RECORDS: "$folder/call", DRAGOMAN: "$DRAGOMAN"}}
dragoman:
  servers:
    kept: {revision: 2025-11-25} # without it, server/discover comes before initialize
    fresh: {revision: 2025-11-25, isolation: call}
END
serve -c "$folder/dragoman.yaml"
for i in 1 2 3; do
	dragoman call "$url/s/kept/mcp" echo "text=kept $i" >>"$folder/out" 2>&1 || true
	dragoman call "$url/s/fresh/mcp" echo "text=fresh $i" >>"$folder/out" 2>&1 || true
done

# methods FILE lists the methods in the input of a process, in order, equal neighbours once.
methods() { sed -n 's/.*"method":"\([^"]*\)".*/\1/p' "$1" | uniq; }

# ordered FOLDER checks that initialize and notifications/initialized are the first two methods
# in the input of every process.
ordered() {
	for f in "$1"/*; do
		methods "$f" >"$folder/methods"
		[ "$(sed -n 1p "$folder/methods")" = initialize ] || { echo "$f:"; cat "$folder/methods"; return 1; }
		[ "$(sed -n 2p "$folder/methods")" = notifications/initialized ] || { echo "$f:"; cat "$folder/methods"; return 1; }
	done
}

# calling FOLDER counts the processes that received a call.
calling() { grep -l '"method":"tools/call"' "$1"/* | wc -l | tr -d ' '; }

title 'A process that is kept'
prove 'its calls arrive' has "$folder/out" 'kept 3'
prove 'initialize and notifications/initialized come before everything else' ordered "$folder/shared"
prove 'one process gets all calls' [ "$(calling "$folder/shared")" = 1 ]

title 'A process for each call'
prove 'its calls arrive' has "$folder/out" 'fresh 3'
prove 'initialize and notifications/initialized come before everything else, in each process' ordered "$folder/call"
prove 'three processes get one call each' [ "$(calling "$folder/call")" = 3 ]

title 'The notification'
prove 'it has no id and no params' grep -rqxF '{"jsonrpc":"2.0","method":"notifications/initialized"}' "$folder/shared"
prove 'nobody sees an error of the gate' lacks "$folder/out" initialized

title 'The order in the kept process'
methods "$(grep -l '"method":"tools/call"' "$folder"/shared/*)" | sed 's/^/  /'

end
