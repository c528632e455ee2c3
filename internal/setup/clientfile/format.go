package clientfile

// Format describes a file in which Dragoman found no servers. what names the format that the file
// seems to have, and completes the phrase "it seems to be". hint tells the user what to do. Both
// values are "" if the format is unknown.
func Format(root *Value) (what, hint string) {
	for _, f := range formats {
		if f.is(root) {
			return f.what, f.hint
		}
	}
	return "", ""
}

// These hints are for several formats.
const (
	useServer = "write the command of the server under mcpServers as `NAME: {command: …, args: […]}`"
	useOwner  = "name the file in which your MCP client keeps its servers, or write them under mcpServers"
)

// formats lists the kinds of files that people confuse with a configuration of servers. Format uses
// the first entry whose function "is" returns true for the file.
var formats = []struct {
	what, hint string
	is         func(*Value) bool
}{
	{"the entry of one server, without a name", "write it below a name under mcpServers: `mcpServers: {NAME: {…}}`",
		func(v *Value) bool { return isServer(v) }},
	{"a mapping of servers without the key mcpServers", "write mcpServers above them",
		func(v *Value) bool { return isMap(v) && len(v.Members) > 0 && isServer(v.Members[0].Value) }},
	{"a list of servers", "write mcpServers as a mapping from the name of each server to its settings",
		func(v *Value) bool {
			return v != nil && v.Kind == List && len(namedEntries(v)) > 0 || listed(v, "mcpServers") || listed(v, "mcp_servers")
		}},
	{"the settings of Zed", "write the servers of context_servers under mcpServers", has("context_servers")},
	{"a configuration of Goose", "write each extension that is an MCP server under mcpServers, with cmd as command",
		func(v *Value) bool { return isMap(v.Get("extensions")) && !isMap(v.Get("dependencies")) }},
	{"the manifest of an extension", "copy mcp_config of this file to mcpServers, under a name for the server",
		func(v *Value) bool {
			return isMap(v.Get("server", "mcp_config")) || v.Get("dxt_version") != nil || v.Get("mcpb_version") != nil
		}},
	{"a server.json of the MCP registry", "write the command that starts the package, or the url of the remote, under mcpServers",
		func(v *Value) bool {
			return v.Get("name") != nil && (v.Get("packages") != nil || v.Get("remotes") != nil)
		}},
	{"a package.json of npm", useServer, func(v *Value) bool {
		return v.Get("name") != nil && (v.Get("dependencies") != nil || v.Get("devDependencies") != nil || v.Get("scripts") != nil)
	}},
	{"a pyproject.toml", useServer, func(v *Value) bool {
		return isMap(v.Get("project")) || isMap(v.Get("tool", "poetry")) || isMap(v.Get("build-system"))
	}},
	{"a Cargo.toml", useServer, func(v *Value) bool { return isMap(v.Get("package")) && v.Get("package", "edition") != nil }},
	{"a Docker Compose file", useServer, has("services")},
	{"a Kubernetes manifest", useServer, func(v *Value) bool { return v.Get("apiVersion") != nil && v.Get("kind") != nil }},
	{"an OpenAPI document", "Dragoman does not make servers from OpenAPI; name an MCP server under mcpServers",
		func(v *Value) bool {
			return (v.Get("openapi") != nil || v.Get("swagger") != nil) && v.Get("paths") != nil
		}},
	{"a message of MCP", useOwner, func(v *Value) bool { return v.Get("jsonrpc") != nil }},
	{"the settings of VS Code", "name the file .vscode/mcp.json instead", func(v *Value) bool { return v.Get("editor.fontSize") != nil || v.Get("workbench.colorTheme") != nil }},
	{"a file of Claude Code without MCP servers", useOwner, func(v *Value) bool { return v.Get("numStartups") != nil || v.Get("permissions", "allow") != nil }},
	{"a tsconfig.json", useOwner, has("compilerOptions")},
}

// has returns a function that reports whether a file has a mapping under a key.
func has(key string) func(*Value) bool {
	return func(v *Value) bool { return isMap(v.Get(key)) }
}

// listed reports whether a file has a list under a key.
func listed(v *Value, key string) bool {
	list := v.Get(key)
	return list != nil && list.Kind == List
}

// isServer reports whether a value looks like the entry of one server.
func isServer(v *Value) bool {
	command := v.Get("command")
	return command.text() != "" || v.Get("url").text() != "" && (v.Get("type") != nil || v.Get("headers") != nil || len(v.Members) == 1)
}
