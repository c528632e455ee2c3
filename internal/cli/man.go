package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func (a *app) manCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "man [DIR]",
		Short: "Print or write the manual pages",
		Long: `Write one manual page for each command into the directory DIR, which is created
if it does not exist. Without DIR, print the main page.

The deb, rpm and other packages contain these pages. Use this command after "go
install", or if you copied only the program.`,
		Example: `  # Read the main page.
  dragoman man | man -l -

  # Install all pages for the current user.
  dragoman man ~/.local/share/man/man1`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usagef("use `dragoman man DIR`", "%s takes one directory, but %q was given too", c.CommandPath(), args[1])
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			pages := manPages(c.Root())
			if len(args) == 0 {
				_, err := a.stdout.Write(pages[0].roff)
				return err
			}
			if err := writeManPages(args[0], pages); err != nil {
				return err
			}
			if !a.quiet {
				a.status.Printf("%d manual pages are in %s", len(pages), args[0])
			}
			return nil
		},
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return nil, cobra.ShellCompDirectiveFilterDirs
		},
	}
}

// manPage is a manual page: its file name and its source in the roff format; see man(7).
type manPage struct {
	file string
	roff []byte
}

func writeManPages(dir string, pages []manPage) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		if st, e := os.Stat(dir); e == nil && !st.IsDir() {
			return usagef("name a directory", "%s is not a directory", dir)
		}
		return fmt.Errorf("cannot create the directory: %w", err)
	}
	for _, p := range pages {
		if err := os.WriteFile(filepath.Join(dir, p.file), p.roff, 0o644); err != nil {
			return fmt.Errorf("cannot write a manual page: %w", err)
		}
	}
	return nil
}

// manPages returns the pages of root and of all commands below root. The page of root is the first.
func manPages(root *cobra.Command) (pages []manPage) {
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		pages = append(pages, manPage{manName(c) + ".1", manRoff(c)})
		for _, sub := range manCommands(c) {
			walk(sub)
		}
	}
	walk(root)
	return pages
}

// manCommands returns the subcommands of c that have a manual page.
func manCommands(c *cobra.Command) (out []*cobra.Command) {
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() && sub.Name() != "help" && c.Name() != "completion" {
			out = append(out, sub)
		}
	}
	return out
}

func manName(c *cobra.Command) string { return strings.ReplaceAll(c.CommandPath(), " ", "-") }

// manRoff returns the manual page of a command in the roff format.
func manRoff(c *cobra.Command) []byte {
	r := &roff{}
	r.line(`.TH "%s" "1" "%s" "dragoman %s" "Dragoman Manual"`, roffText(strings.ToUpper(manName(c))), commitDate(), roffText(version()))
	r.line(".nh") // no hyphenation, because users could not search or copy hyphenated flags
	r.line(".ad l")
	r.section("NAME")
	r.line(`%s \- %s`, roffText(manName(c)), roffText(c.Short))
	r.section("SYNOPSIS")
	use := c.UseLine()
	switch {
	case isGroup(c):
		use = c.CommandPath() + " COMMAND"
	case len(c.Commands()) > 0:
		use += "\n" + c.CommandPath() + " COMMAND"
	}
	r.line(".nf")
	r.text(use)
	r.line(".fi")
	r.section("DESCRIPTION")
	r.prose(c.Long)
	if subs := manCommands(c); len(subs) > 0 {
		r.section("COMMANDS")
		for _, sub := range subs {
			r.item(sub.Name(), sub.Short+".")
		}
	}
	flags := c.NonInheritedFlags()
	if !c.HasParent() {
		flags = pflag.NewFlagSet("", pflag.ContinueOnError)
		flags.SortFlags = false
		c.PersistentFlags().VisitAll(flags.AddFlag)
		c.LocalNonPersistentFlags().VisitAll(flags.AddFlag)
	}
	r.flags("OPTIONS", flags)
	if c.HasParent() {
		r.flags("OPTIONS OF EVERY COMMAND", c.InheritedFlags())
	}
	if c.Example != "" {
		r.section("EXAMPLES")
		r.literal(unindented(c.Example))
	}
	if !c.HasParent() {
		r.section("FILES")
		for _, f := range manFiles {
			r.item(f[0], f[1])
		}
		r.section("ENVIRONMENT")
		for _, e := range manEnvironment {
			r.item(e[0], e[1])
		}
	}
	r.section("SEE ALSO")
	var see []string
	for _, other := range append([]*cobra.Command{c.Parent()}, manCommands(c)...) {
		if other != nil {
			see = append(see, `\fB`+roffText(manName(other))+`\fR(1)`)
		}
	}
	r.line("%s", strings.Join(append(see, "https://github.com/dragoman-mcp/dragoman"), ",\n"))
	return r.b
}

