package stdio

import (
	"os"
	"runtime"
	"slices"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/base/pattern"
)

// Missing returns the sorted names of the variables that are in the environment of this process but
// not in env.
func Missing(env []string) []string {
	return missing(os.Environ(), env, runtime.GOOS == "windows")
}

func missing(ours, env []string, windows bool) []string {
	fold := func(name string) string { return name }
	if windows {
		fold = strings.ToUpper
	}
	passed := make(map[string]bool, len(env))
	for _, kv := range env {
		name, _, _ := cutVariable(kv)
		passed[fold(name)] = true
	}
	var names []string
	for _, kv := range ours {
		if name, _, ok := cutVariable(kv); ok && !passed[fold(name)] {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// aboutVariables matches lines that say that a setting is missing. A name without an underscore,
// such as DEBUG or HOST, is also an ordinary word. So Mentioned accepts such a name only in these
// lines, or after a $.
var aboutVariables = pattern.Later(`(?i)\benv|environ|variable|missing|required?\b|not (?:set|defined|provided)|undefined|unset|must (?:be|set)|please (?:set|provide)|keyerror`)

// levels contains the log levels. Mentioned accepts them as names only after a $.
var levels = []string{"TRACE", "DEBUG", "INFO", "WARN", "WARNING", "ERROR", "FATAL"}

// Mentioned returns the elements of names that occur in lines. The parameter lines is the stderr of
// a program. Mentioned returns each name once, in the order of first occurrence. A name must occur
// as a whole word in the same case. Names of one or two characters are ignored.
func Mentioned(lines, names []string) []string {
	const shortest = 3
	known := make(map[string]bool, len(names))
	for _, name := range names {
		if len(name) >= shortest {
			known[name] = true
		}
	}
	var found []string
	for _, line := range lines {
		aboutOne := aboutVariables().MatchString(line)
		words := strings.FieldsFuncSeq(line, func(r rune) bool {
			return r != '_' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
		})
		for word := range words {
			if !known[word] {
				continue
			}
			distinct := strings.Contains(strings.Trim(word, "_"), "_")
			reference := strings.Contains(line, "$"+word) || strings.Contains(line, "${"+word)
			if distinct || reference || aboutOne && !slices.Contains(levels, word) {
				known[word] = false
				found = append(found, word)
			}
		}
	}
	return found
}
