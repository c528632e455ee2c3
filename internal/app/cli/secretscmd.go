package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
	"github.com/dragoman-mcp/dragoman/internal/base/screen"
	"github.com/dragoman-mcp/dragoman/internal/team/vault"
)

// secretsCommand is `dragoman secrets` and its subcommands.
type secretsCommand struct {
	*world
	houseFlags
}

func newSecretsCommand(w *world) *cobra.Command {
	c := &secretsCommand{world: w}
	cmd := &cobra.Command{
		Use:         "secrets [flags]",
		Annotations: map[string]string{alsoRuns: "true"},
		Short:       "List, set and remove the secrets of \"dragoman serve\"",
		Long: `List the secrets that "dragoman serve" keeps and what uses them, or set and
remove them. They are values that servers need, such as tokens: the database has
them sealed, and the configuration refers to them as ${secret:NAME}. No command
and no page shows a value again.

` + houseWho("secrets", "admin"),
		Example: `  # List the secrets.
  dragoman secrets

  # Type a value, or take it from a file.
  dragoman secrets set github
  dragoman secrets set github < token.txt`,
		Args:              noArguments,
		RunE:              c.list,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	c.addFlags(cmd)
	cmd.AddCommand(newSecretsSetCommand(w), newSecretsRemoveCommand(w), newSecretsRotateCommand(w))
	return cmd
}

func newSecretsSetCommand(w *world) *cobra.Command {
	c := &secretsCommand{world: w}
	cmd := &cobra.Command{
		Use:   "set NAME [flags]",
		Short: "Set a secret to what you type or what stdin has",
		Long: `Set the secret NAME, or replace its value. In a terminal, type the value; it is
not shown. Otherwise the command reads stdin, and removes one line break at the
end, so that a password manager can write the value to it. The value can't be an
argument, because other users of this machine can see those, and your shell
remembers them.`,
		Example: `  # Type the value.
  dragoman secrets set github

  # Take it from a file.
  dragoman secrets set github < token.txt`,
		Args:              c.oneArgument("the secret's name", "dragoman secrets set github"),
		RunE:              c.set,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	c.addFlags(cmd)
	return cmd
}

func newSecretsRemoveCommand(w *world) *cobra.Command {
	c := &secretsCommand{world: w}
	cmd := &cobra.Command{
		Use:   "remove NAME [flags]",
		Short: "Remove a secret",
		Long: `Remove the secret NAME. Backups of the database still have it, so also replace
the token itself if somebody may have seen it.`,
		Example: `  dragoman secrets remove github

  # Of the serve with another configuration.
  dragoman secrets remove old -c team.yaml`,
		Args:              c.oneArgument("the secret's name", "dragoman secrets remove github"),
		RunE:              c.remove,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	c.addFlags(cmd)
	return cmd
}

func newSecretsRotateCommand(w *world) *cobra.Command {
	c := &secretsCommand{world: w}
	cmd := &cobra.Command{
		Use:   "rotate-key",
		Short: "Seal all secrets again with a new key",
		Long: `Make a new key for the vault, and seal everything in the database again with it,
for all projects at once. Secrets and API keys stay as they are. The key before
stays in vault.key behind the new one, because backups of the database need it.`,
		Example: `  dragoman secrets rotate-key

  # Print the number of values for a script.
  dragoman secrets rotate-key --json`,
		Args:              noArguments,
		RunE:              c.rotateKey,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	flagsInOrder(cmd).BoolVar(&c.asJSON, "json", false, "print JSON")
	c.runningFlags.addFlags(cmd)
	return cmd
}

func (c *secretsCommand) list(cmd *cobra.Command, _ []string) error {
	return c.with(cmd, c.world, func(ctx context.Context, s *running) error {
		secrets, err := pages(ctx, s, "/secrets", func(p *admin.Secrets) ([]admin.SecretEntry, string) { return p.Secrets, p.Next })
		return showAll(&c.houseFlags, c.world, secrets, err, "there are no secrets; `dragoman secrets set NAME%s` makes one", secretTable)
	})
}

func secretTable(secrets []admin.SecretEntry) screen.Table {
	t := screen.Table{Width: 80, Columns: []screen.Column{{Title: "NAME", Whole: true, Most: 40}, {Title: "CHANGED", Whole: true}, {Title: "BY", Most: 17}, {Title: "USED BY", Wrap: true}}}
	for _, x := range secrets {
		t.Rows = append(t.Rows, screen.Cells(x.Name, x.Changed.In(time.Local).Format(time.DateTime), x.By, strings.Join(slices.Concat(x.Servers, x.Settings), ", ")))
	}
	return t
}

func (c *secretsCommand) set(cmd *cobra.Command, args []string) error {
	name := args[0]
	if wrong := admin.CheckSecret(name, "x"); wrong != "" {
		return usagef("use another name", "%s", wrong)
	}
	return c.with(cmd, c.world, func(ctx context.Context, s *running) error {
		// Ask for the value only if somebody is there to take it.
		if err := s.decode(ctx, "/api/v1/secrets", nil, &admin.Secrets{}); err != nil {
			return err
		}
		value, err := c.value(ctx, name)
		if err != nil {
			return err
		}
		if wrong := admin.CheckSecret(name, value); wrong != "" {
			return withHint(errors.New(wrong), "type the value, or write it to stdin; nothing was changed")
		}
		var kept admin.KeptSecret
		if err := s.apply(ctx, http.MethodPut, "/secrets/"+url.PathEscape(name), admin.SecretRequest{Value: value}, &kept); err != nil {
			return err
		}
		return c.done(c.world, kept, kept.Note, "set the secret %q of the project %s", kept.Name, kept.Project)
	})
}

// value reads the value of a secret: from the terminal without showing it, or from stdin.
func (c *secretsCommand) value(ctx context.Context, name string) (string, error) {
	in, err := io.NopCloser(c.stdin), error(nil)
	if c.openInput != nil {
		in, err = c.openInput()
	}
	if err != nil {
		return "", fmt.Errorf("cannot read stdin: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { _ = in.Close() })
	defer func() {
		if stop() {
			_ = in.Close()
		}
	}()
	if c.keyboard {
		return c.typed(in, name)
	}
	text, err := io.ReadAll(io.LimitReader(in, vault.MaxValue+3)) // with a line break, and one byte more than may be
	if err != nil {
		return "", fmt.Errorf("cannot read stdin: %w", err)
	}
	if line, ok := bytes.CutSuffix(text, []byte("\n")); ok {
		text = bytes.TrimSuffix(line, []byte("\r"))
	}
	return string(text), nil
}

// typed reads a line from the terminal without showing it.
func (c *secretsCommand) typed(in io.Reader, name string) (string, error) {
	show, err := c.rawInput()
	if err != nil {
		return "", fmt.Errorf("cannot hide what you type: %w", err)
	}
	defer show()
	keys := &keystrokes{from: in}
	line, err := term.NewTerminal(struct {
		io.Reader
		io.Writer
	}{keys, c.status}, "").ReadPassword("Value of " + clean(name) + " (not shown): ")
	if err != nil { // Ctrl-C or Ctrl-D
		_, _ = io.WriteString(c.status, "\r\n")
		if keys.interrupted {
			return "", signalError{syscall.SIGINT}
		}
		return "", errors.New("no value was typed, so nothing was changed")
	}
	return line, nil
}

// keystrokes notes whether one of those that it passes on is Ctrl-C, which is no signal while the terminal is raw.
type keystrokes struct {
	from        io.Reader
	interrupted bool
}

func (k *keystrokes) Read(b []byte) (int, error) {
	const ctrlC = 3
	n, err := k.from.Read(b)
	k.interrupted = k.interrupted || bytes.IndexByte(b[:n], ctrlC) >= 0
	return n, err
}

func (c *secretsCommand) remove(cmd *cobra.Command, args []string) error {
	if wrong := admin.CheckSecret(args[0], "x"); wrong != "" {
		return usagef("`dragoman secrets"+c.words()+"` lists the names", "%s", wrong)
	}
	return c.with(cmd, c.world, func(ctx context.Context, s *running) error {
		var gone admin.SecretEntry
		err := s.apply(ctx, http.MethodDelete, "/secrets/"+url.PathEscape(args[0]), nil, &gone)
		var bad *problemError
		switch {
		case errors.As(err, &bad) && bad.kind == "no-such-secret":
			return usagef("`dragoman secrets"+c.words()+"` lists the names", "there is no secret %q", args[0])
		case err != nil:
			return err
		}
		return c.done(c.world, gone, "", "removed the secret %q of the project %s", gone.Name, gone.Project)
	})
}

func (c *secretsCommand) rotateKey(cmd *cobra.Command, _ []string) error {
	return c.with(cmd, c.world, func(ctx context.Context, s *running) error {
		var n admin.Resealed
		if err := s.apply(ctx, http.MethodPost, "/secrets/rotate-key", nil, &n); err != nil {
			return err
		}
		switch {
		case c.asJSON:
			return c.printJSON(n, "  ")
		case c.quiet:
		case n.Values == 0:
			c.status.Printf("nothing is sealed yet, so there is no key to replace")
		case n.Note != "":
			c.status.Printf("sealed %s with a new key; %s", quantity(n.Values, "value"), lowerFirst(strings.TrimSuffix(n.Note, ".")))
		default:
			c.status.Printf("sealed %s with a new key; back up vault.key, since old backups of it don't open the database any more", quantity(n.Values, "value"))
		}
		return nil
	})
}
