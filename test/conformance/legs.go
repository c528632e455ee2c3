//go:build unix

package main

import (
	"slices"
	"strings"
)

// leg is one run of the suite: the processes between client and server, and the expected
// result.
type leg struct {
	// side is what the suite tests: "server", as a client; "client", as a server; "authorization", an authorization server,
	// as a client of it.
	side string
	via  string // how Dragoman is connected; see build in stage.go
	rev  string // the revision that the suite uses
	all  bool   // run every scenario for rev, because the suite has no frozen set of requirements for it

	whole bool // no check of the scenarios may be skipped

	// If only is not empty, it names the scenarios to run instead of a set. Each scenario has its
	// own run.
	only []string

	// also names further scenarios that count, although the frozen set does not include them.
	also []string

	// each runs every scenario in a run of its own, and fails it for a warning, and for a client that
	// fails or takes too long.
	each bool

	// want is the number of scored scenarios that must pass, and of is the size of the set.
	// The leg fails if fewer pass. It also fails if the set has another size, because then the
	// expectation must be reviewed.
	want, of int
	// excused has the scored scenarios that do not have to pass, with the reasons. If such a
	// scenario passes, the leg reports it, so that it can be removed from the list. excusedChecks has
	// single checks that do not have to pass. The other checks of their scenarios count.
	excused, excusedChecks map[string]string
}

func (l *leg) name() string { return l.side + "/" + l.via + "/" + l.rev }

// legs is the table of expected results. The scored sets come from the suite
// (requirements/REV.yaml), which freezes them for each revision. For a revision without such a file,
// the suite runs all its scenarios.
//
// For 2024-11-05, the suite has no scenario for HTTP+SSE.
var legs = slices.Concat(
	sdkLegs,
	signInLegs,
	builtInLegs("filesystem", map[string][]string{lacksPrompts: {"prompts-list"}, lacksCompletion: {"completion-complete"}},
		map[string][]string{lacksPrompts: {"sep-2549-prompts-list-caching-hints"}}),
	builtInLegs("requirements", map[string][]string{wantsPrompt: {"completion-complete"}}, nil),
)

