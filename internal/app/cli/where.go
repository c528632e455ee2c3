package cli

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/screen"
)

// where identifies the server that the user named on the command line: by a URL, by the name of a
// configured server, or by the command that starts the server.
type where struct {
	target  string
	command []string
	file    string // the value of -c; "" if the flag is not set
}

// configured reports whether the user gave the name of a configured server.
func (w where) configured() bool { return len(w.command) == 0 && !isURL(w.target) }

// line returns a command line that runs the Dragoman command verb for the same server, to paste
// into a shell. The strings in words follow the server. If the server is a command, these strings
// precede the -- instead.
func (w where) line(verb string, words ...string) string {
	all := []string{"dragoman", verb}
	if len(w.command) == 0 {
		all = append(all, w.target)
	}
	all = append(all, words...)
	if w.file != "" && w.configured() {
		all = append(all, "-c", w.file)
	}
	for i := range all {
		all[i] = shellWord(all[i])
	}
	if len(w.command) > 0 {
		all = append(all, "--")
		for _, c := range w.command {
			all = append(all, shellWord(c))
		}
	}
	return strings.Join(all, " ")
}

// commandLine is the command line of this process: the name of the Dragoman command and all
// arguments.
type commandLine struct {
	name string
	args []string
}

// maxCommandLine is the maximum length in bytes of a command line in a hint.
const maxCommandLine = 300

// with returns the command line with one more flag, to paste into a shell. The caller quotes flag
// if needed. with returns "" if flag is "", if the new command line is too long or has
// credentials, or for login, which has no flags of a server.
func (l commandLine) with(flag string) string {
	at := slices.Index(l.args, l.name)
	if flag == "" || at < 0 || l.name == "login" {
		return ""
	}
	all := []string{"dragoman"}
	for i, word := range l.args {
		all = append(all, shellWord(word))
		if i == at {
			all = append(all, flag)
		}
	}
	line := strings.Join(all, " ")
	if len(line) > maxCommandLine || excerpt.MaskSecrets(line) != line {
		return ""
	}
	return line
}

// listLine returns a command line that lists one kind of items of the server.
func (w where) listLine(kind string) string {
	if len(w.command) > 0 {
		return w.line("list", kind)
	}
	line := "dragoman list " + kind + " " + shellWord(w.target)
	if w.configured() {
		line += configWords(w.file)
	}
	return line
}

// configWords returns " -c " and the path of the configuration file, quoted for a shell. It returns
// "" for the default file.
func configWords(file string) string {
	if file == "" {
		return ""
	}
	return " -c " + shellWord(file)
}

func shellWord(s string) string { return screen.ShellWord(s) }

// serverWords splits the arguments of a command into the server and the other words. The server is
// the first word, or the command after --. Hints contain verb and rest: verb is the part of the
// command line before the server, and rest is the part after it.
func serverWords(c *cobra.Command, args []string, verb, rest string) (w where, words []string, err error) {
	with := "dragoman " + verb + " " + rest
	if dash := c.ArgsLenAtDash(); dash >= 0 {
		words, w.command = args[:dash], args[dash:]
		switch {
		case len(w.command) == 0:
			return w, nil, usagef("use `"+strings.TrimSpace(with)+" -- COMMAND`", "no command after --")
		case len(words) > 0 && isURL(words[0]) && !strings.HasPrefix(rest, "URI"):
			return w, nil, usagef("remove one of them", "got both %q and a command", words[0])
		}
		return w, words, nil
	}
	if len(args) == 0 {
		use := "dragoman " + verb
		return w, nil, usagef("use `"+strings.TrimSpace(use+" URL "+rest)+"`, `"+strings.TrimSpace(use+" NAME "+rest)+"` or `"+strings.TrimSpace(with)+" -- COMMAND`", "no server given")
	}
	w.target = args[0]
	return w, args[1:], nil
}
