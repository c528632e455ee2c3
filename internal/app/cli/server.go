package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/dragoman-mcp/dragoman/internal/server/files"
)

func newServerCommand(w *world) *cobra.Command {
	return group(&cobra.Command{
		Use:   "server",
		Short: "Run a built-in MCP server",
		Long: `Run an MCP server that is part of Dragoman. It's an ordinary server on stdio,
which every MCP client can use, directly or through Dragoman.`,
		Example: `  # Let a client read and change a folder.
  dragoman server filesystem ~/notes

  # Let a client read a folder.
  dragoman server filesystem --read-only ~/notes

  # Let a client read and write requirements, with an example in a new database.
  dragoman server requirements --example`,
	}, newFilesystemCommand(w), newRequirementsCommand(w))
}

// The values of --names. Each value selects one set of tool names for the filesystem server.
const (
	plainNames    = "plain"
	prefixedNames = "prefixed"
)

// filesystemCommand is `dragoman server filesystem`.
type filesystemCommand struct {
	*world

	o           files.Options
	names, size string
}

func newFilesystemCommand(w *world) *cobra.Command {
	c := &filesystemCommand{world: w}
	cmd := &cobra.Command{
		Use:   "filesystem [flags] ROOT...",
		Short: "Serve the files of folders",
		Long: `Run an MCP server on stdio that reads and changes the files of one or more
folders, called roots. Clients see nothing outside them: ".." and symlinks can't
lead out, and devices, pipes and sockets are never opened.

The tools are list_dir, read_file, write_file, move_file, copy_file,
delete_file, search_files, get_metadata and watch_folder. With one root, paths
are relative to it. With several, a relative path begins with a root's name,
which is the name of its folder. Absolute paths below a root are valid too.

Replaced and deleted files move to the folder .dragoman-undo of their root, and
the result of the tool says how to restore them. --undo-size and --undo-age
limit this folder; the oldest files go first. docs/servers.md describes the
tools and their limits.`,
		Example: `  # Let a client read and change a folder.
  dragoman server filesystem ~/notes

  # Let a client read two folders.
  dragoman server filesystem --read-only ~/notes ~/work

  # List the tools, and call one.
  dragoman list -- dragoman server filesystem ~/notes
  dragoman call search_files pattern='*.md' -- dragoman server filesystem ~/notes

  # Run this server over HTTP.
  dragoman run --listen 127.0.0.1:7301 -- dragoman server filesystem ~/notes`,
		Args: c.check,
		RunE: c.run,
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveFilterDirs
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.BoolVar(&c.o.ReadOnly, "read-only", false, "offer only the tools that change nothing")
	f.StringVar(&c.names, "names", plainNames, "form of the tool `NAMES`: plain (list_dir), or prefixed (filesystem.list_dir)")
	f.StringVar(&c.size, "undo-size", "1GiB", "keep at most `SIZE` in the undo folder of each root; 0 keeps nothing")
	f.DurationVar(&c.o.Undo.Age, "undo-age", 30*24*time.Hour, "keep an entry of the undo folder for `TIME`; 0 means no limit")
	_ = cmd.RegisterFlagCompletionFunc("names", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return []string{plainNames, prefixedNames}, noFiles
	})
	return cmd
}

func (c *filesystemCommand) check(_ *cobra.Command, args []string) error {
	if len(args) == 0 {
		return usagef("add the folder to serve, for example `dragoman server filesystem ~/notes`", "no folder given")
	}
	return nil
}

func (c *filesystemCommand) run(cmd *cobra.Command, args []string) error {
	switch c.names {
	case plainNames, prefixedNames:
		c.o.Prefixed = c.names == prefixedNames
	default:
		return usagef("use plain or prefixed", "--names does not accept %q", c.names)
	}
	var ok bool
	if c.o.Undo.Size, ok = parseSize(c.size); !ok {
		return usagef("use a number with a unit, for example 512MiB or 2GiB, or 0 to keep nothing", "--undo-size does not accept %q", c.size)
	}
	if c.o.Undo.Age < 0 {
		return usagef("use 0 for no limit", "--undo-age cannot be negative")
	}
	c.o.Roots, c.o.Version = args, version()
	s, err := files.Open(c.o)
	var at *fs.PathError
	switch {
	case errors.Is(err, fs.ErrNotExist) && errors.As(err, &at):
		return withHint(fmt.Errorf("the folder %s does not exist", clean(at.Path)), "check the path, or create the folder with mkdir")
	case err != nil:
		return withHint(err, "name each folder once; leave out folders that are inside another one, and folders that this user may not open")
	}
	defer func() { _ = s.Close() }()
	if c.keyboard && c.stdin == os.Stdin {
		c.status.Printf("waiting for an MCP client on stdin; to try the server, run `%s list -- %s server filesystem %s`", c.program, c.program, clean(args[0]))
	}
	return withoutStop(cmd.Context(), s.Serve(cmd.Context(), c.stdin, c.stdout))
}

// parseSize converts a size, such as 512MiB, to a number of bytes. The unit is optional. It returns
// false if the size is not valid.
func parseSize(text string) (int64, bool) {
	factor := int64(1)
	for i, unit := range []string{"KiB", "MiB", "GiB", "TiB"} {
		if digits, ok := strings.CutSuffix(text, unit); ok {
			text, factor = strings.TrimSpace(digits), 1<<(10*(i+1))
			break
		}
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 || n > math.MaxInt64/factor {
		return 0, false
	}
	return n * factor, true
}
