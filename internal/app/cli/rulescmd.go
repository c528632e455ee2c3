package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
	"github.com/dragoman-mcp/dragoman/internal/base/screen"
)

// rulesCommand is `dragoman rules` and its subcommands.
type rulesCommand struct {
	*world
	houseFlags

	from  string // the value of --file
	check bool
}

func newRulesCommand(w *world) *cobra.Command {
	c := &rulesCommand{world: w}
	cmd := &cobra.Command{
		Use:         "rules [flags]",
		Annotations: map[string]string{alsoRuns: "true"},
		Short:       "List the rules of \"dragoman serve\", and say what they decide",
		Long: `List the rules that "dragoman serve" uses, in the order in which they are asked,
with the place where each stands. What isn't right with one, such as a name that
nobody has or a pattern that matches nothing, goes to stderr. docs/policy.md
explains rules.

` + houseWho("rules", "viewer"),
		Example: `  dragoman rules

  # Who may use this tool, and why?
  dragoman rules who github/delete_repository

  # What does this key or person see?
  dragoman rules for nightly-build`,
		Args:              noArguments,
		RunE:              c.list,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	c.addFlags(cmd)
	cmd.AddCommand(newRulesWhoCommand(w), newRulesForCommand(w), newRulesEditCommand(w))
	return cmd
}

func newRulesWhoCommand(w *world) *cobra.Command {
	c := &rulesCommand{world: w}
	cmd := &cobra.Command{
		Use:   "who SERVER/TOOL [flags]",
		Short: "Say who may use a tool, and what decides that",
		Long: `Say which API keys, which people and which roles may use a tool of a server, a
prompt (SERVER/prompt:NAME) or a resource (SERVER/resource:URI), and which rule
or which setting decides that. A key acts for its owner; a person stands for
whatever acts for them without being for less.

With --url, the key needs the role admin, as for a list of the keys.`,
		Example: `  dragoman rules who github/delete_repository

  # A prompt, in another project.
  dragoman rules who docs/prompt:summarize --project shop`,
		Args:              c.oneArgument("the tool", "dragoman rules who github/delete_repository"),
		RunE:              c.who,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	c.addFlags(cmd)
	return cmd
}

func newRulesForCommand(w *world) *cobra.Command {
	c := &rulesCommand{world: w}
	cmd := &cobra.Command{
		Use:   "for (KEY | PERSON) [flags]",
		Short: "List what a key or a person sees",
		Long: `List what an API key or a person sees of the lists that are known, and whether
they are asked before they use it. KEY and PERSON are names or ids. With --json,
you also get what they don't see, and what decides that.

With --url, your own key needs the role admin, as for a list of the keys.`,
		Example: `  dragoman rules for nightly-build

  # Which rule hides something from ada?
  dragoman rules for ada --json`,
		Args:              c.oneArgument("the key or the person", "dragoman rules for nightly-build"),
		RunE:              c.view,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	c.addFlags(cmd)
	return cmd
}

func newRulesEditCommand(w *world) *cobra.Command {
	c := &rulesCommand{world: w}
	cmd := &cobra.Command{
		Use:   "edit --project NAME [flags]",
		Short: "Edit the rules of a project of the store in your editor",
		Long: `Open the rules of a project of the store in $VISUAL or $EDITOR: a list like that
under "policy" in the configuration. When the editor ends, it replaces the rules
before, and clients hear within a second. If it can't be used, or somebody else
has changed the project meanwhile, nothing changes. With --file, the command
takes the list from a file and opens no editor.

Rules in the configuration file are edited there, but --check also says what
others would change for them. With --url, the key needs the role operator.`,
		Example: `  dragoman rules edit --project shop

  # Replace the rules, after a look at what they change, and for whom.
  dragoman rules edit --project shop --file rules.yaml --check
  dragoman rules edit --project shop --file rules.yaml`,
		Args:              noArguments,
		RunE:              c.edit,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	flags := flagsInOrder(cmd)
	flags.StringVar(&c.from, "file", "", "read the rules from `FILE`, or from stdin with -")
	flags.BoolVar(&c.check, "check", false, "with --file, change nothing and say what it would do")
	c.addFlags(cmd)
	return cmd
}

func (c *rulesCommand) list(cmd *cobra.Command, _ []string) error {
	return c.with(cmd, c.world, func(ctx context.Context, s *running) error {
		var all admin.Rules
		if err := s.decode(ctx, "/api/v1/rules", nil, &all); err != nil {
			return err
		}
		if c.asJSON {
			return c.printJSON(&all, "  ")
		}
		if len(all.Rules) == 0 {
			c.status.Printf("there are no rules, so everything is allowed that nothing else hides; docs/policy.md explains them")
		} else if err := c.print(ruleTable(&all)); err != nil {
			return err
		}
		for _, r := range all.Rules {
			for _, w := range r.Warnings {
				c.warn(fmt.Sprintf("rule %d: %s", r.Number, lowerFirst(w)))
			}
		}
		if all.Problem != "" {
			c.warn("the rules that are written aren't in use: " + all.Problem)
		}
		return nil
	})
}

func (c *rulesCommand) warn(sentence string) {
	c.status.label(yellow, "warning", lowerFirst(strings.TrimSuffix(sentence, ".")))
}

func ruleTable(all *admin.Rules) screen.Table {
	t := screen.Table{Width: 80, Columns: []screen.Column{{Title: "#", Whole: true}, {Title: "MATCH", Wrap: true}, {Title: "WHO", Wrap: true}, {Title: "DO", Wrap: true}, {Title: "WHERE", Wrap: true}}}
	for _, r := range all.Rules {
		number := strconv.Itoa(r.Number)
		if r.Project != all.Project {
			number = r.Project + " " + number
		}
		who := "everybody"
		if r.Who != nil {
			var parts []string
			for _, x := range []struct {
				what string
				list []string
			}{{"keys", r.Who.Keys}, {"people", r.Who.People}, {"roles", r.Who.Roles}} {
				if len(x.list) > 0 {
					parts = append(parts, x.what+" "+strings.Join(x.list, ", "))
				}
			}
			if r.Who.Hidden {
				parts = append(parts, "some keys or people")
			}
			who = strings.Join(parts, "; ")
		}
		do := r.Do
		if r.As != nil {
			do = asText(r.As)
		}
		t.Rows = append(t.Rows, screen.Cells(number, strings.Join(r.Match, ", "), who, do, placeText(&r.RulePlace)))
	}
	return t
}

// asText says what a rule changes of an item.
func asText(as *admin.RuleAs) string {
	if as.Name != "" {
		return "as " + as.Name
	}
	var parts []string
	for _, x := range []struct {
		what string
		is   bool
	}{{"title", as.Title != ""}, {"description", as.Description != ""}, {"annotations", len(as.Annotations) > 0}} {
		if x.is {
			parts = append(parts, x.what)
		}
	}
	return "another " + strings.Join(parts, ", ")
}

// placeText says where a rule or a setting stands.
func placeText(p *admin.RulePlace) string {
	switch {
	case p.Line > 0:
		return filepath.Base(p.File) + ":" + strconv.Itoa(p.Line)
	case p.File == "" && !strings.HasPrefix(p.Path, "dragoman."):
		return "the store"
	}
	return p.Path
}

// because says what decides about an item, and where that stands.
func because(d *admin.RuleDecision) string {
	if d.Place == nil || placeText(d.Place) == d.Why {
		return d.Why
	}
	return d.Why + " (" + placeText(d.Place) + ")"
}

// mayText says what becomes of the use of an item.
func mayText(do string) screen.Cell {
	switch do {
	case "allow":
		return screen.Cell{Text: "yes", Style: screen.Green}
	case "confirm":
		return screen.Cell{Text: "asked", Style: screen.Yellow}
	}
	return screen.Cell{Text: "no", Style: screen.Red}
}

func (c *rulesCommand) who(cmd *cobra.Command, args []string) error {
	return c.with(cmd, c.world, func(ctx context.Context, s *running) error {
		var all admin.RuleUses
		if err := s.decode(ctx, "/api/v1/rules/who", url.Values{"item": {args[0]}}, &all); err != nil {
			if bad := (*problemError)(nil); errors.As(err, &bad) && bad.kind == "parameter" {
				_, why, _ := strings.Cut(bad.text, "is invalid: ")
				return usagef("", "%s", why)
			}
			return err
		}
		if c.asJSON {
			return c.printJSON(&all, "  ")
		}
		t := screen.Table{Width: 80, Columns: []screen.Column{{Title: "WHO", Whole: true, Most: 40}, {Title: "MAY USE IT", Whole: true}, {Title: "BECAUSE OF", Wrap: true}}, Colour: c.screen && c.status.colour}
		for _, x := range all.Who {
			name := x.Kind + " " + x.Name
			if x.Kind == "local" {
				name = "this machine, without a key"
			}
			t.Rows = append(t.Rows, []screen.Cell{{Text: name}, mayText(x.Do), {Text: because(&x.RuleDecision)}})
		}
		if all.Note != "" {
			if _, err := fmt.Fprintf(c.stdout, "%s: %s\n\n", clean(all.Item), clean(lowerFirst(all.Note))); err != nil {
				return err
			}
		}
		return c.print(t)
	})
}

func (c *rulesCommand) view(cmd *cobra.Command, args []string) error {
	return c.with(cmd, c.world, func(ctx context.Context, s *running) error {
		var all admin.RuleView
		if err := s.decode(ctx, "/api/v1/rules/for", url.Values{"name": {args[0]}}, &all); err != nil {
			return err
		}
		if c.asJSON {
			return c.printJSON(&all, "  ")
		}
		t := screen.Table{Width: 80, Columns: []screen.Column{{Title: "ITEM", Wrap: true}, {Title: "SEEN AS", Wrap: true}, {Title: "MAY USE IT", Whole: true}, {Title: "BECAUSE OF", Wrap: true}}, Colour: c.screen && c.status.colour}
		denied := 0
		for _, x := range all.Items {
			if x.Do == "deny" {
				denied++
				continue
			}
			t.Rows = append(t.Rows, []screen.Cell{{Text: x.Server + "/" + x.Item}, {Text: x.Offered}, mayText(x.Do), {Text: because(&x.RuleDecision)}})
		}
		if len(t.Rows) > 0 {
			if err := c.print(t); err != nil {
				return err
			}
		}
		c.status.Printf("the %s %q sees %d of %d items; `dragoman rules for %s --json%s` has them all", all.Kind, all.Name, len(t.Rows), len(all.Items), shellWord(args[0]), c.words())
		if len(all.Unread) > 0 {
			c.status.Printf("the tools of these servers aren't known yet: %s", clean(strings.Join(all.Unread, ", ")))
		}
		return nil
	})
}

func (c *rulesCommand) edit(cmd *cobra.Command, _ []string) error {
	if c.check && c.from == "" {
		return usagef("add --file", "--check needs the rules in a file")
	}
	return c.editText(cmd, c.world, textEdit{
		file: "rules.yaml", from: c.from, again: "dragoman rules edit",
		get: func(ctx context.Context, s *running) ([]byte, string, error) {
			var now admin.Rules
			if err := s.decode(ctx, "/api/v1/rules", nil, &now); err != nil {
				return nil, "", err
			}
			own := slices.ContainsFunc(now.Rules, func(r admin.RuleEntry) bool { return r.Project == now.Project })
			switch {
			case now.Home == "file" && c.check:
				return nil, "", nil
			case now.Home == "file":
				where := "the configuration file"
				if now.File != "" {
					where = now.File
				}
				return nil, "", withHint(fmt.Errorf("the rules of the project %s are in %s", now.Project, clean(where)), "edit them there; a running serve follows")
			case own && now.Text == "":
				return nil, "", withHint(fmt.Errorf("the text of the project %s is written so that its rules can't be edited alone", now.Project), "run `dragoman projects edit %s`", shellWord(now.Project))
			}
			return []byte(now.Text), now.ETag, nil
		},
		put: c.put,
	})
}

// put replaces the rules, or only checks new ones.
func (c *rulesCommand) put(ctx context.Context, s *running, tag string, text []byte) error {
	var kept admin.KeptRules
	q := asked{method: http.MethodPut, path: "/api/v1/rules", body: bytes.TrimRight(text, "\n")}
	if c.check {
		q.query = url.Values{"check": {"true"}}
	}
	if q.body == nil {
		q.body = []byte{}
	}
	if err := s.change(ctx, changeWait, q, &kept, "Content-Type", "application/yaml", "If-Match", tag); err != nil {
		return err
	}
	done := fmt.Sprintf("these rules can be used; nothing was changed (it would have %s)", rulesMoved(&kept))
	if kept.Written {
		done = fmt.Sprintf("changed the rules of the project %q: %s", kept.Project, rulesMoved(&kept))
	}
	if err := c.done(c.world, kept, kept.Note, "%s", done); err != nil || c.asJSON {
		return err
	}
	if kept.Effect != nil {
		for _, x := range kept.Effect.Changes {
			c.status.Printf("it %s", x.Sentence())
		}
		if kept.Effect.Emptied {
			c.warn("clients would see nothing of this project any more, unless a rule allows something to them by name or role")
		}
	}
	for _, w := range kept.Warnings {
		c.warn(w)
	}
	for _, r := range kept.Rules.Rules {
		for _, w := range r.Warnings {
			if kept.Written {
				c.warn(fmt.Sprintf("rule %d: %s", r.Number, lowerFirst(w)))
			}
		}
	}
	return nil
}

// rulesMoved says how many rules a change adds and removes.
func rulesMoved(kept *admin.KeptRules) string {
	return fmt.Sprintf("added %d, removed %d", kept.Added, kept.Removed)
}
