package dialect

import (
	"slices"

	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// These are the names of the built-in profiles.
const (
	Standard       = "mcp"
	Manifest       = "manifest"
	ManifestPython = "manifest-python"
	ManifestPushed = "manifest-pushed"
	InitializeOnly = "initialize-only"
	CodexAppServer = "codex-app-server"
)

// These variables describe the servers that send a manifest. The paths include every known spelling
// of a member.
var (
	versionless = []Path{"protocolVersion"}
	identities  = []Path{"serverInfo", "server_info"}

	manifestTools = Tools{
		Manifest: "tools",
		Schema:   []Path{"inputSchema", "params_schema", "parameters", "input_schema", "paramsSchema"},
		Confirm:  []Path{"confirmation_required", "confirmationRequired", "metadata.confirmationRequired", "metadata.confirmation_required"},
		Undo:     []Path{"undo_supported", "undoSupported", "metadata.undoSupported", "metadata.undo_supported"},
		Repair:   true,
		Wrap:     true,
	}
	manifestErrors = Errors{Tool: []ToolError{
		{-32001, "The path is outside of the folders that this server may use"},
		{-32002, "The user has to confirm this first"},
		{-32003, "The file was not found"},
		{-32004, "Permission denied"},
		// Servers with a manifest use -32603 only for exceptions in a tool.
		{-32603, "The tool failed"},
	}}
	// Servers with a manifest answer each notification with an error, and ping with a status. Dragoman
	// can use neither answer, so Dragoman does not send these messages.
	manifestNever = []string{mcp.MethodPing, "notifications/*"}
)

// builtin has the built-in profiles. A more specific profile comes before a less specific profile.
var builtin = []*Profile{
	{
		Name:  Standard,
		About: "standard MCP; Dragoman does not detect other dialects",
	},
	{
		Name:   ManifestPython,
		About:  "all tools in the initialize result, with member names in snake_case; lines of at most 64 KiB",
		Detect: Detect{Has: []Path{"tools", "server_info"}, Lacks: versionless},
		Open:   Opening{NoProbe: true, NoInitialized: true, Identity: identities},
		Tools:  manifestTools, Errors: manifestErrors, Never: manifestNever,
		// Python's asyncio reader fails if a line is longer than 64 KiB.
		MaxMessage: 64 << 10,
	},
	{
		Name:   Manifest,
		About:  "all tools in the initialize result, with member names in any spelling",
		Detect: Detect{Has: []Path{"tools"}, Lacks: versionless},
		Open:   Opening{NoProbe: true, NoInitialized: true, Identity: identities},
		Tools:  manifestTools, Errors: manifestErrors, Never: manifestNever,
	},
	{
		Name:  ManifestPushed,
		About: "all tools in an unsolicited message; initialize is not supported",
		Open:  Opening{NoProbe: true, NoInitialized: true, Pushed: true, Identity: identities},
		Tools: manifestTools, Errors: manifestErrors, Never: manifestNever,
	},
	{
		Name:  InitializeOnly,
		About: "legacy MCP; Dragoman does not send server/discover, for servers that fail on it",
		Open:  Opening{NoProbe: true},
	},
	{
		Name:   CodexAppServer,
		About:  "the app-server of Codex, which has threads and turns instead of MCP",
		Open:   Opening{NoProbe: true, NoInitialized: true},
		Bridge: CodexAppServer,
	},
}

// Builtin returns the built-in profiles in the order in which Dragoman tries them. The caller may
// modify the slice, but not the profiles.
func Builtin() []*Profile { return slices.Clone(builtin) }

// Lookup returns the built-in profile with the given name, or nil if there is none.
func Lookup(name string) *Profile {
	for _, p := range builtin {
		if p.Name == name {
			return p
		}
	}
	return nil
}
