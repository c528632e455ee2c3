#!/bin/sh
# The handshake with Codex workers. See README.md.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib.sh"

# session PROMPT prints the messages of a client of 2025-11-25.
session() {
	cat <<-END
		{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"example-proxy","version":"1.2.3"}}}
		{"jsonrpc":"2.0","method":"notifications/initialized"}
		{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"codex","arguments":{"prompt":"$1"}}}
	END
}

# worker ARGUMENTS... runs a session with a fake worker. The file "got" records what the
# worker receives.
worker() {
	session hello | dragoman run --dialect codex-app-server -- sh -c 'tee "$0" | exec "$@"' "$folder/got" "$DRAGOMAN" fake "$@" >"$folder/out" 2>"$folder/err"
	grep '"method":"initialize"' "$folder/got" >"$folder/offers" || true
}

info='{"name":"example-proxy","version":"1.2.3"}'

title 'A worker that knows version 2'
worker codex-app-server
prove 'it gets version 2, with both spellings and capabilities {}' equal "$folder/offers" <<END
{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"v2","protocol_version":"v2","clientInfo":$info,"client_info":$info,"capabilities":{}}}
END
prove 'it never gets initialized' lacks "$folder/got" initialized
prove 'a turn works' has "$folder/out" 'You said: hello'

title 'A worker that refuses version 2'
worker codex-app-server --set v2=-32602
prove 'it gets version 1 on the same pipe, without null values' equal "$folder/offers" <<END
{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"v2","protocol_version":"v2","clientInfo":$info,"client_info":$info,"capabilities":{}}}
{"jsonrpc":"2.0","id":2,"method":"initialize","params":{"clientInfo":$info,"client_info":$info}}
END
prove 'it never gets initialized' lacks "$folder/got" initialized
prove 'the log has the version and the cause' has "$folder/err" 'version=v1'
prove 'a turn works' has "$folder/out" 'You said: hello'

title 'A worker that also refuses client_info'
worker codex-app-server --set v2=-32602 --set mirror=refuse
prove 'the last offer is clientInfo alone' has "$folder/offers" "{\"clientInfo\":$info}"
prove 'a turn works' has "$folder/out" 'You said: hello'

title 'A wrapper that answers at the end of a turn'
worker codex-app-server --set form=shim
prove 'it never gets initialized' lacks "$folder/got" initialized
prove 'a turn works' has "$folder/out" 'You said: hello'

title 'An older worker, with conversations'
worker codex-app-server-old
prove 'it gets sendUserMessage' has "$folder/got" sendUserMessage
prove 'a turn works' has "$folder/out" 'You said: hello'

end
