//go:build unix

package main

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// builtIn contains the servers of `dragoman server`, by name. The function makes the files that the
// server needs in the folder dir, and returns the arguments that start the server.
//
// The suite tests servers over HTTP, but these servers use stdio. So Dragoman is always between the
// suite and the server. `dragoman doctor` tests these servers directly, in each revision
// (internal/app/cli, script server.txtar).
var builtIn = map[string]func(dir string) ([]string, error){
	"filesystem": func(dir string) ([]string, error) {
		root := filepath.Join(dir, "root")
		err := errors.Join(os.MkdirAll(filepath.Join(root, "folder"), 0o755), os.WriteFile(filepath.Join(root, "folder", "a.txt"), []byte("hello\n"), 0o644))
		return []string{"server", "filesystem", root}, err
	},
	"requirements": func(dir string) ([]string, error) {
		return []string{"server", "requirements", "--example", "--db", filepath.Join(dir, "requirements.db")}, nil
	},
}

// builtInOf splits the name of a way to a server, such as "run-filesystem", into the command and
// the name. ok reports whether the name is a built-in server.
func builtInOf(via string) (how, name string, ok bool) {
	how, name, ok = strings.Cut(via, "-")
	return how, name, ok && builtIn[name] != nil
}

// These are the reasons why a scenario or a check does not apply to a server.
const (
	wantsTool       = "it calls a tool of the suite's example server"
	wantsResource   = "it reads a resource of the suite's example server"
	wantsPrompt     = "it gets a prompt of the suite's example server"
	wantsLogging    = "the server sends no log messages, so it does not declare logging"
	wantsHeader     = "no tool of the server has an x-mcp-header"
	lacksPrompts    = "the server has no prompts"
	lacksCompletion = "the server completes nothing"
)

// foreign are the scenarios of both eras that need the tools, resources or prompts of the suite's
// example server.
var foreign = map[string][]string{
	wantsTool: {
		"tools-call-simple-text", "tools-call-image", "tools-call-audio", "tools-call-embedded-resource", "tools-call-mixed-content",
		"tools-call-error", "tools-call-with-progress", "json-schema-2020-12",
	},
	wantsResource: {"resources-read-text", "resources-read-binary", "resources-templates-read"},
	wantsPrompt:   {"prompts-get-simple", "prompts-get-with-args", "prompts-get-embedded-resource", "prompts-get-with-image"},
}

// foreignIn are the scenarios of only one revision that do not apply, by revision and reason.
var foreignIn = map[string]map[string][]string{
	"2025-11-25": {
		wantsTool:     {"tools-call-sampling", "tools-call-elicitation", "elicitation-sep1034-defaults", "elicitation-sep1330-enums"},
		wantsResource: {"resources-subscribe", "resources-unsubscribe"},
		wantsLogging:  {"logging-set-level", "tools-call-with-logging"},
	},
	"2026-07-28": {
		wantsTool: {
			"input-required-result-basic-elicitation", "input-required-result-basic-sampling", "input-required-result-basic-list-roots",
			"input-required-result-request-state", "input-required-result-multiple-input-requests", "input-required-result-multi-round",
			"input-required-result-result-type", "input-required-result-tampered-state", "input-required-result-capability-check",
		},
		wantsPrompt: {"input-required-result-non-tool-request"},
		wantsHeader: {"http-custom-header-server-validation"},
	},
}

// foreignChecks are the checks that do not apply, although their scenarios apply.
var foreignChecks = map[string][]string{wantsTool: {
	"sep-2575-server-rejects-undeclared-capability", "sep-2575-missing-capability-http-400",
	"sep-2575-http-server-no-independent-requests-on-stream", "sep-2575-server-no-log-without-loglevel",
}}

// builtInLegs returns the legs of a built-in server in both eras, through `run` and `serve`. own
// and ownChecks are further scenarios and checks that do not apply to this server, by reason. All
// other scenarios of the suite must pass.
func builtInLegs(name string, own, ownChecks map[string][]string) (all []leg) {
	for _, how := range []string{"run", "serve"} {
		for _, of := range []struct {
			rev string
			n   int
		}{{"2025-11-25", 33}, {"2026-07-28", 40}} {
			all = append(all, leg{
				side: "server", via: how + "-" + name, rev: of.rev, all: true, want: of.n, of: of.n,
				excused: reasons(foreign, foreignIn[of.rev], own), excusedChecks: reasons(foreignChecks, ownChecks),
			})
		}
	}
	return all
}

// reasons inverts lists, each of which maps a reason to names. It returns the reason for each
// name.
func reasons(lists ...map[string][]string) map[string]string {
	out := map[string]string{}
	for _, list := range lists {
		for reason, names := range list {
			for _, n := range names {
				out[n] = reason
			}
		}
	}
	return out
}

// without returns the outcome without the failures of excused checks.
func (o outcome) without(excused map[string]string) outcome {
	if len(excused) == 0 {
		return o
	}
	return slices.DeleteFunc(slices.Clone(o), func(c check) bool { return c.Status == "FAILURE" && excused[c.ID] != "" })
}
