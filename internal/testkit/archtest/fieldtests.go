package archtest

import (
	"fmt"
	"go/ast"
	"maps"
	"regexp"
	"slices"
	"strconv"
)

// fieldTests lists failures of MCP bridges that occurred in practice, by number. The name of a test
// for failure 7 must begin with TestT7_, so that developers can find the test. A failure may have
// several tests, in several packages.
var fieldTests = map[int]string{
	1:  "a modern-only client before servers of both eras",
	2:  "a legacy-only client before servers of both eras",
	3:  "server/discover, then initialize, on one pipe",
	4:  "which calls of a modern client share a legacy server's session",
	5:  "the answer to a question of a running call comes under another id",
	6:  "several clients are asked at once over one pipe",
	7:  "a requestState in the hands of another user",
	8:  "requestStates that are absent, empty, large or not ASCII",
	9:  "a retry with other parameters",
	10: "a server that asks for input without a question",
	11: "a restart while a call is parked",
	12: "a client that is gone",
	13: "how servers answer the probe",
	14: "a server that has changed its era",
	15: "one session of a federation ends",
	16: "a token rotates",
	17: "a slow server and a dead one",
	18: "lists in pages",
	19: "names that collide or are unfit",
	20: "renamed tools and mirrored headers",
	21: "listening to many resources, and twice under one id",
	22: "whose log level sends messages to whom",
	23: "colliding progress tokens",
	24: "reserved keys of _meta and trace context",
	25: "the cache scope of lists that are not the server's own",
	26: "error codes and statuses of each era",
	27: "HTTP+SSE on either side",
	28: "children that misbehave on their streams and at their end",
}

var fieldTestName = regexp.MustCompile(`^TestT(\d+)(.?)`)

// FieldTests reports each failure that has no test. It also reports each test whose name begins
// like the name of such a test but does not follow the pattern exactly.
func FieldTests(t *Tree, all map[int]string) (breaches []string) {
	missing := maps.Clone(all)
	for _, f := range t.Files {
		if !f.Test {
			continue
		}
		for _, d := range f.AST.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Recv != nil {
				continue
			}
			m := fieldTestName.FindStringSubmatch(fn.Name.Name)
			if m == nil {
				continue
			}
			n, err := strconv.Atoi(m[1])
			if _, known := all[n]; err != nil || !known || m[1] != strconv.Itoa(n) || m[2] != "_" {
				breaches = append(breaches, fmt.Sprintf("%s: %s: a test of the field is called TestT and the number of a failure, without zeros before it, an underscore, and what it tests", t.at(fn), fn.Name.Name))
				continue
			}
			delete(missing, n)
		}
	}
	for _, n := range slices.Sorted(maps.Keys(missing)) {
		breaches = append(breaches, fmt.Sprintf("no test is called TestT%d_…: %s", n, missing[n]))
	}
	return breaches
}
