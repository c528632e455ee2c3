package doctor

import (
	"cmp"
	"slices"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/jsonrpc"
)

// Level says how bad a finding is.
type Level string

// The levels, worst first.
const (
	Error   Level = "error"   // clients that keep to the specification fail, or lose something
	Warning Level = "warning" // some clients fail
	Info    Level = "info"    // good to know; nothing is wrong with it
)

// Condition is something that can be found: one row of the table.
type Condition struct {
	Code    string // "DRG-…", stable
	Level   Level
	Title   string // a few words
	Meaning string // to who uses the server
	Fix     string // for who wrote it
	Bridged string // what Dragoman does about it meanwhile
}

// Finding is a condition that was found.
type Finding struct {
	Condition
	// Evidence is what was sent ("> "), what came back ("< ") and what was seen ("# "),
	// a line each: printable, bounded, without the secrets that are known.
	Evidence string
}

// Conditions returns the whole table, by code.
func Conditions() []Condition {
	all := slices.Concat(conditionsOfServers, conditionsOfHTTP, conditionsOfClients)
	slices.SortFunc(all, func(a, b Condition) int { return cmp.Compare(a.Code, b.Code) })
	return all
}

// Lookup returns the condition of a code, in whichever case it is written and with
// or without "DRG-".
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

// severity orders findings: the worst first, and by code.
func severity(a, b Finding) int {
	levels := []Level{Error, Warning, Info}
	if d := slices.Index(levels, a.Level) - slices.Index(levels, b.Level); d != 0 {
		return d
	}
	return cmp.Compare(a.Code, b.Code)
}

// Worst returns the level of the worst finding, "" when there is none.
func Worst(all []Finding) Level {
	if len(all) == 0 {
		return ""
	}
	return slices.MinFunc(all, severity).Level
}

// appendFinding appends a finding as an object.
func appendFinding(dst []byte, f Finding) []byte {
	return appendMembers(dst, "code", f.Code, "level", string(f.Level), "evidence", f.Evidence,
		"meaning", f.Meaning, "fix", f.Fix, "bridged", f.Bridged)
}

// appendMembers appends an object of texts: names and values in turn.
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
