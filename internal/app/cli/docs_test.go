package cli

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// TestReference compares docs/cli.md with the commands. With -update it writes the file.
func TestReference(t *testing.T) {
	var b bytes.Buffer
	b.WriteString("<!-- Code generated from the commands by `go test ./internal/app/cli -update`; DO NOT EDIT. -->\n\n# The command line\n")
	reference(&b, Command())
	path := filepath.Join("..", "..", "..", "docs", "cli.md")
	if *update {
		if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	old, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(old), b.String()); d != "" {
		t.Errorf("docs/cli.md is stale; run `go test ./internal/app/cli -update`:\n%s", d)
	}
}

func reference(b *bytes.Buffer, c *cobra.Command) {
	if c.HasParent() {
		fmt.Fprintf(b, "\n## %s\n\n%s.\n", c.CommandPath(), c.Short)
	}
	use := c.UseLine()
	switch {
	case !c.Runnable() || isGroup(c):
		use = c.CommandPath() + " COMMAND"
	case len(c.Commands()) > 0:
		use += "\n" + c.CommandPath() + " COMMAND"
	}
	fmt.Fprintf(b, "\n```\n%s\n```\n\n%s\n", use, strings.TrimSpace(c.Long))
	if c.Example != "" {
		fmt.Fprintf(b, "\n```sh\n%s\n```\n", unindented(c.Example))
	}
	flags := c.NonInheritedFlags()
	title := "Flags"
	if !c.HasParent() {
		title = "Flags of every command"
		flags = pflag.NewFlagSet("", pflag.ContinueOnError)
		c.PersistentFlags().VisitAll(flags.AddFlag)
		flags.AddFlag(c.Flag("help"))
	}
	if flags.HasAvailableFlags() {
		fmt.Fprintf(b, "\n%s:\n\n```\n%s```\n", title, strings.TrimRight(flags.FlagUsages(), "\n")+"\n")
	}
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() && sub.Name() != "help" && c.Name() != "completion" {
			reference(b, sub)
		}
	}
}

// TestHelp checks the form of the help: line length, examples, and the case of flag
// descriptions.
func TestHelp(t *testing.T) {
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		if c.Name() == "help" || c.HasParent() && c.Parent().Name() == "completion" || c.Hidden {
			return
		}
		path := c.CommandPath()
		if c.Short == "" || strings.HasSuffix(c.Short, ".") || c.Long == "" {
			t.Errorf("%s: want Short and Long, and no full stop in Short", path)
		}
		for l := range strings.Lines(c.Long) {
			if n := len([]rune(strings.TrimRight(l, "\n"))); n > 80 {
				t.Errorf("%s: a line of %d characters: %s", path, n, l)
			}
		}
		examples := 0
		for l := range strings.Lines(c.Example) {
			switch l = strings.TrimSpace(l); {
			case strings.HasPrefix(l, "dragoman"), strings.Contains(l, "<(dragoman"):
				examples++
			case l != "" && !strings.HasPrefix(l, "#"):
				t.Errorf("%s: the example %q is not a command", path, l)
			}
		}
		if examples < 2 {
			t.Errorf("%s: %d examples, want two or more", path, examples)
		}
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if f.Name != "help" && (f.Usage == "" || regexp.MustCompile(`^[A-Z]|\.$`).MatchString(f.Usage)) {
				t.Errorf("%s --%s: %q: want lower case and no full stop", path, f.Name, f.Usage)
			}
		})
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(Command())
}

// TestCommandNames checks the names of the commands, which are a contract with scripts.
func TestCommandNames(t *testing.T) {
	var got []string
	for _, c := range Command().Commands() {
		if !c.Hidden {
			got = append(got, c.Name())
		}
	}
	if want := "add audit backup bug call calls complete completion config connect console disable doctor enable examples fake healthcheck help import keys list login logout logs matrix people projects prompt prompts questions read record reload remove replay restart rules run search secrets serve server show signins status stop tools version"; strings.Join(got, " ") != want {
		t.Errorf("commands %s, want %s", strings.Join(got, " "), want)
	}
}

// unindented removes the indentation of two spaces from each line of an example.
func unindented(s string) string {
	return strings.TrimPrefix(strings.ReplaceAll(s, "\n  ", "\n"), "  ")
}
