package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/failure"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
)

const (
	// programTime is how long a program may take to print its version.
	programTime = 5 * time.Second
	// maxSection is the maximum length of a section of the report in bytes.
	maxSection = 64 << 10
)

// bugCommand is `dragoman bug`.
type bugCommand struct {
	*world

	file, out string
}

func newBugCommand(w *world) *cobra.Command {
	c := &bugCommand{world: w}
	cmd := &cobra.Command{
		Use:   "bug [-o FILE] [-c FILE] [URL]",
		Short: "Collect what a bug report needs, with secrets masked",
		Long: `Collect what a bug report needs: versions, the operating system and the
configuration. If "dragoman serve" runs, the report also has its status and its
servers' last failures. Nothing is sent anywhere.

Secrets are masked, and your home directory becomes ~. Names of servers, hosts
and files are not masked, so read the report before you publish it.

To get their versions, the command runs a few programs, such as node and
python3. URL is the address of "dragoman serve". Without it, the command looks
for one as "dragoman status" does.`,
		Example: `  # Write the report to a file that you can attach.
  dragoman bug -o report.md

  # Print the report for another configuration file.
  dragoman bug -c /etc/dragoman/dragoman.yaml`,
		Args:              atMostOneURL,
		RunE:              c.run,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	f := flagsInOrder(cmd)
	f.StringVarP(&c.out, "output", "o", "", "write the report to `FILE`, which must not exist")
	_ = cmd.MarkFlagFilename("output", "md")
	addConfigFlag(cmd, &c.file)
	return cmd
}

func (c *bugCommand) run(cmd *cobra.Command, args []string) error {
	base, err := locator{c.env}.serveURL(cmd.Context(), strings.Join(args, ""), c.file) // args has at most one element
	if err != nil {
		return err
	}
	c.showProgress()
	report := c.bugReport(cmd.Context(), base, c.file)
	c.status.End()
	if c.out == "" {
		_, err := c.stdout.Write(report.markdown())
		return err
	}
	return c.writeBugReport(c.out, report)
}

// bugSection is a section of the report. bugReport masks the secrets in its text.
type bugSection struct {
	title, about string // about is a short description of the content
	text         string
}

type bugReport []bugSection

// markdown returns the report as Markdown, which the user can paste into an issue.
func (r bugReport) markdown() []byte {
	var b bytes.Buffer
	for i, s := range r {
		if i > 0 {
			b.WriteByte('\n')
		}
		fence := "```"
		for strings.Contains(s.text, fence) {
			fence += "`"
		}
		fmt.Fprintf(&b, "## %s\n\n%s\n%s\n%s\n", s.title, fence, strings.TrimRight(s.text, "\n"), fence)
	}
	return b.Bytes()
}

// writeBugReport writes the report to a new file and prints an overview of its content.
func (c *bugCommand) writeBugReport(path string, r bugReport) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return withHint(fmt.Errorf("%s exists already", path), "choose another name with -o, or remove the file")
	}
	if err != nil {
		return fmt.Errorf("cannot write the report: %w", err)
	}
	_, err = f.Write(r.markdown())
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("cannot write the report: %w", err)
	}
	if c.quiet {
		return nil
	}
	c.status.Printf("wrote %s:", path)
	for _, s := range r {
		c.status.line(fmt.Sprintf("  %s: %s (lines: %d)", s.title, s.about, strings.Count(strings.TrimRight(s.text, "\n"), "\n")+1))
	}
	c.status.Printf("secrets are masked, but names of servers, hosts and files are not; read the file before you publish it")
	return nil
}

// bugReport collects the report. It never fails. If it cannot collect the content of a section, the
// section contains the reason.
func (c *bugCommand) bugReport(ctx context.Context, base, file string) bugReport {
	c.status.Step("", "collecting versions")
	var version bytes.Buffer
	_ = printVersion(&version, false)
	if c.program != "" {
		fmt.Fprintf(&version, "started as %s\n", c.program)
	}
	if self, err := os.Executable(); err == nil {
		fmt.Fprintf(&version, "program %s\n", self)
	}
	r := bugReport{
		{"Version", "version, commit, and where the program is", version.String()},
		{"System", "operating system, processors, and proxy variables by name", c.systemText()},
		{"Programs", "versions of node, python3 and others that servers need", programsText(ctx)},
		c.configSection(file),
	}
	c.status.Step("", "asking "+base)
	r = append(r, c.serveSections(ctx, base)...)
	home, _ := os.UserHomeDir()
	for i := range r {
		text := excerpt.MaskSecrets(r[i].text)
		if len(home) > 1 {
			text = strings.ReplaceAll(text, home, "~")
		}
		r[i].text = excerpt.Cut(cleanLines(text), maxSection)
	}
	return r
}

