package archtest

// layers lists the packages, the lowest layer first. A package may import only packages in lower
// layers. Packages in the same layer never import each other: one of them declares an interface,
// and a package in a higher layer connects the two. An entry includes the folders below it, unless
// they have their own entry.
var layers = [][]string{
	{"internal/base"},
	{"internal/protocol"},
	{"internal/transport"},
	{"internal/relay"},
	{"internal/setup", "internal/team"},
	{"internal/server", "internal/workbench"},
	{"internal/app"},
	{"cmd"},
}

// inner divides the folders below some entries of layers into layers too. The same rule applies to
// these layers. Most rooms of team stand here before they are built, so that it is agreed what they
// may import.
var inner = map[string][][]string{
	"internal/base": {
		{"internal/base/pattern"},
		{
			"internal/base/excerpt", "internal/base/identity", "internal/base/jsonrpc", "internal/base/logcode", "internal/base/loglimit",
			"internal/base/screen", "internal/base/servername", "internal/base/spans", "internal/base/work",
		},
		{"internal/base/failure", "internal/base/folderlock", "internal/base/secret", "internal/base/tokens", "internal/base/trails"},
		{"internal/base/logring", "internal/base/logscreen"},
	},
	"internal/protocol": {
		{"internal/protocol/mcp", "internal/protocol/schema"},
		{"internal/protocol/dialect"},
	},
	"internal/transport": {
		{"internal/transport"}, // only this folder, with the code that all transports share
		{"internal/transport/eventstream"},
		{"internal/transport/httpdoor", "internal/transport/httplink"},
		{"internal/transport/inmem", "internal/transport/sse", "internal/transport/stdio", "internal/transport/streamhttp"},
	},
	"internal/relay": {
		{"internal/relay/calls", "internal/relay/event", "internal/relay/ranking"},
		{"internal/relay/handshake", "internal/relay/questions"},
		{"internal/relay/conn", "internal/relay/downstream"},
		{"internal/relay/bridge", "internal/relay/catalog", "internal/relay/finder", "internal/relay/pins", "internal/relay/policy"},
		{"internal/relay/codex", "internal/relay/gateway", "internal/relay/limits", "internal/relay/upstream"},
	},
	"internal/setup": {
		{"internal/setup/clientfile"},
		{"internal/setup/config"},
		{"internal/setup/intake", "internal/setup/registry"},
	},
	"internal/team": {
		{"internal/team/egress", "internal/team/prompt", "internal/team/sqldb", "internal/team/vault"},
		{"internal/team/signin/oauth", "internal/team/store"},
		{"internal/team/access", "internal/team/audit", "internal/team/cluster", "internal/team/issuers", "internal/team/signin"},
		{"internal/team/authserver"},
	},
	"internal/server": {
		{"internal/server/lines", "internal/server/requirements/store", "internal/server/tools"},
		{"internal/server/demo", "internal/server/files", "internal/server/requirements"},
	},
	"internal/workbench": {
		{"internal/workbench/rawlink"},
		{"internal/workbench/doctor", "internal/workbench/fake", "internal/workbench/tape"},
		{"internal/workbench/matrix"},
	},
	"internal/app": {
		{"internal/app/form", "internal/app/tool"},
		{"internal/app/runtime"},
		{"internal/app/admin"},
		{"internal/app/console", "internal/app/telemetry"},
		{"internal/app/daemon"},
		{"internal/app/cli"},
	},
}

// rigs are packages that only tests and examples use. The program does not import them. They may
// import any package.
var rigs = []string{"examples", "internal/testkit", "internal/server/tools/toolstest"}

// guests lists the modules that only some packages may import, and the packages that may import
// each module.
var guests = map[string][]string{
	// The program itself uses its own wire code (docs/adr/0002). Only the built-in servers use the
	// SDK.
	"github.com/modelcontextprotocol/go-sdk": {"internal/server"},
	"github.com/google/jsonschema-go":        {"internal/server"},
	// Only one package uses a database (docs/adr/0021).
	"modernc.org/sqlite":      {"internal/team/sqldb"},
	"github.com/jackc/pgx/v5": {"internal/team/sqldb"},
	// The keyring of the operating system is asked only for the vault's key (docs/adr/0032).
	"github.com/zalando/go-keyring": {"internal/team/vault"},
	// Who checks or signs JWTs (docs/adr/0038, 0040).
	"github.com/go-jose/go-jose/v4": {"internal/team", "internal/testkit/idptest"},
	// The built-in servers are commands. Only package cli may import them.
	Module + "/internal/server": {"internal/server", "internal/app/cli"},
}

