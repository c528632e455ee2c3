package archtest

// layers runs from the ground up; a package imports only layers before its own.
// The rooms of one layer are siblings and never import each other: whoever
// consumes something declares the interface, and daemon introduces them. A room
// includes the folders below it, unless they are rooms themselves.
var layers = [][]string{
	{"internal/excerpt", "internal/identity", "internal/jsonrpc", "internal/loglimit", "internal/work"},
	{"internal/mcp"},
	{"internal/event"},
	{"internal/dialect", "internal/transport"},
	{"internal/handshake"},
	{"internal/conn", "internal/downstream"},
	{"internal/bridge"},
	{
		"internal/codex", "internal/config", "internal/console", "internal/demo", "internal/doctor", "internal/fake", "internal/gateway",
		"internal/policy", "internal/store", "internal/tape", "internal/upstream", "internal/vault", "servers",
	},
	{"internal/runtime"},
	{"internal/matrix"},
	{"internal/admin"},
	{"internal/telemetry"},
	{"internal/daemon"},
	{"internal/cli"},
	{"cmd"},
}

// inner orders the folders of a room among themselves in the same way. A room
// that is not listed orders itself.
var inner = map[string][][]string{
	"internal/transport": {
		{"internal/transport"}, // what the transports share, that folder alone
		{"internal/transport/eventstream"},
		{"internal/transport/httpdoor", "internal/transport/httplink"},
		{"internal/transport/inmem", "internal/transport/sse", "internal/transport/stdio", "internal/transport/streamhttp"},
	},
}

// rigs are for tests only: no product file imports them, and they may import
// whatever they put to the test.
var rigs = []string{"internal/archtest", "internal/leaktest", "internal/netsim", "internal/pipetest", "internal/transcript"}

// wire are the rooms that messages pass through. encoding/json folds case, takes
// the last of duplicate members, replaces invalid UTF-8 and rounds numbers; none
// of it may happen to a message (docs/adr/0002).
var wire = []string{
	"internal/jsonrpc", "internal/mcp", "internal/dialect", "internal/transport",
	"internal/handshake", "internal/conn", "internal/downstream", "internal/upstream", "internal/bridge", "internal/gateway", "internal/demo", "internal/codex",
}

// datesLiveIn is the room of the feature table: the only one that spells and
// compares revisions. datesNamedIn may spell a date, as the key of a codec or the
// name of a profile, and may not compare either.
const datesLiveIn = "internal/mcp"

var datesNamedIn = []string{"internal/dialect", "internal/fake"}

// goStatements are the files that may contain a go statement, with the reason why
// neither sync.WaitGroup.Go nor errgroup does.
var goStatements = map[string]string{
	"internal/transport/stdio/std.go": "a read of a standard input that takes no deadline cannot be unblocked, so nobody can wait for it",
}

// waitGroupRooms are the rooms of the bridge in which an owner that can be closed holds
// its goroutines in a work.Group. waitGroupFields are the files with a struct that has
// a sync.WaitGroup all the same, with the reason why nothing is added after the wait.
var waitGroupRooms = []string{
	"internal/transport", "internal/handshake", "internal/conn", "internal/downstream", "internal/upstream", "internal/bridge", "internal/gateway", "internal/codex", "internal/runtime", "internal/daemon", "internal/telemetry",
}

var waitGroupFields = map[string]string{
	"internal/downstream/door.go":                      "added to by the reader of the pipe alone, which waits",
	"internal/conn/pipe.go":                            "added to once, before anybody has the link",
	"internal/conn/http.go":                            "added to once, before anybody has the conversation",
	"internal/transport/sse/server.go":                 "handlers of net/http lend themselves, under the lock under which Close refuses them",
	"internal/transport/sse/server_link.go":            "added to under the lock under which the conversation is taken away",
	"internal/transport/streamhttp/server_response.go": "added to by the handler of the one request, which waits",
	"internal/transport/stdio/process.go":              "added to before anybody has the process, and by what is waited for",
}

// initFunctions are the files that may contain an init function.
var initFunctions = map[string]string{}

// vagueNames say nothing about what a package provides or adapts.
var vagueNames = []string{"util", "utils", "common", "types", "helper", "helpers", "models", "misc", "shared", "base"}

// Bounds of a package's contract and of a file, in lines.
const (
	contractAtLeast = 5
	contractAtMost  = 20
	fileAtMost      = 900
)

// ownLocks are packages whose locks are held while they write: they play peers for
// tests, and no client or server waits for them.
var ownLocks = []string{"internal/fake"}

// lockExceptions are what may be done under a lock, "file: function: what", with the
// reason why it holds up nobody else. See docs/threads.md.
var lockExceptions = map[string]string{
	"internal/cli/status.go: status.tick: the callback width is called":                                                                              drawing,
	"internal/cli/status.go: status.Write: the interface out is called":                                                                              drawing,
	"internal/downstream/ask.go: requestCaller.tell: the interface responder is called":                                                              oneResponse,
	"internal/downstream/ask.go: requestCaller.finish: the interface responder is called":                                                            oneResponse,
	"internal/conn/flow.go: flow.take: Conn.refuse is called: the interface link is called, by way of Conn.respond":                                  oneCall,
	"internal/conn/flow.go: flow.take: Conn.question is called: a line is logged":                                                                    oneCall,
	"internal/conn/flow.go: flow.take: flow.forward is called: the callback Notice is called":                                                        oneCall,
	"internal/conn/flow.go: flow.take: flow.takeProgress is called: the interface sink is called":                                                    oneCall,
	"internal/conn/flow.go: flow.take: flow.takeLog is called: the interface sink is called":                                                         oneCall,
	"internal/upstream/listen.go: Upstream.heardByAll: Upstream.audienceLocked is called: the interface asker is called, by way of Subscriber.wants": oneRead,
	"internal/upstream/watch.go: Upstream.heard: Upstream.audienceLocked is called: the interface asker is called, by way of Subscriber.wants":       oneRead,
	"internal/upstream/watch.go: Upstream.audienceLocked: Subscriber.wants is called: the interface asker is called":                                 oneRead,
	"internal/upstream/watch.go: Upstream.replayLevel: the interface asker is called":                                                                oneRead,
	"internal/upstream/watch.go: Upstream.SetLevel: the interface asker is called":                                                                   oneRead,
	"internal/tape/play.go: pipePlay.line: the interface to is called":                                                                               oneTape,
	"internal/tape/play.go: pipePlay.close: the interface to is called":                                                                              oneTape,
	"internal/tape/recorder.go: Recorder.line: Recorder.write is called: the interface w is called":                                                  oneTape,
	"internal/tape/recorder.go: Recorder.closed: Recorder.write is called: the interface w is called":                                                oneTape,
	"internal/tape/recorder.go: Recorder.head: Recorder.write is called: the interface w is called":                                                  oneTape,
	"internal/tape/recorder.go: Recorder.part: Recorder.write is called: the interface w is called":                                                  oneTape,
}

// The reasons of lockExceptions: keeping writes apart is what these locks are for.
const (
	drawing     = "status.mu is of one terminal"
	oneResponse = "requestCaller.writing is of one response: one event after another, nothing after the answer"
	oneCall     = "flow.taking is of one call: its messages in their order"
	oneRead     = "mcp.Subscriber.Facts is one atomic read"
	oneTape     = "the lock is of one tape or one replay: its sections in their order"
)
