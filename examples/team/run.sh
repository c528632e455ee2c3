#!/bin/sh
# Two projects with three keys, rules, search mode, and a tool that changes. See README.md.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib.sh"
unset XDG_DATA_HOME
cp -R "$here" "$folder/team"
cd "$folder/team"
mkdir "$folder/bin"
ln -s "$DRAGOMAN" "$folder/bin/dragoman"
PATH=$folder/bin:$PATH

serve -c dragoman.yaml

title 'Three keys'
shop=$(dragoman keys add shop-app --project shop 2>>"$folder/keys.log" --listen "${url#http://}")
prices=$(dragoman keys add shop-prices --project shop --tool 'files/read_*' 2>>"$folder/keys.log" --listen "${url#http://}")
support=$(dragoman keys add support-app --project support 2>>"$folder/keys.log" --listen "${url#http://}")
prove 'each is printed once' [ -n "$shop" -a -n "$prices" -a -n "$support" ]
# ask KEY PATH METHOD [PARAMS] sends a request of 2026-07-28 with a key, and writes the answer to $folder/answer. The
# client has the capabilities in $can.
can='{}'
ask() {
	name=$(printf '%s' "${4:-}" | sed -n 's/.*"name":"\([^"]*\)".*/\1/p')
	post "$url$2" '{"jsonrpc":"2.0","id":1,"method":"'"$3"'","params":{'"${4:+$4,}"'"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":'"$can"',"io.modelcontextprotocol/clientInfo":{"name":"team","version":"1"}}}}' \
		"Authorization: Bearer $1" 'Content-Type: application/json' 'Accept: application/json, text/event-stream' 'MCP-Protocol-Version: 2026-07-28' "Mcp-Method: $3" "Mcp-Name: $name" >"$folder/answer" 2>&1
}
read_shop='"name":"files__read_file","arguments":{"path":"prices.txt"}'

title 'Each project has its own servers'
ask "$shop" /p/shop/mcp tools/call "$read_shop"
prove 'shop-app reads the prices' has "$folder/answer" 'tea: 300'
ask "$support" /p/support/mcp tools/call '"name":"files__read_file","arguments":{"path":"open.txt"}'
prove 'support-app reads its own file, on a server of the same name' has "$folder/answer" 'Ada waits'
ask "$support" /p/support/mcp tools/call "$read_shop"
prove 'and not the prices' lacks "$folder/answer" 'tea: 300'

title 'The shop uses a server of default, and shows less of it'
ask "$shop" /p/shop/mcp tools/call '"name":"handbook__read_file","arguments":{"path":"rules.md"}'
prove 'shop-app reads the handbook' has "$folder/answer" 'Be kind.'
ask "$shop" /p/shop/mcp tools/list
prove 'it sees the tools that read' has "$folder/answer" handbook__read_file
prove 'and not those that search' lacks "$folder/answer" handbook__search_files

title 'A key may be narrower than its project'
ask "$prices" /p/shop/mcp tools/list
prove 'shop-prices sees the tools that read files' has "$folder/answer" files__read_file
prove 'and nothing else' lacks "$folder/answer" files__write_file

title 'A key opens one project'
ask "$support" /p/shop/mcp tools/list
prove 'for support-app the shop looks as if it did not exist' has "$folder/answer" 404
tail -n 1 "$folder/answer" >"$folder/shop"
ask "$support" /p/nowhere/mcp tools/list
tail -n 1 "$folder/answer" | sed 's/nowhere/shop/g' >"$folder/nowhere"
prove 'exactly like a project that does not' cmp "$folder/shop" "$folder/nowhere"
ask "$support" /mcp tools/list
prove 'and so does default' has "$folder/answer" 404
ask none /p/shop/mcp tools/list
prove 'who has no key gets 401' has "$folder/answer" 401

title 'Rules say what the shop may do with its files'
admin() { dragoman "$@" --project shop --listen "${url#http://}"; }
writes='"name":"files__write_file","arguments":{"path":"new.txt","content":"coffee: 400"}'
ask "$shop" /p/shop/mcp tools/list
prove 'shop-app sees the tools that read and write' has "$folder/answer" files__write_file
prove 'and none that deletes' lacks "$folder/answer" files__delete_file
admin rules who files/delete_file >"$folder/who" 2>&1 || true
prove 'because of the last rule' has "$folder/who" 'rule 3, *'
ask "$shop" /p/shop/mcp tools/call "$writes"
prove 'a client that cannot ask a person must not write' has "$folder/answer" 'wants a person to confirm it'
ask "$shop" /p/shop/find/mcp tools/call '"arguments":{"query":"write or delete a file"},"name":"search_tools"'
prove 'who searches finds the tool that writes' has "$folder/answer" 'files__write_file('
prove 'and none that deletes' lacks "$folder/answer" files__delete_file
ask "$shop" /p/shop/find/mcp tools/call '"arguments":{'"$writes"'},"name":"call_tool"'
prove 'and must not write either' has "$folder/answer" 'wants a person to confirm it'
can='{"elicitation":{"form":{}}}'
ask "$shop" /p/shop/mcp tools/call "$writes"
prove 'one that can shows what would be written' has "$folder/answer" 'coffee: 400'
prove 'and nothing is written before the person agrees' [ ! -e shop/new.txt ]
state=$(sed -n 's/.*"requestState":"\([^"]*\)".*/\1/p' "$folder/answer")
question=$(sed -n 's/.*"inputRequests":{"\([^"]*\)".*/\1/p' "$folder/answer")
ask "$shop" /p/shop/mcp tools/call "$writes"',"requestState":"'"$state"'","inputResponses":{"'"$question"'":{"action":"accept","content":{}}}'
prove 'then it is' has shop/new.txt 'coffee: 400'

title 'Support searches'
ask "$support" /p/support/mcp tools/list
prove 'support-app lists a search and what its server is for' has "$folder/answer" '): what customers wait for'
prove 'and no tool of the server' lacks "$folder/answer" files__
ask "$support" /p/support/mcp tools/call '"arguments":{"query":"read a file"},"name":"search_tools"'
prove 'it finds the tool that reads' has "$folder/answer" 'files__read_file('
ask "$support" /p/support/mcp tools/call '"arguments":{"name":"files__read_file","arguments":{"path":"open.txt"}},"name":"call_read_tool"'
prove 'and reads what customers wait for' has "$folder/answer" 'Ada waits'

title 'A tool that has changed is held'
# From now on, what is overwritten can't be brought back, and the server says so in the definitions of its tools.
sed -i.bak 's|filesystem, ./shop|filesystem, --undo-size, "0", ./shop|' dragoman.yaml
reviews() { admin tools review files/write_file >"$folder/review" 2>&1 && has "$folder/review" 'undoSupported: false'; }
lists() { ask "$shop" /p/shop/mcp tools/list && has "$folder/answer" files__read_file && "$1" "$folder/answer" files__write_file; }
prove 'shop-app does not see it any more' soon lists lacks
prove 'an operator sees what has changed' soon reviews
ask "$shop" /p/shop/mcp tools/call "$writes"
prove 'a call says why it is refused' has "$folder/answer" 'has changed'
hash=$(sed -n 's/^dragoman tools approve [^ ]* \([0-9a-f]*\).*/\1/p' "$folder/review")
admin tools approve files/write_file "$hash" >"$folder/approved" 2>&1 || true
prove 'approved, it is back' soon lists has

end
