package dialect

import (
	"slices"

	"github.com/dragoman-mcp/dragoman/internal/mcp"
)

// The names of the built-in profiles.
const (
	Standard       = "mcp"
	Manifest       = "manifest"
	ManifestPython = "manifest-python"
	ManifestPushed = "manifest-pushed"
	InitializeOnly = "initialize-only"
	CodexAppServer = "codex-app-server"
)

// The marks of a manifest, in every spelling that is known.
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
		// These servers report so whatever a tool throws, and nothing else.
		{-32603, "The tool failed"},
	}}
	// Their bases answer each notification with an error, and ping with a status;
	// neither is any use.
	manifestNever = []string{mcp.MethodPing, "notifications/*"}
)

// builtin are the profiles that we know, the more particular first.
var builtin = []*Profile{
	{
		Name:  Standard,
		About: "MCP as it is written; nothing else is looked for",
	},
	{
		Name:   ManifestPython,
		About:  "all tools in the initialize result, in snake_case; lines of 64 KiB at most",
		Detect: Detect{Has: []Path{"tools", "server_info"}, Lacks: versionless},
		Open:   Opening{NoProbe: true, NoInitialized: true, Identity: identities},
		Tools:  manifestTools, Errors: manifestErrors, Never: manifestNever,
		// A reader of Python's asyncio dies of a longer line.
		MaxMessage: 64 << 10,
	},
	{
		Name:   Manifest,
		About:  "all tools in the initialize result, in any spelling",
		Detect: Detect{Has: []Path{"tools"}, Lacks: versionless},
		Open:   Opening{NoProbe: true, NoInitialized: true, Identity: identities},
		Tools:  manifestTools, Errors: manifestErrors, Never: manifestNever,
	},
	{
		Name:  ManifestPushed,
		About: "all tools in a message that comes unasked, and no initialize",
		Open:  Opening{NoProbe: true, NoInitialized: true, Pushed: true, Identity: identities},
		Tools: manifestTools, Errors: manifestErrors, Never: manifestNever,
	},
	{
		Name:  InitializeOnly,
		About: "MCP of the revisions with a handshake, for servers that cannot bear to be probed",
		Open:  Opening{NoProbe: true},
	},
	{
		Name:   CodexAppServer,
		About:  "threads and turns of Codex's app-server, which is no MCP",
		Open:   Opening{NoProbe: true, NoInitialized: true},
		Bridge: CodexAppServer,
	},
}

// Builtin returns the built-in profiles in the order in which they are looked for.
// The slice is the caller's, the profiles are not to be written to.
func Builtin() []*Profile { return slices.Clone(builtin) }

// Lookup returns the built-in profile of that name, nil for none.
func Lookup(name string) *Profile {
	for _, p := range builtin {
		if p.Name == name {
			return p
		}
	}
	return nil
}