// wire lists the packages that process messages of peers. They must not use encoding/json, because
// it ignores the case of names, keeps only the last of duplicate members, replaces invalid UTF-8
// and rounds numbers (docs/adr/0002).
var wire = []string{
	"internal/base/jsonrpc", "internal/protocol/mcp", "internal/protocol/dialect", "internal/transport",
	"internal/relay/handshake", "internal/relay/conn", "internal/relay/downstream", "internal/relay/upstream", "internal/relay/bridge", "internal/relay/catalog", "internal/relay/gateway", "internal/relay/codex", "internal/relay/finder", "internal/relay/pins", "internal/relay/questions", "internal/relay/ranking",
}

// datesLiveIn is the package with the feature table. Only this package may compare revisions. The
// packages in datesNamedIn may contain the dates of revisions, for example in the name of a
// profile, but may not compare the dates.
const datesLiveIn = "internal/protocol/mcp"

var datesNamedIn = []string{"internal/protocol/dialect", "internal/workbench/fake"}

// goStatements lists the files that may contain a go statement, with the reason why
// neither sync.WaitGroup.Go nor errgroup works there.
var goStatements = map[string]string{
	"internal/transport/stdio/std.go": "a read of a standard input that takes no deadline cannot be unblocked, so nobody can wait for it",
	"internal/app/cli/browser.go":     "a browser in the foreground ends when its user closes it, and must not end with us",
	"internal/team/vault/keyring.go":  "the library takes no context, and a keyring that waits for a password may never answer",
}

// waitGroupRooms are the packages in which a type with goroutines must keep them in a work.Group.
// waitGroupFields are the files that may have a struct with a sync.WaitGroup, with the reason why
// no goroutine is added after Wait was called.
var waitGroupRooms = []string{
	"internal/transport", "internal/relay/handshake", "internal/relay/conn", "internal/relay/downstream", "internal/relay/upstream", "internal/relay/bridge", "internal/relay/catalog", "internal/relay/gateway", "internal/relay/codex", "internal/app/runtime", "internal/app/console", "internal/app/daemon", "internal/app/telemetry",
}

var waitGroupFields = map[string]string{
	"internal/relay/downstream/pipe.go":                "added to by the reader of the pipe alone, which waits",
	"internal/relay/conn/pipe.go":                      "added to once, before anybody has the link",
	"internal/relay/conn/http.go":                      "added to once, before anybody has the conversation",
	"internal/transport/sse/server.go":                 "handlers of net/http lend themselves, under the lock under which Close refuses them",
	"internal/transport/sse/server_link.go":            "added to under the lock under which the conversation is taken away",
	"internal/transport/streamhttp/server_response.go": "added to by the handler of the one request, which waits",
	"internal/transport/stdio/process.go":              "added to before anybody has the process, and by what is waited for",
}

// logForwarders lists the files in which the message of a log call need not be a literal, with the
// reason.
var logForwarders = map[string]string{
	"internal/relay/upstream/log.go": "the messages are those of state.log",
	"internal/app/cli/status.go":     "the callers of record give the code",
}

// initFunctions lists the files that may contain an init function.
var initFunctions = map[string]string{}

// vagueNames are package names that do not say what the package provides.
var vagueNames = []string{"util", "utils", "common", "types", "helper", "helpers", "models", "misc", "shared", "base"}

// Limits for the number of lines of package comments and files.
const (
	contractAtLeast = 5
	contractAtMost  = 20
	fileAtMost      = 900
)

// doorRooms are the packages in which all that changes in an object stands in one struct, behind one
// door, with the names of these structs: whoever has a pointer to one is under the lock.
var doorRooms = map[string][]string{
	"internal/relay/conn":     {"pipeState", "connState"},
	"internal/relay/upstream": {"state"},
}

// ownLocks are packages that may hold a lock while they write. They are used only as peers in
// tests, so no real client or server waits for the lock.
var ownLocks = []string{"internal/workbench/fake"}