// sdkLegs are the legs with the server and the client of the official Go SDK.
var sdkLegs = []leg{
	{side: "server", via: "run", rev: "2025-11-25", want: 30, of: 30},
	{side: "server", via: "run", rev: "2026-07-28", want: 37, of: 37},
	{side: "server", via: "run", rev: "2025-06-18", all: true, want: 27, of: 27},
	{side: "server", via: "run", rev: "2025-03-26", all: true, want: 1, of: 1},

	{side: "server", via: "serve", rev: "2025-11-25", want: 30, of: 30},
	{side: "server", via: "serve", rev: "2026-07-28", want: 37, of: 37},
	{side: "server", via: "serve", rev: "2025-06-18", all: true, want: 27, of: 27},
	{side: "server", via: "serve", rev: "2025-03-26", all: true, want: 1, of: 1},

	// Here every client needs an API key, and rules, pins and the audit are on.
	{side: "server", via: "serve-key", rev: "2025-11-25", want: 30, of: 30},
	{side: "server", via: "serve-key", rev: "2026-07-28", want: 37, of: 37},
	{side: "server", via: "serve-key", rev: "2025-06-18", all: true, want: 27, of: 27},
	{side: "server", via: "serve-key", rev: "2025-03-26", all: true, want: 1, of: 1},

	// Here three replicas share a database, and each request comes to the next one. The last two have a server of a single
	// era, and a client of the other one. They are left out without a PostgreSQL, which .ci/postgres starts.
	{side: "server", via: "replicas", rev: "2025-11-25", want: 30, of: 30},
	{side: "server", via: "replicas", rev: "2026-07-28", want: 37, of: 37},
	{side: "server", via: "replicas-modern-only", rev: "2025-11-25", want: 30, of: 30, excused: modernOnly},
	{side: "server", via: "replicas-legacy-only", rev: "2026-07-28", want: 37, of: 37},

	// These share only a file of keys, which is enough for modern clients of modern servers.
	{side: "server", via: "keyed-replicas", rev: "2026-07-28", want: 37, of: 37},

	{side: "server", via: "run-url", rev: "2025-11-25", want: 30, of: 30},
	{side: "server", via: "run-url", rev: "2026-07-28", want: 37, of: 37},

	// These legs test servers of a single era, behind Dragoman, with a client of the other era.
	{side: "server", via: "run-modern-only", rev: "2025-11-25", want: 30, of: 30, excused: modernOnly},
	{side: "server", via: "run-legacy-only", rev: "2026-07-28", want: 37, of: 37},

	// These legs test tasks, which are in no scored set. The server is taskServerMode, in the era
	// of the suite and in the other era.
	{side: "server", via: "run-tasks-modern", rev: "2026-07-28", only: taskScenarios, want: 10, of: 10},
	{side: "server", via: "serve-tasks-modern", rev: "2026-07-28", only: taskScenarios, want: 10, of: 10},
	{side: "server", via: "run-tasks-legacy", rev: "2026-07-28", only: taskScenarios, want: 10, of: 10, excused: legacyTasks},
	{side: "server", via: "serve-tasks-legacy", rev: "2026-07-28", only: taskScenarios, want: 10, of: 10, excused: legacyTasks},

	// These legs test skills, which are in no scored set either. The server is skillsServerMode, in
	// the era of the suite and in the other era, and two of them at the merged endpoint.
	{side: "server", via: "run-skills-modern", rev: "2026-07-28", only: skillsScenarios, whole: true, want: 3, of: 3},
	{side: "server", via: "run-skills-legacy", rev: "2026-07-28", only: skillsScenarios, whole: true, want: 3, of: 3},
	{side: "server", via: "merged-skills", rev: "2026-07-28", only: skillsScenarios, whole: true, want: 3, of: 3},

	{side: "client", via: "run", rev: "2025-11-25", want: 4, of: 4},
	{side: "client", via: "run", rev: "2026-07-28", also: addedLater, want: 8, of: 8},

	// These legs test our own authorization server.
	{side: "authorization", via: "own", rev: "2025-03-26", only: grantScenarios, each: true, want: 2, of: 2},
	{side: "authorization", via: "own", rev: "2025-06-18", only: grantScenarios, each: true, want: 2, of: 2},
	{side: "authorization", via: "own", rev: "2025-11-25", only: grantScenarios, each: true, want: 2, of: 2},
	{side: "authorization", via: "own", rev: "2026-07-28", only: grantScenarios, each: true, want: 2, of: 2},
}

// signInLegs are the scenarios auth/*, in which Dragoman signs in at the suite's authorization server.
// The client behind Dragoman is signInMode.
var signInLegs = []leg{
	{side: "client", via: "sign-in", rev: "2025-03-26", only: withoutMetadata, each: true, want: 2, of: 2},
	{side: "client", via: "sign-in", rev: "2025-06-18", only: tokenMethods, each: true, want: 3, of: 3},
	{side: "client", via: "sign-in", rev: "2025-11-25", also: authExtensions, each: true, want: 20, of: 20},
	{side: "client", via: "sign-in", rev: "2026-07-28", also: authExtensions, each: true, want: 31, of: 31},

	// Here two people sign in, one after the other. The extensions have no people.
	{side: "client", via: "serve-sign-in", rev: "2025-03-26", only: withoutMetadata, each: true, want: 2, of: 2},
	{side: "client", via: "serve-sign-in", rev: "2025-06-18", only: tokenMethods, each: true, want: 3, of: 3},
	{side: "client", via: "serve-sign-in", rev: "2025-11-25", each: true, want: 14, of: 14},
	{side: "client", via: "serve-sign-in", rev: "2026-07-28", each: true, want: 25, of: 25},
}

// withoutMetadata and tokenMethods are the scenarios auth/* of the two revisions without a frozen set.
var (
	withoutMetadata = []string{"auth/2025-03-26-oauth-metadata-backcompat", "auth/2025-03-26-oauth-endpoint-fallback"}
	tokenMethods    = []string{"auth/token-endpoint-auth-basic", "auth/token-endpoint-auth-post", "auth/token-endpoint-auth-none"}
)

