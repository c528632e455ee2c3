#!/bin/sh
# An HTTP client that opens no session. See README.md.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib.sh"

title 'The client talks to a server with sessions directly'
"$DRAGOMAN" fake strict-2025-06-18 --listen 127.0.0.1:0 >"$folder/fake.log" 2>&1 &
children="$children $!"
direct=
for _ in $(seq 600); do
	direct=$(sed -n 's/.*\(http:[^ ]*\).*/\1/p' "$folder/fake.log" | head -n 1)
	[ -n "$direct" ] && break
	sleep 0.1
done
dragoman fake --client bare-http-client --set tool=echo "$direct" >"$folder/direct" 2>&1 || true
prove 'its call fails' lacks "$folder/direct" 'ok   tools/call'

title 'The same client, through dragoman serve'
cat >"$folder/dragoman.yaml" <<END
mcpServers:
  echo: {url: "$direct"}
END
serve -c "$folder/dragoman.yaml"
dragoman fake --client bare-http-client --set tool=echo "$url/s/echo/mcp" >"$folder/through" 2>&1 || true
prove 'each of its calls works, although all have the same id' [ "$(grep -c '^ok   tools/call' "$folder/through")" = 3 ]

title 'What doctor says about the client'
"$DRAGOMAN" doctor --client --all --listen 127.0.0.1:0 >"$folder/report" 2>"$folder/doctor.log" &
doctor=$!
at=
for _ in $(seq 600); do
	at=$(sed -n 's/.*this URL: \(http:.*\)/\1/p' "$folder/doctor.log" | head -n 1)
	[ -n "$at" ] && break
	sleep 0.1
done
dragoman fake --client bare-http-client --set version=none "$at" >"$folder/client" 2>&1 || true
kill -INT "$doctor"
wait "$doctor" || true
# row CHECK RESULT succeeds if the table in the report contains the check with this result.
row() { grep -Eq "^$1  +$2" "$folder/report"; }
sed -n '/^A CLIENT/,/^$/p' "$folder/report"
prove 'right: its messages are valid JSON-RPC' row 'sends valid JSON-RPC messages' yes
prove 'right: it accepts both forms of an answer' row 'accepts JSON and event streams' yes
prove 'right: it sends Content-Type' row 'sends Content-Type: application/json' yes
prove 'wrong: it opens no session' row 'begins with initialize, or is of 2026-07-28' DRG-CLIENT-NO-HANDSHAKE
prove 'wrong: it uses an id again' row 'uses each id once' DRG-CLIENT-ID-REUSED
prove 'missing: the version of the protocol' row 'sends the right MCP-Protocol-Version' DRG-CLIENT-HTTP-VERSION
prove 'missing: a progress token' row 'sends a progressToken with calls' DRG-CLIENT-NO-PROGRESS-TOKEN
prove 'each finding says how to fix it' has "$folder/report" 'fix: Send initialize first'

title 'A whole session with curl'
if ! command -v curl >/dev/null; then
	printf '  curl is not installed, so this part is left out\n'
	end
	exit
fi
# post BODY HEADER... sends a message, and writes the status, headers and body of the answer to
# files.
post() {
	body=$1
	shift
	for header; do
		set -- "$@" -H "$header"
		shift
	done
	curl -s -o "$folder/body" -D "$folder/head" -w '%{http_code}' -H 'Content-Type: application/json' \
		-H 'Accept: application/json, text/event-stream' "$@" -d "$body" "$url/s/echo/mcp" >"$folder/status"
}
post '{"jsonrpc":"2.0","id":"1","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"integration-test-mcp-client","version":"1.0.0"}}}'
session=$(sed -n 's/^[Mm]cp-[Ss]ession-[Ii]d: *\([^ \r]*\).*/\1/p' "$folder/head" | tr -d '\r')
prove 'initialize is answered with a session' test -n "$session"
prove 'and with the same version and id' has "$folder/body" '"protocolVersion":"2025-06-18"'
post '{"jsonrpc":"2.0","method":"notifications/initialized"}' "Mcp-Session-Id: $session" 'MCP-Protocol-Version: 2025-06-18'
prove 'notifications/initialized: 202' has "$folder/status" 202
post '{"jsonrpc":"2.0","id":"2","method":"tools/call","params":{"name":"echo","arguments":{"text":"hello"},"_meta":{"progressToken":"tok-1"}}}' "Mcp-Session-Id: $session" 'MCP-Protocol-Version: 2025-06-18'
prove 'tools/call: a result' has "$folder/body" hello
curl -s -o "$folder/body" -w '%{http_code}' -X DELETE -H "Mcp-Session-Id: $session" -H 'MCP-Protocol-Version: 2025-06-18' "$url/s/echo/mcp" >"$folder/status"
prove 'DELETE ends the session: 204' has "$folder/status" 204
post '{"jsonrpc":"2.0","id":"3","method":"tools/list"}' "Mcp-Session-Id: $session" 'MCP-Protocol-Version: 2025-06-18'
prove 'then the session is unknown: 404' has "$folder/status" 404

end
