#!/bin/sh
# An endpoint that answers initialize exactly as configured. See README.md.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib.sh"

# initialize VERSION [CLIENT] sends initialize. It writes the answer to the file "answer", and the
# body of the answer to the file "body".
initialize() {
	post "$url/mcp" '{"jsonrpc":"2.0","id":"req-1","method":"initialize","params":{"protocolVersion":"'"$1"'","capabilities":{},"clientInfo":{"name":"'"${2:-example}"'","version":"1.0"}}}' >"$folder/answer"
	tail -n 1 "$folder/answer" >"$folder/body"
}

# instructed TEXT checks that the answer to a new client contains the text.
instructed() {
	initialize 2025-03-26
	has "$folder/body" "$1"
}

# counted OUTCOME checks that the metrics and the log contain the outcome.
counted() {
	post "$url/metrics" >"$folder/metrics"
	grep '^dragoman_handshakes_total' "$folder/metrics" | grep -F "outcome=\"$1\"" && grep '"msg":"initialize"' "$log" | grep -F "\"outcome\":\"$1\""
}

cat >"$folder/dragoman.yaml" <<END
mcpServers:
  requirements: {command: "$DRAGOMAN", args: [fake, strict-2025-03-26]}
dragoman:
  revisions: {accept: ["2025-03-26"], otherwise: refuse}
  server:
    instructions: {file: prompt.md, join: own-only}
END
printf 'Every requirement has an id.' >"$folder/prompt.md"

title 'A server with one version, and its name from the environment'
export DRAGOMAN_SERVER_NAME=spexus DRAGOMAN_SERVER_TITLE='Spexus MCP' DRAGOMAN_SERVER_VERSION=1.0.0
serve -c "$folder/dragoman.yaml"
initialize 2025-03-26
prove 'the result is exactly this' equal "$folder/body" <<'END'
{"jsonrpc":"2.0","id":"req-1","result":{"protocolVersion":"2025-03-26","capabilities":{"extensions":{"io.modelcontextprotocol/ui":{},"io.modelcontextprotocol/skills":{"directoryRead":true},"com.example/weather":{"version":2,"units":["C","F"]}},"completions":{},"logging":{},"prompts":{"listChanged":true},"resources":{"listChanged":true,"subscribe":true},"tools":{"listChanged":true}},"serverInfo":{"name":"spexus","title":"Spexus MCP","version":"1.0.0"},"instructions":"Every requirement has an id."}}
END
prove 'outcome ok' counted ok

initialize 2024-01-01
prove 'another version is refused, and the error names the right one' has "$folder/body" 'Unsupported protocol version. Expected: 2025-03-26'
prove 'with data for programs' has "$folder/body" '"code":"INVALID_PROTOCOL_VERSION"'
prove 'outcome unsupported_version' counted unsupported_version

post "$url/mcp" '{"jsonrpc":"2.0","id":7,"method":"initialize","params":{"capabilities":{}}}' >"$folder/body"
prove 'a request without a version is malformed, and the error names the member' has "$folder/body" '"code":"MALFORMED_REQUEST","member":"params.protocolVersion"'
prove 'outcome malformed' counted malformed

title 'The instructions follow the prompt'
printf 'Ask before you delete a requirement.' >"$folder/prompt.md"
initialize 2025-03-26
prove 'the next client gets the new text' has "$folder/body" '"instructions":"Ask before you delete a requirement."'
rm "$folder/prompt.md"
initialize 2025-03-26
prove 'without a prompt, the text is empty and the handshake works' has "$folder/body" '"instructions":""'

title 'The instructions are the active prompt of the requirements server'
cat >"$folder/dragoman.yaml" <<END
mcpServers:
  requirements: {command: "$DRAGOMAN", args: [server, requirements, --db, "$folder/requirements.db", --example]}
dragoman:
  revisions: {accept: ["2025-03-26"], otherwise: refuse}
  server:
    instructions:
      command: ["$DRAGOMAN", server, requirements, prompt, --db, "$folder/requirements.db"]
      keep: 100ms
      join: own-only
END
serve -c "$folder/dragoman.yaml"
initialize 2025-03-26
prove 'they are the description and the content of the prompt' has "$folder/body" '"instructions":"You help a team to write and maintain requirements.\n\nRefer to each object by its id'
prove 'the capabilities have prompts, resources and tools with their flags' has "$folder/body" '"prompts":{"listChanged":true},"resources":{"listChanged":true,"subscribe":true},"tools":{"listChanged":true}'
session=$(sed -n 's/^Mcp-Session-Id: //p' "$folder/answer" | tr -d '\r')
post "$url/mcp" '{"jsonrpc":"2.0","method":"notifications/initialized"}' "Mcp-Session-Id: $session" >"$folder/body"
"$POST" "$url/mcp" '' "Mcp-Session-Id: $session" >"$folder/stream" &
children="$children $!"

post "$url/mcp" '{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"requirements__activate_prompt","arguments":{"name":"reviewer"}}}' "Mcp-Session-Id: $session" >"$folder/body"
prove 'a tool activates another prompt' has "$folder/body" 'reviewer'
prove 'the client is told that the list of prompts has changed' soon has "$folder/stream" '"method":"notifications/prompts/list_changed"'
prove 'the next client gets the other prompt' soon instructed '"instructions":"You review requirements and change nothing.'
dragoman server requirements prompt --db "$folder/requirements.db" --none
prove 'without an active prompt, the text is empty and the handshake works' soon instructed '"instructions":""'

title 'Other settings: another version is negotiated, and too many handshakes are refused'
cat >"$folder/dragoman.yaml" <<END
mcpServers:
  requirements: {command: "$DRAGOMAN", args: [fake, strict-2025-03-26]}
dragoman:
  limits: {initializePerSecond: 1}
END
serve -c "$folder/dragoman.yaml"
initialize 2024-01-01
prove 'the result has a version that Dragoman supports' has "$folder/body" '"protocolVersion":"2025-11-25"'
prove 'outcome negotiated' counted negotiated
flood=
for i in $(seq 80); do
	post "$url/mcp" '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-03-26","capabilities":{},"clientInfo":{"name":"flood","version":"1"}}}' >"$folder/flood.$i" 2>&1 &
	flood="$flood $!"
done
wait $flood || true
prove 'some of 80 handshakes are refused with status 429' grep -l '^429' "$folder"/flood.*
prove 'outcome rate_limited' counted rate_limited

end
