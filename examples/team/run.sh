#!/bin/sh
# Two projects with three keys. See README.md.
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
# ask KEY PATH METHOD [PARAMS] sends a request of 2026-07-28 with a key, and writes the answer to $folder/answer.
ask() {
	name=$(printf '%s' "${4:-}" | sed -n 's/.*"name":"\([^"]*\)".*/\1/p')
	post "$url$2" '{"jsonrpc":"2.0","id":1,"method":"'"$3"'","params":{'"${4:+$4,}"'"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"team","version":"1"}}}}' \
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

end