// authExtensions are the scenarios for extensions of authorization, which are in no frozen set.
var authExtensions = []string{
	"auth/client-credentials-basic", "auth/client-credentials-jwt", "auth/enterprise-managed-authorization",
	"auth/dpop", "auth/dpop-nonce", "auth/wif-jwt-bearer",
}

// skillsScenarios are the scenarios of the suite for servers with the extension
// io.modelcontextprotocol/skills. Another one is for hosts, which read skills to use them, so it
// cannot test Dragoman.
var skillsScenarios = []string{"sep-2640-skills-enumeration", "sep-2640-skills-manifest", "sep-2640-skills-directory"}

// taskScenarios are the scenarios for the extension io.modelcontextprotocol/tasks. The suite
// itself skips tasks-status-notifications, because the suite cannot test it yet.
var taskScenarios = []string{
	"tasks-lifecycle", "tasks-capability-negotiation", "tasks-wire-fields", "tasks-request-state-removal",
	"tasks-mrtr-input", "tasks-request-headers", "tasks-dispatch-and-envelope", "tasks-status-notifications",
	"tasks-required-task-error", "tasks-mrtr-composition",
}

// legacyTasks are the scenarios that do not pass with a server that has the tasks of
// 2025-11-25.
var legacyTasks = map[string]string{
	"tasks-required-task-error": "a client without tasks is not refused: Dragoman makes the task, waits for it and gives the client its result",
	"tasks-mrtr-composition":    "a server of the older era asks within the task; it cannot ask first and then make one",
}

// addedLater are scenarios of 2026-07-28 that were added after its set was frozen.
var addedLater = []string{"json-schema-2020-12-preservation"}

// modernOnly are the scenarios of 2025-11-25 that do not pass with a server that supports only
// 2026-07-28.
var modernOnly = map[string]string{
	"tools-call-sampling":          asksOnlyLive,
	"tools-call-elicitation":       asksOnlyLive,
	"elicitation-sep1034-defaults": asksOnlyLive,
	"elicitation-sep1330-enums":    asksOnlyLive,
}

const asksOnlyLive = "the server's tool asks on a session; called in the newer era it answers that it cannot ask"

// grantScenarios are the scenarios for authorization servers. All revisions have both.
var grantScenarios = []string{"authorization-server-metadata-endpoint", "authorization-code-grant"}

// directLegs run the SDK's own server and client without Dragoman, and a fake authorization server. They test the test set-up, and
// show what the SDK itself achieves.
var directLegs = []leg{
	{side: "server", via: "direct", rev: "2025-11-25", want: 30, of: 30},
	{side: "server", via: "direct", rev: "2026-07-28", want: 37, of: 37},
	{side: "server", via: "direct", rev: "2025-06-18", all: true, want: 27, of: 27},
	{side: "server", via: "direct", rev: "2025-03-26", all: true, want: 1, of: 1},
	{side: "client", via: "direct", rev: "2025-11-25", want: 4, of: 4},
	{side: "client", via: "direct", rev: "2026-07-28", also: addedLater, want: 8, of: 8},
	{side: "authorization", via: "direct", rev: "2025-03-26", only: grantScenarios, each: true, want: 2, of: 2},
	{side: "authorization", via: "direct", rev: "2025-06-18", only: grantScenarios, each: true, want: 2, of: 2},
	{side: "authorization", via: "direct", rev: "2025-11-25", only: grantScenarios, each: true, want: 2, of: 2},
	{side: "authorization", via: "direct", rev: "2026-07-28", only: grantScenarios, each: true, want: 2, of: 2},
	{side: "client", via: "direct-sign-in", rev: "2025-11-25", each: true, want: 14, of: 14},
	{side: "client", via: "direct-sign-in", rev: "2026-07-28", each: true, want: 25, of: 25},
}

// signsIn reports whether a scenario tests how a client signs in.
func signsIn(scenario string) bool { return strings.HasPrefix(scenario, "auth/") }

func (l *leg) signsIn() bool { return strings.HasSuffix(l.via, "sign-in") }
