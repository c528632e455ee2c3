package cli

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dragoman-mcp/dragoman/internal/setup/config"
	"github.com/dragoman-mcp/dragoman/internal/team/store"
)

// backupCommand is `dragoman backup`.
type backupCommand struct {
	*world

	file string
}

func newBackupCommand(w *world) *cobra.Command {
	c := &backupCommand{world: w}
	cmd := &cobra.Command{
		Use:   "backup [-c FILE] FILE",
		Short: "Copy the database of serve to a file",
		Long: `Copy the database in which serve keeps what must last to a new file with mode
0600. You needn't stop serve: the copy has what the database had at one moment.
docs/store.md says what is in it, and how to go back to it.

A PostgreSQL database isn't copied; pg_dump does that.`,
		Example: `  # Copy the database before an update.
  dragoman backup dragoman-backup.db

  # Keep a copy for each day.
  dragoman backup dragoman-$(date +%F).db`,
		Args: c.check,
		RunE: c.run,
	}
	flagsInOrder(cmd)
	addConfigFlag(cmd, &c.file)
	return cmd
}

func (c *backupCommand) check(_ *cobra.Command, args []string) error {
	if len(args) != 1 {
		return usagef("name the new file, for example `dragoman backup dragoman-backup.db`", "backup takes one file")
	}
	return nil
}

func (c *backupCommand) run(cmd *cobra.Command, args []string) error {
	database := houseFile()
	if path, found := c.env.configPath(c.file); found {
		s, problems := config.Load(path)
		if s == nil {
			return problems.Err()
		}
		database = cmp.Or(s.Database, database)
	}
	err := store.Backup(cmd.Context(), database, args[0])
	switch {
	case errors.Is(err, fs.ErrNotExist) && !strings.Contains(database, "://") && missing(database):
		return withHint(err, "nothing has been stored yet, or -c names another configuration than that of serve")
	case err != nil:
		return houseError(err)
	}
	if !c.quiet {
		c.status.Printf("the database %s is copied to %s", clean(database), clean(args[0]))
	}
	return nil
}

// missing reports whether there is no file at a path.
func missing(path string) bool {
	_, err := os.Stat(path)
	return errors.Is(err, fs.ErrNotExist)
}
