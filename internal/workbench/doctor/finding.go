package doctor

import (
	"cmp"
	"slices"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
)

// Level is the severity of a finding.
type Level string

// The levels, worst first.
const (
	Error   Level = "error"   // clients that follow the specification fail, or cannot use a feature
	Warning Level = "warning" // some clients fail
	Info    Level = "info"    // for information; nothing is wrong
)

// Condition is a fault or a fact that the doctor can find. The table has one condition for each code.
type Condition struct {
	Code    string // the stable code, "DRG-…"
	Level   Level
	Title   string // the title, in a few words
	Meaning string // the consequences for users
	Fix     string // the change that the author of the server or client should make
	Bridged string // what Dragoman does until the fault is corrected
}

// Finding is a condition that was found, with its evidence.
type Finding struct {
	Condition
	// Evidence has one line for each message sent ("> "), message received ("< ") and
	// observation ("# "). It has limited length, only printable characters, and no known secrets.
	Evidence string
}

// Conditions returns the whole table, sorted by code.
func Conditions() []Condition {
	all := slices.Concat(conditionsOfServers, conditionsOfHTTP, conditionsOfSignIn, conditionsOfClients)
	slices.SortFunc(all, func(a, b Condition) int { return cmp.Compare(a.Code, b.Code) })
	return all
}

// Lookup returns the condition of a code. Case does not matter, and the prefix "DRG-" is
// optional.
func Lookup(code string) (Condition, bool) {
	code = strings.ToUpper(strings.TrimSpace(code))
	if !strings.HasPrefix(code, "DRG-") {
		code = "DRG-" + code
	}
	for _, c := range Conditions() {
		if c.Code == code {
			return c, true
		}
	}
	return Condition{}, false
}

// severity orders findings by level, worst first, then by the number of affected clients, and
// then by code.
func severity(a, b Finding) int {
	levels := []Level{Error, Warning, Info}
	if d := slices.Index(levels, a.Level) - slices.Index(levels, b.Level); d != 0 {
		return d
	}
	return cmp.Or(cmp.Compare(b.reach(), a.reach()), cmp.Compare(a.Code, b.Code))
}

// Worst returns the level of the worst finding, or "" if there are no findings.
func Worst(all []Finding) Level {
	if len(all) == 0 {
		return ""
	}
	return slices.MinFunc(all, severity).Level
}

// appendFinding appends a finding as a JSON object.
func appendFinding(dst []byte, f Finding) []byte {
	dst = appendMembers(dst, "code", f.Code, "level", string(f.Level), "evidence", f.Evidence,
		"meaning", f.Meaning, "fix", f.Fix, "bridged", f.Bridged)
	if h := f.Hurts(); len(h) > 0 {
		dst = jsonrpc.AppendStrings(append(dst[:len(dst)-1], `,"hurts":`...), h)
		dst = append(dst, '}')
	}
	return dst
}

// appendMembers appends a JSON object whose values are strings. pairs has each name followed by its
// value.
func appendMembers(dst []byte, pairs ...string) []byte {
	dst = append(dst, '{')
	for i := 0; i+1 < len(pairs); i += 2 {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(jsonrpc.AppendQuote(dst, pairs[i]), ':')
		dst = jsonrpc.AppendQuote(dst, pairs[i+1])
	}
	return append(dst, '}')
}
