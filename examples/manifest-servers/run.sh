#!/bin/sh
# Servers that return their tools in the result of initialize. See README.md.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib.sh"

servers='manifest-ts manifest-python manifest-parameters push-manifest'

# session prints the messages of an ordinary client of 2025-11-25.
session() {
	cat <<-'END'
		{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"example","version":"1"}}}
		{"jsonrpc":"2.0","method":"notifications/initialized"}
		{"jsonrpc":"2.0","id":2,"method":"tools/list"}
		{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"files.add","arguments":{"a":1,"b":41}}}
	END
}

title 'An ordinary client talks to the servers directly'
for s in $servers; do
	session | dragoman fake "$s" >"$folder/direct" 2>/dev/null || true
	prove "$s answers a step of the handshake with -32601" has "$folder/direct" '"code":-32601'
	prove "$s sends no protocol version" lacks "$folder/direct" '"protocolVersion"'
done

title 'The same client, through dragoman run'
for s in $servers; do
	session | dragoman run -- "$DRAGOMAN" fake "$s" >"$folder/through" 2>"$folder/err"
	prove "$s is opened with a protocol version" has "$folder/through" '"protocolVersion":"2025-11-25"'
	prove "$s has its tools with schemas" has "$folder/through" '"name":"files.add"'
	prove "$s keeps its flags for confirmation and undo" has "$folder/through" '"confirmationRequired":true,"undoSupported":true'
	prove "$s answers a call" has "$folder/through" '{\"sum\":42}'
	prove "$s causes no error" lacks "$folder/through" '"error"'
done

title 'A client that expects the tools in the result of initialize, with an ordinary server'
printf '{"jsonrpc":"2.0","method":"initialize","id":1}\n' | dragoman run -- "$DRAGOMAN" fake strict-2025-11-25 >"$folder/manifest" 2>"$folder/err"
prove 'the result has the tools' has "$folder/manifest" '"tools":[{'
prove 'and it is a result of MCP as well' has "$folder/manifest" '"protocolVersion"'

title 'All of them in one serve'
cat >"$folder/dragoman.yaml" <<END
mcpServers:
  ts: {command: "$DRAGOMAN", args: [fake, manifest-ts]}
  python: {command: "$DRAGOMAN", args: [fake, manifest-python]}
  parameters: {command: "$DRAGOMAN", args: [fake, manifest-parameters]}
  push: {command: "$DRAGOMAN", args: [fake, push-manifest]}
END
serve -c "$folder/dragoman.yaml"
dragoman list tools "$url/mcp" >"$folder/list" 2>&1 || true
for s in ts python parameters push; do
	prove "$s is in the joined list" has "$folder/list" "${s}__files.add"
done
dragoman call "$url/mcp" python__files.add a=1 b=41 >"$folder/call" 2>&1 || true
prove 'a call reaches its server' has "$folder/call" 42

end
