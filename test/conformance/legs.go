//go:build unix

package main

import "strings"

// leg is one run of the suite: what stands between which parties, and what has to
// come out of it.
type leg struct {
	side string // "server": the suite is the client; "client": it is the server
	via  string // how Dragoman stands in the way; see startServer
	rev  string // the revision that the suite speaks
	all  bool   // every scenario for rev, where no frozen set of requirements exists

	// only names the scenarios, each run by itself, in place of any set.
	only []string

	// also names scenarios that count although the frozen set does not score them.
	also []string

	// want is the number of scored scenarios that have to pass. Fewer fail the
	// leg; so does a set of another size, because then the promise changed.
	want, of int
	// excused names scored scenarios that need not pass, each with its reason. One
	// that passes all the same is reported, so that the list shrinks.
	excused map[string]string
}

func (l *leg) name() string { return l.side + "/" + l.via + "/" + l.rev }

// legs is the table of promises. The scored sets are the suite's own
// (requirements/REV.yaml), frozen per revision; revisions without such a file run
// everything that the suite has for them.
//
// Not applicable, and therefore in no row:
//   - client scenarios auth/*: they ask the bridge itself to sign in at the
//     suite's authorization server. The client behind the bridge never sees a
//     challenge, so its handling of one cannot be judged through it.
//   - 2024-11-05: the suite has no scenario for HTTP+SSE.
var legs = []leg{
	{side: "server", via: "run", rev: "2025-11-25", want: 30, of: 30},
	{side: "server", via: "run", rev: "2026-07-28", want: 37, of: 37},
	{side: "server", via: "run", rev: "2025-06-18", all: true, want: 27, of: 27},
	{side: "server", via: "run", rev: "2025-03-26", all: true, want: 1, of: 1},

	{side: "server", via: "serve", rev: "2025-11-25", want: 30, of: 30},
	{side: "server", via: "serve", rev: "2026-07-28", want: 37, of: 37},
	{side: "server", via: "serve", rev: "2025-06-18", all: true, want: 27, of: 27},
	{side: "server", via: "serve", rev: "2025-03-26", all: true, want: 1, of: 1},

	{side: "server", via: "run-url", rev: "2025-11-25", want: 30, of: 30},
	{side: "server", via: "run-url", rev: "2026-07-28", want: 37, of: 37},

	// One-era upstreams: the reason why Dragoman exists.
	{side: "server", via: "run-modern-only", rev: "2025-11-25", want: 30, of: 30, excused: modernOnly},
	{side: "server", via: "run-legacy-only", rev: "2026-07-28", want: 37, of: 37},

	// Tasks, which no revision scores: against a server of ours, in the era of the
	// suite, and of the other one.
	{side: "server", via: "run-tasks-modern", rev: "2026-07-28", only: taskScenarios, want: 10, of: 10},
	{side: "server", via: "serve-tasks-modern", rev: "2026-07-28", only: taskScenarios, want: 10, of: 10},
	{side: "server", via: "run-tasks-legacy", rev: "2026-07-28", only: taskScenarios, want: 10, of: 10, excused: legacyTasks},
	{side: "server", via: "serve-tasks-legacy", rev: "2026-07-28", only: taskScenarios, want: 10, of: 10, excused: legacyTasks},

	{side: "client", via: "run", rev: "2025-11-25", want: 4, of: 4},
	{side: "client", via: "run", rev: "2026-07-28", also: addedLater, want: 8, of: 8},
}

// taskScenarios are those for the extension io.modelcontextprotocol/tasks. The suite
// skips tasks-status-notifications itself, for want of a harness.
var taskScenarios = []string{
	"tasks-lifecycle", "tasks-capability-negotiation", "tasks-wire-fields", "tasks-request-state-removal",
	"tasks-mrtr-input", "tasks-request-headers", "tasks-dispatch-and-envelope", "tasks-status-notifications",
	"tasks-required-task-error", "tasks-mrtr-composition",
}

// legacyTasks are those that do not pass in front of a server with the tasks of
// 2025-11-25.
var legacyTasks = map[string]string{
	"tasks-required-task-error": "a client without tasks is not refused: Dragoman makes the task, waits for it and gives the client its result",
	"tasks-mrtr-composition":    "a server of the older era asks within the task; it cannot ask first and then make one",
}

// addedLater are scenarios of 2026-07-28 that came after its set was frozen.
var addedLater = []string{"json-schema-2020-12-preservation"}

// modernOnly are the scenarios of 2025-11-25 that do not pass in front of a server
// that knows 2026-07-28 only.
var modernOnly = map[string]string{
	"tools-call-sampling":          asksOnlyLive,
	"tools-call-elicitation":       asksOnlyLive,
	"elicitation-sep1034-defaults": asksOnlyLive,
	"elicitation-sep1330-enums":    asksOnlyLive,
}

const asksOnlyLive = "the server's tool asks on a session; called in the newer era it answers that it cannot ask"

// directLegs check the rig against the SDK's own server and client. They state
// what the parties reach without anything in between.
var directLegs = []leg{
	{side: "server", via: "direct", rev: "2025-11-25", want: 30, of: 30},
	{side: "server", via: "direct", rev: "2026-07-28", want: 37, of: 37},
	{side: "server", via: "direct", rev: "2025-06-18", all: true, want: 27, of: 27},
	{side: "server", via: "direct", rev: "2025-03-26", all: true, want: 1, of: 1},
	{side: "client", via: "direct", rev: "2025-11-25", want: 4, of: 4},
	{side: "client", via: "direct", rev: "2026-07-28", also: addedLater, want: 8, of: 8},
}

// applicable says whether a scenario can be judged through a bridge at all.
func applicable(scenario string) bool { return !strings.HasPrefix(scenario, "auth/") }