// manFiles and manEnvironment describe the files and the environment variables that all
// commands use.
var (
	manFiles = [][2]string{
		{"./dragoman.yaml, ./dragoman.yml, ./dragoman.json", "The configuration, if the working directory has one of these files."},
		{"~/.config/dragoman/config.yaml", "The configuration if the working directory has none. XDG_CONFIG_HOME replaces the directory ~/.config."},
		{"/etc/dragoman/dragoman.yaml", "The configuration of the system service that the packages for Linux install."},
	}
	manEnvironment = [][2]string{
		{"XDG_CONFIG_HOME", "The directory in which dragoman/config.yaml is searched. The default is ~/.config."},
		{"NO_COLOR", "If it is not empty, the output has no colours."},
		{"DRAGOMAN_SERVER_NAME, DRAGOMAN_SERVER_TITLE, DRAGOMAN_SERVER_VERSION", "The name, the title and the version with which serve presents itself. They override the configuration."},
		{"GOMEMLIMIT, GOGC", "Limits of the garbage collector. If GOGC is unset, Dragoman chooses both."},
	}
)

// commitDate returns the date of the commit from which this program was built, or "" if the build
// information has no date. The pages contain this date and not the current date, so that two builds
// of the same commit write the same pages.
func commitDate() string {
	if b, ok := debug.ReadBuildInfo(); ok {
		for _, s := range b.Settings {
			if s.Key == "vcs.time" {
				day, _, _ := strings.Cut(s.Value, "T")
				return day
			}
		}
	}
	return ""
}

// unindented removes the indentation of two spaces from each line of an example.
func unindented(s string) string {
	lines := strings.Split(s, "\n")
	for i := range lines {
		lines[i] = strings.TrimPrefix(lines[i], "  ")
	}
	return strings.Join(lines, "\n")
}

// roff collects the source of a manual page.
type roff struct{ b []byte }

// line adds a line in the roff format. The caller must escape the arguments.
func (r *roff) line(format string, args ...any) {
	r.b = append(fmt.Appendf(r.b, format, args...), '\n')
}

func (r *roff) section(title string) { r.line(".SH %s", title) }

// text adds plain text. It escapes the text.
func (r *roff) text(s string) { r.line("%s", roffText(s)) }

// item adds a term and its explanation.
func (r *roff) item(term, text string) {
	r.line(".TP")
	r.line(`\fB%s\fR`, roffText(term))
	r.text(text)
}

// literal adds text and keeps its line breaks and spaces.
func (r *roff) literal(s string) {
	r.line(".RS 4")
	r.line(".nf")
	r.text(strings.TrimRight(s, "\n"))
	r.line(".fi")
	r.line(".RE")
}

// prose adds text. It lets roff wrap the lines of paragraphs, and keeps the lines of indented
// blocks and lists.
func (r *roff) prose(s string) {
	for i, block := range strings.Split(strings.Trim(s, "\n"), "\n\n") {
		if i > 0 {
			r.line(".PP")
		}
		var filled, kept []string
		flush := func() {
			if len(filled) > 0 {
				r.text(strings.Join(filled, "\n"))
			}
			if len(kept) > 0 {
				r.literal(strings.Join(kept, "\n"))
			}
			filled, kept = nil, nil
		}
		for l := range strings.SplitSeq(block, "\n") {
			indented := strings.HasPrefix(l, "  ") || strings.HasPrefix(l, "- ")
			if !indented && len(kept) > 0 {
				flush()
			}
			if indented {
				kept = append(kept, strings.TrimPrefix(l, "  "))
			} else {
				filled = append(filled, l)
			}
		}
		flush()
	}
}

// flags adds a section that describes a set of flags. It adds nothing if no flag in the set is
// available.
func (r *roff) flags(title string, set *pflag.FlagSet) {
	if !set.HasAvailableFlags() {
		return
	}
	r.section(title)
	set.VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Deprecated != "" {
			return
		}
		name, usage := pflag.UnquoteUsage(f)
		term := `\fB\-\-` + roffText(f.Name) + `\fR`
		if f.Shorthand != "" {
			term = `\fB\-` + roffText(f.Shorthand) + `\fR, ` + term
		}
		if name != "" && f.Value.Type() != "bool" {
			term += `=\fI` + roffText(name) + `\fR`
		}
		r.line(".TP")
		r.line("%s", term)
		if d := f.DefValue; !strings.Contains(usage, "default") && d != "" && d != "false" && d != "0" && d != "[]" && d != "0s" {
			usage += " (default: " + d + ")"
		}
		r.text(strings.ToUpper(usage[:min(1, len(usage))]) + usage[min(1, len(usage)):] + ".")
	})
}

// roffText escapes plain text for roff. Without escaping, a line that starts with a period or an
// apostrophe would be a roff command, and roff would print a hyphen as a typographic hyphen.
func roffText(s string) string {
	s = strings.NewReplacer(`\`, `\e`, "-", `\-`, "'", `\(aq`, "`", "\\(ga", "^", `\(ha`, "~", `\(ti`, `"`, `\(dq`, "…", "...").Replace(s)
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		if strings.HasPrefix(l, ".") {
			lines[i] = `\&` + l
		}
	}
	return strings.Join(lines, "\n")
}
