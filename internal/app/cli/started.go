package cli

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
)

// Bounds of what consent shows. Whoever wrote the file may try to hide a line behind many others.
const (
	mostStarted   = 20  // servers, and variables of one server
	widestStarted = 200 // bytes of a command line
	widestValue   = 80  // bytes of each other text
)

// startedBy describes, for people, what each server of a configuration starts, and the command that
// prints Dragoman's instructions. The description includes what changes the meaning of a command, such
// as the variable PATH. The servers of other projects are there too, since serve starts them.
func startedBy(s *config.Snapshot) (all []string) {
	servers := startedIn(s, "")
	if len(s.Identity.Instructions.Command) > 0 {
		all, servers = slices.Clone(servers[:1]), servers[1:] // always there, however many servers follow
	}
	for _, p := range s.Projects {
		if p.Config != nil {
			servers = append(servers, startedIn(p.Config, clean(p.Name)+"/")...)
		}
	}
	all = append(all, servers[:min(len(servers), mostStarted)]...)
	switch {
	case len(servers) > mostStarted:
		return append(all, fmt.Sprintf("%d more servers", len(servers)-mostStarted))
	case len(all) == 0:
		return []string{"no server"}
	}
	return all
}

// startedIn describes the command for the instructions of one project, and then what each of its servers
// starts. project is its name with a slash, or "" for default.
func startedIn(s *config.Snapshot, project string) (all []string) {
	if words := s.Identity.Instructions.Command; len(words) > 0 {
		all = append(all, "for the instructions of "+cmp.Or(strings.TrimSuffix(project, "/"), "serve")+": "+line(excerpt.Arguments(words, excerpt.Mask)))
	}
	for i := range s.Servers {
		x := &s.Servers[i]
		if x.Disabled || x.Shared {
			continue
		}
		what := clean(excerpt.Cut(x.Describe(), widestStarted))
		if words := x.CommandLine(); len(words) > 0 {
			what = line(words) + surroundings(x)
		}
		all = append(all, project+clean(x.Name)+": "+what)
	}
	return all
}

// line returns a command line to read, quoted like for a shell.
func line(words []string) string {
	quoted := make([]string, len(words))
	for i := range words {
		quoted[i] = shellWord(words[i])
	}
	return clean(excerpt.Cut(strings.Join(quoted, " "), widestStarted))
}

// surroundings describes the working directory of a command and the variables that it gets, in
// parentheses. It returns "" if the configuration sets neither. It shows the values only of variables
// that say which code runs.
func surroundings(s *config.Server) string {
	var all []string
	short := func(text string) string { return clean(excerpt.Cut(text, widestValue)) }
	if s.Dir != "" {
		all = append(all, "in "+short(s.Dir))
	}
	names := slices.SortedFunc(maps.Keys(s.Env), func(a, b string) int {
		if x, y := choosesCode(a), choosesCode(b); x != y {
			return map[bool]int{true: -1, false: 1}[x]
		}
		return cmp.Compare(a, b)
	})
	var env []string
	for i, name := range names {
		if i == mostStarted {
			env = append(env, fmt.Sprintf("%d more", len(names)-i))
			break
		}
		text := short(name)
		if choosesCode(name) {
			text += "=" + short(s.EnvForPeople(name))
		}
		env = append(env, text)
	}
	if len(env) > 0 {
		all = append(all, "with "+strings.Join(env, ", "))
	}
	if len(s.InheritEnv) > 0 {
		// The shortest pattern, such as *, is probably the one that lets most variables through.
		patterns := slices.SortedStableFunc(slices.Values(s.InheritEnv), func(a, b string) int { return cmp.Compare(len(a), len(b)) })
		all = append(all, "inherits "+short(strings.Join(patterns, ", ")))
	}
	if len(all) == 0 {
		return ""
	}
	return " (" + strings.Join(all, "; ") + ")"
}

// codeVariables are variables that say which program a command name means, or which code a usual
// program loads or runs. A * at the end matches any text.
var codeVariables = []string{
	"PATH", "PATHEXT", "COMSPEC", "SHELL", "HOME", "USERPROFILE", "APPDATA", "XDG_CONFIG_*", "LD_*", "DYLD_*", "GCONV_PATH",
	"BASH_ENV", "ENV", "ZDOTDIR", "IFS", "PS4", "PROMPT_COMMAND", "EDITOR", "VISUAL", "PAGER", "BROWSER",
	"NODE_OPTIONS", "NODE_PATH", "NPM_CONFIG_*", "BUN_*", "DENO_*", "PYTHON*", "PIP_*", "UV_*", "VIRTUAL_ENV", "PERL*", "RUBY*", "GEM_*", "BUNDLE_*", "PHP*",
	"LUA_*", "JAVA_*", "JDK_*", "_JAVA_OPTIONS", "CLASSPATH", "DOTNET_*", "CORECLR_*", "COR_*", "GIT_*", "SSH_ASKPASS", "GOFLAGS", "GOPROXY", "CARGO_*", "RUSTC*", "DOCKER_*",
}

// choosesCode reports whether a variable can change which code a command runs.
func choosesCode(name string) bool {
	name = strings.ToUpper(name) // the names of npm are lower case, and those of Windows have any case
	return slices.ContainsFunc(codeVariables, func(known string) bool {
		begin, more := strings.CutSuffix(known, "*")
		return name == known || more && strings.HasPrefix(name, begin)
	})
}