// lockExceptions lists the operations that are allowed under a lock, as "file: function:
// operation". The value is the reason why the operation blocks no other work. See
// internal/threads.md.
var lockExceptions = map[string]string{
	"internal/app/admin/drafts.go: draftAPI.NewDraft: draftAPI.showLocked is called: the interface homes is called, by way of draftAPI.plan":   drafts,
	"internal/app/admin/drafts.go: draftAPI.withDraft: draftAPI.showLocked is called: the interface homes is called, by way of draftAPI.plan":  drafts,
	"internal/app/admin/drafts.go: draftAPI.showLocked: draftAPI.plan is called: the interface homes is called, by way of textHome.planText":   drafts,
	"internal/app/admin/trials.go: draftAPI.tryLocked: textHome.resolve is called: the interface homes is called":                              drafts,
	"internal/app/cli/status.go: status.tick: the callback width is called":                                                                    drawing,
	"internal/app/cli/status.go: status.print: the interface out is called":                                                                    drawing,
	"internal/app/runtime/project.go: Project.apply: Project.adoptLocked is called: the callback Credentials is called, by way of NewUpstream": signs,
	"internal/app/runtime/project.go: Project.adoptLocked: NewUpstream is called: the callback Credentials is called":                          signs,
	"internal/relay/upstream/heirs.go: broker.inherit: the interface Seats is called":                                                          leftOnce,
	"internal/relay/downstream/ask.go: requestCaller.notify: the interface responder is called":                                                oneResponse,
	"internal/relay/downstream/ask.go: requestCaller.finish: the interface responder is called":                                                oneResponse,
	"internal/relay/conn/flow.go: flow.take: Conn.refuse is called: the interface link is called, by way of Conn.respond":                      oneCall,
	"internal/relay/conn/flow.go: flow.take: Conn.serveRequest is called: a line is logged":                                                    oneCall,
	"internal/relay/conn/flow.go: flow.take: flow.forward is called: the callback Notice is called":                                            oneCall,
	"internal/relay/conn/flow.go: flow.take: flow.takeProgress is called: the interface caller is called":                                      oneCall,
	"internal/relay/conn/flow.go: flow.take: flow.takeLog is called: the interface caller is called":                                           oneCall,
	"internal/workbench/tape/play.go: pipePlay.line: the interface to is called":                                                               oneTape,
	"internal/workbench/tape/play.go: pipePlay.close: the interface to is called":                                                              oneTape,
	"internal/workbench/tape/call.go: Recorder.Wire: Recorder.write is called: the interface w is called":                                      oneTape,
	"internal/workbench/tape/recorder.go: Recorder.line: Recorder.write is called: the interface w is called":                                  oneTape,
	"internal/workbench/tape/recorder.go: Recorder.closed: Recorder.write is called: the interface w is called":                                oneTape,
	"internal/workbench/tape/recorder.go: Recorder.head: Recorder.write is called: the interface w is called":                                  oneTape,
	"internal/workbench/tape/recorder.go: Recorder.part: Recorder.write is called: the interface w is called":                                  oneTape,
	"internal/app/telemetry/log.go: Log.catchUp: a line is logged":                                                                             oneLog,
	"internal/app/telemetry/log.go: Log.catchUp: Log.write is called: the callback Step is called":                                             oneLog,
	"internal/server/lines/lines.go: Conn.send: the interface out is called":                                                                   oneOutput,
}

// These are the reasons in lockExceptions. They mean that the lock only orders the writes to one target.
const (
	leftOnce    = "Left only looks into memory, and whoever gets what was left has to begin to open the session before another call chooses one"
	drafts      = "drafts.mu is of the drafts of one project, and Homes.Parse reads a text and secrets that are in memory"
	signs       = "Options.Credentials makes an object and waits for nobody"
	drawing     = "status.mu is of one terminal"
	oneResponse = "requestCaller.writing is of one response: one event after another, nothing after the answer"
	oneCall     = "flow.taking is of one call: its messages in their order"
	oneOutput   = "Conn.mu is of one output: one message after another"
	oneLog      = "Log.turn is of one log: its records in their order"
	oneTape     = "the lock is of one tape or one replay: its sections in their order"
)