// systemText describes the machine. The description contains names of environment variables, but
// not their values.
func (c *bugCommand) systemText() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s/%s, processors: %d\n", runtime.GOOS, runtime.GOARCH, runtime.NumCPU())
	if release, err := os.ReadFile("/etc/os-release"); err == nil {
		for l := range strings.Lines(string(release)) {
			if name, ok := strings.CutPrefix(strings.TrimSpace(l), "PRETTY_NAME="); ok {
				fmt.Fprintln(&b, strings.Trim(name, `"`))
			}
		}
	}
	for _, sign := range [][2]string{{"/.dockerenv", "in a Docker container"}, {"/run/.containerenv", "in a Podman container"}} {
		if _, err := os.Stat(sign[0]); err == nil {
			fmt.Fprintln(&b, sign[1])
		}
	}
	var set []string
	for _, name := range []string{
		"HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "NO_PROXY", "no_proxy", "ALL_PROXY", "all_proxy",
		"SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS", "NODE_OPTIONS", "GOGC", "GOMEMLIMIT", "GODEBUG", "GOMAXPROCS",
		"XDG_CONFIG_HOME", "DRAGOMAN_SERVER_NAME", "DRAGOMAN_SERVER_TITLE", "DRAGOMAN_SERVER_VERSION",
	} {
		if v, ok := c.env(name); ok && v != "" {
			set = append(set, name)
		}
	}
	if len(set) == 0 {
		set = []string{"none"}
	}
	fmt.Fprintf(&b, "relevant environment variables that are set: %s\n", strings.Join(set, " "))
	return b.String()
}

// bugPrograms are the programs that most MCP servers need.
var bugPrograms = []string{"node", "npm", "python3", "uv", "docker"}

// programsText returns one line for each of bugPrograms, with the version of the program.
func programsText(ctx context.Context) string {
	lines := make([]string, len(bugPrograms))
	var asked sync.WaitGroup
	for i, name := range bugPrograms {
		asked.Go(func() {
			lines[i] = name + ": " + programVersion(ctx, name) + "\n"
		})
	}
	asked.Wait()
	return strings.Join(lines, "")
}

func programVersion(ctx context.Context, name string) string {
	path, err := exec.LookPath(name)
	if err != nil {
		return "not on PATH"
	}
	ctx, cancel := context.WithTimeout(ctx, programTime)
	defer cancel()
	c := exec.CommandContext(ctx, path, "--version")
	c.WaitDelay = time.Second
	out, err := c.Output()
	line, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	switch {
	case ctx.Err() != nil:
		return "no answer to --version"
	case err != nil:
		return "--version failed: " + err.Error()
	}
	return excerpt.Line(line, 100) + " at " + path
}

// configSection describes the configuration: its path, its problems, and its text with secrets
// masked.
func (c *bugCommand) configSection(file string) bugSection {
	s := bugSection{title: "Configuration", about: "no configuration file was found"}
	path, ok := c.env.configPath(file)
	if !ok {
		s.text = "none of these files exists: " + strings.Join(config.Places(c.env), ", ")
		return s
	}
	if absolute, err := filepath.Abs(path); err == nil {
		path = absolute
	}
	s.about = "the file and its problems, with credentials shown as ***"
	snapshot, problems := config.Load(path)
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n", path)
	for _, p := range problems {
		fmt.Fprintf(&b, "# %s\n", p)
	}
	if snapshot != nil {
		b.Write(snapshot.AppendYAML(nil))
	}
	s.text = b.String()
	return s
}

// serveSections returns the status of the serve process at the URL base, and the last failure of
// each server.
func (c *bugCommand) serveSections(ctx context.Context, base string) []bugSection {
	const title = "Status of the running serve"
	var status int
	var body []byte
	s, err := locator{c.env}.runningAt(base)
	if err == nil {
		defer s.close()
		status, body, err = s.page(ctx, "/api/v1/status")
		if status == http.StatusUnauthorized { // clients on this machine need keys, and we have that of the process
			if at, key := s.proven(ctx); key != "" {
				status, body, err = at.page(ctx, "/api/v1/status", "Authorization", "Bearer "+key)
			}
		}
	}
	switch {
	case err != nil:
		return []bugSection{{title, "nothing answers at " + base, "nothing answers at " + base + ": " + failure.Reason(err)}}
	case status != http.StatusOK:
		return []bugSection{{title, "the request was refused", fmt.Sprintf("%s answers HTTP %d: %s", base, status, firstLine(body))}}
	}
	report := &admin.Report{}
	if err := json.Unmarshal(body, report); err != nil || report.Version == "" {
		return []bugSection{{title, "another program answers at this address", base + " does not answer as a serve of Dragoman does: " + firstLine(body)}}
	}
	now := time.Now()
	failures := ""
	for _, s := range report.Servers {
		if s.LastError != nil {
			failures += fmt.Sprintf("%s, %s ago: %s\n", s.Name, now.Sub(s.LastError.At).Round(time.Second), excerpt.Quote(s.LastError.Text, 4096))
			if f := s.LastError.Failure; f != nil {
				failures += fmt.Sprintf("  class: %s\n", f.Class)
				for _, line := range f.Evidence {
					failures += fmt.Sprintf("  %s: %s\n", f.EvidenceFrom, excerpt.Quote(line, 4096))
				}
			}
		}
	}
	if failures == "" {
		failures = "no server has failed since the start"
	}
	return []bugSection{
		{title, "servers, sessions and calls in flight", string(report.Text(now))},
		{"Last failures", "the last error of each server", failures},
	}
}
