package cli

import (
	"cmp"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/base/pattern"

	"github.com/spf13/cobra"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// release is the version of a release build. The linker sets it. It is "" in all other builds.
var release string

// version returns the version of this program: the value of release, else that of the module if it
// has a tag, else "dev" with the beginning of the commit.
func version() string {
	if release != "" {
		return release
	}
	module := ""
	if b, ok := debug.ReadBuildInfo(); ok {
		module = b.Main.Version
	}
	return versionOf(module, commit())
}

// pseudo matches the version that Go makes up for a commit without a tag, such as
// v0.0.0-20261128121518-ae8cbd02d9b1 (https://go.dev/ref/mod#pseudo-versions). The group is the commit.
var pseudo = pattern.Later(`[-.]\d{14}-([0-9a-f]{12})(?:\+.*)?$`)

// versionOf returns the version of a build that is not a release. module is the version of the module, and
// commit the commit of the build; both may be "".
func versionOf(module, commit string) string {
	if m := pseudo().FindStringSubmatch(module); m != nil {
		commit = cmp.Or(commit, m[1])
	} else if module != "" && module != "(devel)" {
		return strings.TrimPrefix(module, "v")
	}
	if commit == "" {
		return "dev"
	}
	hash, modified, _ := strings.Cut(commit, "+")
	out := "dev " + hash[:min(len(hash), 7)]
	if modified != "" {
		out += "+" + modified
	}
	return out
}

// commit returns the commit that this program was built from, or "" if the build has no record of a
// commit.
func commit() string {
	out, modified := "", ""
	if b, ok := debug.ReadBuildInfo(); ok {
		for _, s := range b.Settings {
			switch s.Key {
			case "vcs.revision":
				out = s.Value
			case "vcs.modified":
				if s.Value == "true" {
					modified = "+modified"
				}
			}
		}
	}
	if out == "" {
		return ""
	}
	return out + modified
}

// versionCommand is `dragoman version`.
type versionCommand struct {
	*world

	asJSON bool
}

func newVersionCommand(w *world) *cobra.Command {
	c := &versionCommand{world: w}
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version and the supported MCP revisions",
		Long: `Print Dragoman's version, the commit and Go version of this build, and the
supported MCP revisions. "dragoman --version" prints the same.`,
		Example: `  dragoman version
  dragoman version --json | jq -r .version`,
		Args:              noArguments,
		RunE:              func(*cobra.Command, []string) error { return printVersion(c.stdout, c.asJSON) },
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.Flags().BoolVar(&c.asJSON, "json", false, "print JSON")
	return cmd
}

// printVersion prints the version of this build.
func printVersion(out io.Writer, asJSON bool) error {
	revisions := mcp.Dates(mcp.Revisions())
	platform := runtime.GOOS + "/" + runtime.GOARCH
	if !asJSON {
		text := "dragoman " + version() + " (" + runtime.Version() + ", " + platform + ")\n"
		if c := commit(); c != "" {
			text += "commit " + c + "\n"
		}
		_, err := fmt.Fprint(out, text, "speaks MCP ", strings.Join(revisions, ", "), "\n")
		return err
	}
	b := []byte{'{'}
	for i, m := range [][2]string{{"version", version()}, {"commit", commit()}, {"go", runtime.Version()}, {"platform", platform}} {
		if i > 0 {
			b = append(b, ',')
		}
		b = jsonrpc.AppendQuote(b, m[0])
		b = jsonrpc.AppendQuote(append(b, ':'), m[1])
	}
	b = jsonrpc.AppendStrings(append(b, `,"revisions":`...), revisions)
	_, err := out.Write(append(b, "}\n"...))
	return err
}
