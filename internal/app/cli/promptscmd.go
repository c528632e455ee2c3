package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
	"github.com/dragoman-mcp/dragoman/internal/base/screen"
	"github.com/dragoman-mcp/dragoman/internal/base/tokens"
	"github.com/dragoman-mcp/dragoman/internal/setup/clientfile"
	"github.com/dragoman-mcp/dragoman/internal/team/prompt"
)

// promptsCommand is `dragoman prompts` and its subcommands.
type promptsCommand struct {
	*world
	houseFlags

	version           int64
	description       string
	arguments, values []string
	described, argued bool // whether there is a flag for them
}

func newPromptsCommand(w *world) *cobra.Command {
	c := &promptsCommand{world: w}
	cmd := &cobra.Command{
		Use:         "prompts [flags]",
		Annotations: map[string]string{alsoRuns: "true"},
		Short:       "List, write and publish the prompts of \"dragoman serve\"",
		Long: `List the prompts that "dragoman serve" has of its own, or write, publish and
activate them. Clients see those that are published, beside the prompts of the
servers. One may be active: then it's also part of the instructions that every
client gets. docs/prompts.md explains them.

` + houseWho("prompts", "operator"),
		Example: `  # List the prompts.
  dragoman prompts

  # Write one, and let clients see it.
  dragoman prompts add review --argument change < review.md
  dragoman prompts publish review`,
		Args:              noArguments,
		RunE:              c.list,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	c.addFlags(cmd)
	cmd.AddCommand(newPromptsShowCommand(w), newPromptsCompareCommand(w), newPromptsInstructionsCommand(w), newPromptsAddCommand(w), newPromptsPublishCommand(w), newPromptsActivateCommand(w), newPromptsOffCommand(w))
	return cmd
}

func newPromptsShowCommand(w *world) *cobra.Command {
	c := &promptsCommand{world: w}
	cmd := &cobra.Command{
		Use:   "show NAME [flags]",
		Short: "Print a version of a prompt",
		Long: `Print the text of the newest version of the prompt NAME. Only the text goes to
stdout, so that you can change it and add it again; the rest goes to stderr.`,
		Example: `  # Change the newest version.
  dragoman prompts show review > review.md

  # Print an older one.
  dragoman prompts show review --version 1`,
		Args:              c.oneArgument("the prompt's name", "dragoman prompts show review"),
		RunE:              c.show,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	flagsInOrder(cmd).Int64Var(&c.version, "version", 0, "print the version with this `NUMBER`")
	c.addFlags(cmd)
	return cmd
}

func newPromptsCompareCommand(w *world) *cobra.Command {
	c := &promptsCommand{world: w}
	cmd := &cobra.Command{
		Use:   "compare NAME [A..B] [flags]",
		Short: "Compare two versions of a prompt",
		Long: `Print how the text of version B of the prompt NAME differs from that of version
A. Without A..B, it's the newest version and the one before it.`,
		Example: `  dragoman prompts compare review

  # What has changed since clients got version 3?
  dragoman prompts compare review 3..7`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 2 {
				args = args[:1]
			}
			return c.oneArgument("the prompt's name", "dragoman prompts compare review 1..2")(nil, args)
		},
		RunE:              c.compare,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	c.addFlags(cmd)
	return cmd
}

func newPromptsInstructionsCommand(w *world) *cobra.Command {
	c := &promptsCommand{world: w}
	cmd := &cobra.Command{
		Use:   "instructions NAME [flags]",
		Short: "Print what clients would get as instructions if a prompt were active",
		Long: `Print the whole text that clients would get as instructions if the prompt NAME
were the active one: with what the configuration and the servers say. If it
isn't the same for all revisions, each text comes with its own. Nothing changes;
"dragoman prompts activate" makes the prompt active.`,
		Example: `  dragoman prompts instructions style

  # Of another version than the published one.
  dragoman prompts instructions style --version 2`,
		Args:              c.oneArgument("the prompt's name", "dragoman prompts instructions style"),
		RunE:              c.instructions,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	flagsInOrder(cmd).Int64Var(&c.version, "version", 0, "take the version with this `NUMBER`")
	c.addFlags(cmd)
	return cmd
}

func newPromptsAddCommand(w *world) *cobra.Command {
	c := &promptsCommand{world: w}
	cmd := &cobra.Command{
		Use:   "add NAME [flags]",
		Short: "Add a version of a prompt, with the text that stdin has",
		Long: `Add a version of the prompt NAME, with the text that stdin has. The first
version makes the prompt, and later ones leave those before as they are. No
client gets it before it's published.

Each {{word}} in the text is an argument, and needs an --argument. Without any
--argument, those of the version before stay that the text still has, and
without --description its description.`,
		Example: `  # Add a version without arguments.
  dragoman prompts add style --description 'How we write' < style.md

  # Add one with an argument, for which clients suggest two values.
  dragoman prompts add review --argument 'depth=how deep to look' --values depth=quick,thorough < review.md`,
		Args: c.oneArgument("the prompt's name", "dragoman prompts add review < review.md"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c.described, c.argued = cmd.Flags().Changed("description"), cmd.Flags().Changed("argument")
			return c.add(cmd, args)
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	flags := flagsInOrder(cmd)
	flags.StringVar(&c.description, "description", "", "say in a `TEXT` what the prompt is for")
	flags.StringArrayVar(&c.arguments, "argument", nil, "declare an argument, `NAME[=DESCRIPTION]`; may be repeated")
	flags.StringArrayVar(&c.values, "values", nil, "let clients suggest values for an argument, `NAME=VALUE,...`; may be repeated")
	c.addFlags(cmd)
	return cmd
}

func newPromptsPublishCommand(w *world) *cobra.Command {
	c := &promptsCommand{world: w}
	cmd := &cobra.Command{
		Use:   "publish NAME [flags]",
		Short: "Let clients get a version of a prompt",
		Long: `Let clients get the newest version of the prompt NAME, or that of --version, in
place of the one before. They hear within a second that their list of prompts
has changed. If the prompt is active, new sessions get the version as
instructions, too.`,
		Example: `  dragoman prompts publish review

  # Go back to an older version.
  dragoman prompts publish review --version 1`,
		Args: c.oneArgument("the prompt's name", "dragoman prompts publish review"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.change(cmd, args[0], "publish", admin.PromptPublication{Version: c.version}, func(k *admin.KeptPrompt) string {
				return fmt.Sprintf("published version %d of the prompt %q", k.Published, k.Name)
			})
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	flagsInOrder(cmd).Int64Var(&c.version, "version", 0, "publish the version with this `NUMBER`")
	c.addFlags(cmd)
	return cmd
}

func newPromptsActivateCommand(w *world) *cobra.Command {
	c := &promptsCommand{world: w}
	cmd := &cobra.Command{
		Use:   "activate NAME [flags]",
		Short: "Make a prompt part of the instructions",
		Long: `Make the published version of the prompt NAME part of the instructions that
every client gets, behind those of the configuration. It can't have arguments.
The prompt that was active before stays published.`,
		Example: `  dragoman prompts activate style

  # Of another project.
  dragoman prompts activate style --project shop`,
		Args: c.oneArgument("the prompt's name", "dragoman prompts activate style"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.change(cmd, args[0], "activate", nil, func(k *admin.KeptPrompt) string {
				return fmt.Sprintf("the prompt %q is part of the instructions in new sessions", k.Name)
			})
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	c.addFlags(cmd)
	return cmd
}

func newPromptsOffCommand(w *world) *cobra.Command {
	c := &promptsCommand{world: w}
	cmd := &cobra.Command{
		Use:   "off NAME [flags]",
		Short: "Let clients get a prompt no more",
		Long: `Let clients get no version of the prompt NAME any more. If it's active, it's no
part of the instructions either. Its versions stay, and can be published again.`,
		Example: `  dragoman prompts off review

  # In a script.
  dragoman prompts off review --json`,
		Args: c.oneArgument("the prompt's name", "dragoman prompts off review"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.change(cmd, args[0], "off", nil, func(k *admin.KeptPrompt) string {
				return fmt.Sprintf("clients don't get the prompt %q any more", k.Name)
			})
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	c.addFlags(cmd)
	return cmd
}

func (c *promptsCommand) list(cmd *cobra.Command, _ []string) error {
	return c.with(cmd, c.world, func(ctx context.Context, s *running) error {
		all, err := pages(ctx, s, "/prompts", func(p *admin.Prompts) ([]admin.PromptEntry, string) { return p.Prompts, p.Next })
		return showAll(&c.houseFlags, c.world, all, err, "there are no prompts; `dragoman prompts add NAME%s` makes one", promptTable)
	})
}

func promptTable(all []admin.PromptEntry) screen.Table {
	t := screen.Table{Width: 80, Columns: []screen.Column{{Title: "NAME", Most: 30}, {Title: "STATE", Whole: true}, {Title: "VERSION", Whole: true}, {Title: "CHANGED", Whole: true}, {Title: "DESCRIPTION", Wrap: true}}}
	for _, x := range all {
		state, version := "off", strconv.FormatInt(x.Newest, 10)
		if x.Published != 0 {
			state = "published"
			if version = strconv.FormatInt(x.Published, 10); x.Newest != x.Published {
				version += " of " + strconv.FormatInt(x.Newest, 10)
			}
		}
		if x.Active {
			state = "active"
		}
		t.Rows = append(t.Rows, screen.Cells(x.Name, state, version, x.Changed.In(time.Local).Format(time.DateOnly), x.Description))
	}
	return t
}

func (c *promptsCommand) show(cmd *cobra.Command, args []string) error {
	return c.with(cmd, c.world, func(ctx context.Context, s *running) error {
		x, err := c.read(ctx, s, args[0])
		switch {
		case err != nil:
			return err
		case len(x.Versions) == 0 || c.version != 0 && x.Versions[0].Version != c.version:
			return c.noVersion(&x)
		case c.asJSON:
			return c.printJSON(x.Versions[0], "  ")
		}
		v := &x.Versions[0]
		if !c.quiet {
			c.status.Printf("version %d of %d, made by %s on %s, %s", v.Version, x.Newest, clean(v.By), v.Made.In(time.Local).Format(time.DateOnly), tokens.About(v.Tokens))
			if v.Description != "" {
				c.status.Printf("%s", clean(v.Description))
			}
			for _, a := range v.Arguments {
				text := "{{" + clean(a.Name) + "}}"
				if a.Description != "" {
					text += ": " + clean(a.Description)
				}
				if len(a.Values) > 0 {
					text += " (" + clean(strings.Join(a.Values, ", ")) + ")"
				}
				c.status.Printf("%s", text)
			}
		}
		_, err = fmt.Fprintln(c.stdout, v.Text)
		return err
	})
}

func (c *promptsCommand) compare(cmd *cobra.Command, args []string) error {
	var from, to int64
	if len(args) == 2 {
		first, second, _ := strings.Cut(args[1], "..")
		a, errA := strconv.ParseInt(first, 10, 64)
		b, errB := strconv.ParseInt(second, 10, 64)
		if errors.Join(errA, errB) != nil || a < 1 || b < 1 {
			return usagef("write two versions as 1..2", "%q names no two versions", args[1])
		}
		from, to = a, b
	}
	return c.with(cmd, c.world, func(ctx context.Context, s *running) error {
		if to == 0 {
			x, err := c.read(ctx, s, args[0])
			if err != nil {
				return err
			}
			if from, to = x.Newest-1, x.Newest; from < 1 {
				c.status.Printf("the prompt %s has one version only", clean(x.Name))
				return nil
			}
		}
		var texts [2][]byte
		for i, version := range []int64{from, to} {
			c.version = version
			x, err := c.read(ctx, s, args[0])
			switch {
			case err != nil:
				return err
			case len(x.Versions) == 0 || x.Versions[0].Version != version:
				return c.noVersion(&x)
			}
			texts[i] = []byte(x.Versions[0].Text + "\n")
		}
		diff := clientfile.Diff(args[0], texts[0], texts[1], func(line string) string { return line })
		if c.asJSON {
			return c.printJSON(struct {
				From int64  `json:"from"`
				To   int64  `json:"to"`
				Diff string `json:"diff"`
			}{from, to, diff}, "  ")
		}
		if diff == "" {
			c.status.Printf("the texts of the versions %d and %d are the same", from, to)
			return nil
		}
		_, err := fmt.Fprint(c.stdout, cleanLines(diff))
		return err
	})
}

func (c *promptsCommand) instructions(cmd *cobra.Command, args []string) error {
	return c.serve(cmd, c.world, func(ctx context.Context, s *running) error {
		query := url.Values{}
		if c.version != 0 {
			query.Set("version", strconv.FormatInt(c.version, 10))
		}
		var x admin.PromptInstructions
		if err := c.unknown(s.decode(ctx, "/api/v1/prompts/"+url.PathEscape(args[0])+"/instructions", query, &x)); err != nil {
			return err
		}
		if c.asJSON {
			return c.printJSON(&x, "  ")
		}
		for _, text := range x.Texts {
			c.status.Printf("clients of %s get %s", strings.Join(text.Revisions, ", "), tokens.About(text.Tokens))
			if _, err := fmt.Fprintln(c.stdout, cleanLines(text.Text)); err != nil {
				return err
			}
		}
		if len(x.Unread) > 0 {
			c.status.Printf("what these servers say isn't known yet: %s", clean(strings.Join(x.Unread, ", ")))
		}
		return nil
	})
}

// noVersion is the error for a version that a prompt doesn't have.
func (c *promptsCommand) noVersion(x *admin.PromptDetails) error {
	return withHint(fmt.Errorf("no such version: the prompt %s has no version %d; the newest is %d", x.Name, c.version, x.Newest), "`dragoman prompts%s` lists them", c.words())
}

// read returns a prompt with the version that --version names, or with the newest.
func (c *promptsCommand) read(ctx context.Context, s *running, name string) (x admin.PromptDetails, err error) {
	query := url.Values{"limit": {"1"}}
	if c.version != 0 {
		query.Set("before", strconv.FormatInt(c.version+1, 10))
	}
	return x, c.unknown(s.decode(ctx, "/api/v1/prompts/"+url.PathEscape(name), query, &x))
}

// unknown adds a hint to an error of the API which says that there is no such prompt or version.
func (c *promptsCommand) unknown(err error) error {
	var bad *problemError
	if errors.As(err, &bad) && slices.Contains([]string{"no-such-prompt", "no-such-version"}, bad.kind) {
		return withHint(err, "`dragoman prompts%s` lists them", c.words())
	}
	return err
}

func (c *promptsCommand) add(cmd *cobra.Command, args []string) error {
	q := admin.PromptRequest{Name: args[0], Description: c.description}
	if err := prompt.CheckName(q.Name); err != nil {
		return mistake(err)
	}
	if err := c.declare(&q); err != nil {
		return err
	}
	if c.keyboard && c.stdin == os.Stdin {
		return usagef("write it to stdin, as in `dragoman prompts add "+shellWord(q.Name)+" < FILE`", "the prompt's text is missing")
	}
	text, err := io.ReadAll(io.LimitReader(c.stdin, prompt.MaxText+1))
	if err != nil {
		return fmt.Errorf("cannot read stdin: %w", err)
	}
	q.Text = strings.TrimSuffix(strings.TrimSuffix(string(text), "\n"), "\r")
	return c.with(cmd, c.world, func(ctx context.Context, s *running) error {
		if err := c.keep(ctx, s, &q); err != nil {
			return err
		}
		p := prompt.Prompt{Name: q.Name, Description: q.Description, Text: q.Text}
		for _, a := range q.Arguments {
			p.Arguments = append(p.Arguments, prompt.Argument(a))
		}
		if err := p.Check(); err != nil {
			return mistake(err)
		}
		var k admin.KeptPrompt
		if err := s.apply(ctx, http.MethodPost, "/prompts", q, &k); err != nil {
			return err
		}
		return c.done(c.world, k, k.Note, "added version %d of the prompt %q; `dragoman prompts publish %s%s` lets clients get it", k.Newest, k.Name, shellWord(k.Name), c.words())
	})
}

// keep gives the next version of a prompt what no flag says: that of the version before.
func (c *promptsCommand) keep(ctx context.Context, s *running, q *admin.PromptRequest) error {
	if c.described && c.argued {
		return nil
	}
	x, err := c.read(ctx, s, q.Name)
	var bad *problemError
	switch {
	case errors.As(err, &bad) && bad.kind == "no-such-prompt":
		return nil
	case err != nil || len(x.Versions) == 0:
		return err
	}
	if !c.described {
		q.Description = x.Versions[0].Description
	}
	if !c.argued {
		used, _ := prompt.Names(q.Text) // a mistake in it is found later
		q.Arguments = slices.DeleteFunc(x.Versions[0].Arguments, func(a admin.PromptArgument) bool { return !slices.Contains(used, a.Name) })
	}
	return nil
}

// declare reads the flags that declare arguments.
func (c *promptsCommand) declare(q *admin.PromptRequest) error {
	for _, text := range c.arguments {
		name, about, _ := strings.Cut(text, "=")
		q.Arguments = append(q.Arguments, admin.PromptArgument{Name: name, Description: about})
	}
	for _, text := range c.values {
		name, list, _ := strings.Cut(text, "=")
		at := slices.IndexFunc(q.Arguments, func(a admin.PromptArgument) bool { return a.Name == name })
		if at < 0 || list == "" {
			return usagef("write --argument NAME and --values NAME=VALUE,VALUE", "--values %q is for no argument", text)
		}
		q.Arguments[at].Values = append(q.Arguments[at].Values, strings.Split(list, ",")...)
	}
	return nil
}

// mistake returns the usage error for what is wrong with a prompt.
func mistake(err error) error {
	if m, ok := prompt.MistakeOf(err); ok {
		return usagef(m.Next, "%s", m.Text)
	}
	return err
}

// change changes the state of a prompt, and prints what done says of it.
func (c *promptsCommand) change(cmd *cobra.Command, name, verb string, body any, done func(*admin.KeptPrompt) string) error {
	return c.with(cmd, c.world, func(ctx context.Context, s *running) error {
		var k admin.KeptPrompt
		if err := c.unknown(s.apply(ctx, http.MethodPost, "/prompts/"+url.PathEscape(name)+"/"+verb, body, &k)); err != nil {
			return err
		}
		return c.done(c.world, k, k.Note, "%s", done(&k))
	})
}
