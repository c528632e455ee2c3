package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
	"github.com/dragoman-mcp/dragoman/internal/app/form"
	"github.com/dragoman-mcp/dragoman/internal/app/tool"
	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/base/screen"
	"github.com/dragoman-mcp/dragoman/internal/protocol/schema"
)

// questionsCommand is `dragoman questions` and its subcommands.
type questionsCommand struct {
	*world
	houseFlags

	accept  []string // name=value
	content string
	yes     bool
}

const whoAnswers = `On this machine, the user who started "dragoman serve" can do this. On another
one, use --url, with an API key in the environment variable DRAGOMAN_KEY: with
the role operator for all questions of the project, or with the role viewer for
those about the calls of the person whom the key acts for.`

func newQuestionsCommand(w *world) *cobra.Command {
	c := &questionsCommand{world: w}
	cmd := &cobra.Command{
		Use:         "questions [flags]",
		Annotations: map[string]string{alsoRuns: "true"},
		Short:       "Answer what clients cannot ask their person",
		Long: `List the questions that wait for a person, because the client of the call can't
show them: servers' forms and links, and calls that a rule wants confirmed. They
wait here if the setting "questions" is console. docs/questions.md explains it.

` + whoAnswers,
		Example: `  # What waits?
  dragoman questions

  # Look at one, and answer it.
  dragoman questions show 7QK2
  dragoman questions answer 7QK2`,
		Args:              noArguments,
		RunE:              c.list,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	c.addFlags(cmd)
	cmd.AddCommand(newQuestionsListCommand(w), newQuestionsShowCommand(w), newQuestionsAnswerCommand(w), newQuestionsDeclineCommand(w))
	return cmd
}

func newQuestionsListCommand(w *world) *cobra.Command {
	c := &questionsCommand{world: w}
	cmd := &cobra.Command{
		Use:   "list [flags]",
		Short: "List the questions that wait for a person",
		Long:  "List the questions that wait for a person, the oldest first.\n\n" + whoAnswers,
		Example: `  dragoman questions list

  # For a script.
  dragoman questions list --json`,
		Args:              noArguments,
		RunE:              c.list,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	c.addFlags(cmd)
	return cmd
}

func newQuestionsShowCommand(w *world) *cobra.Command {
	c := &questionsCommand{world: w}
	cmd := &cobra.Command{
		Use:   "show ID [flags]",
		Short: "Show a question with its form or its link",
		Long: `Show a question that waits for a person: who asks, about which call, and the
form or the link. The beginning of the ID suffices.`,
		Example: `  dragoman questions show 7QK2

  # With the JSON Schema of the form.
  dragoman questions show 7QK2 --json`,
		Args:              c.oneArgument("the question's ID", "dragoman questions show 7QK2"),
		RunE:              c.show,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	c.addFlags(cmd)
	return cmd
}

func newQuestionsAnswerCommand(w *world) *cobra.Command {
	c := &questionsCommand{world: w}
	cmd := &cobra.Command{
		Use:   "answer ID [flags]",
		Short: "Answer a question, so that its call goes on",
		Long: `Answer a question that waits for a person. On a terminal, the command asks for
the fields of a form, and whether you agree. In a script, give the fields with
--accept or --content, and say --yes to a link that you have opened or to a call
that you confirm. An answer counts once, and can't be taken back.`,
		Example: `  # At a terminal.
  dragoman questions answer 7QK2

  # In a script: a form, field by field or as JSON, and a confirmation.
  dragoman questions answer 7QK2 --accept name=Ada --accept age=36
  dragoman questions answer 7QK2 --content - < form.json
  dragoman questions answer 9DPW --yes`,
		Args:              c.oneArgument("the question's ID", "dragoman questions answer 7QK2"),
		RunE:              c.answer,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	flags := flagsInOrder(cmd)
	flags.StringArrayVar(&c.accept, "accept", nil, "fill in a field of the form, as `name=value` (repeatable)")
	flags.StringVar(&c.content, "content", "", "send this `JSON` object as the form; - reads it from stdin")
	flags.BoolVarP(&c.yes, "yes", "y", false, "agree without being asked")
	c.addFlags(cmd)
	return cmd
}

func newQuestionsDeclineCommand(w *world) *cobra.Command {
	c := &questionsCommand{world: w}
	cmd := &cobra.Command{
		Use:   "decline ID [flags]",
		Short: "Decline a question",
		Long: `Decline a question that waits for a person. A call that a rule wants confirmed
is refused then. A server hears that the person doesn't want to, and decides
itself.`,
		Example: `  dragoman questions decline 7QK2

  # Of the serve on another machine.
  dragoman questions decline 7QK2 --url https://mcp.example.com`,
		Args: c.oneArgument("the question's ID", "dragoman questions decline 7QK2"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.with(cmd, args[0], func(ctx context.Context, s *running, q *admin.QuestionDetails) error {
				return c.send(ctx, s, q, admin.QuestionAnswer{Action: "decline"})
			})
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	c.addFlags(cmd)
	return cmd
}

func (c *questionsCommand) list(cmd *cobra.Command, _ []string) error {
	return c.serve(cmd, c.world, func(ctx context.Context, s *running) error {
		var all admin.Questions
		if err := s.decode(ctx, "/api/v1/questions", nil, &all); err != nil {
			return err
		}
		c.tellMissing(all.Missing, "what waits there is not here")
		switch {
		case c.asJSON:
			return c.printJSON(all, "  ")
		case len(all.Questions) == 0 && all.Mode == "off":
			c.status.Printf("nothing waits for a person, because questions is off")
			return nil
		case len(all.Questions) == 0:
			c.status.Printf("nothing waits for a person")
			return nil
		}
		return c.print(questionTable(all.Questions))
	})
}

// shownID is how many characters of an ID people are shown, unless two questions begin alike.
const shownID = 8

func questionTable(all []admin.QuestionEntry) screen.Table {
	t := screen.Table{Width: 80, Columns: []screen.Column{{Title: "ID", Whole: true}, {Title: "LEFT", Whole: true}, {Title: "KIND", Whole: true}, {Title: "CALL", Most: 30}, {Title: "WHO", Most: 16}, {Title: "QUESTION", Wrap: true}}}
	for _, x := range all {
		id := x.ID[:min(shownID, len(x.ID))]
		if slices.ContainsFunc(all, func(y admin.QuestionEntry) bool { return y.ID != x.ID && strings.HasPrefix(y.ID, id) }) {
			id = x.ID
		}
		first, _, _ := strings.Cut(x.Message, "\n")
		t.Rows = append(t.Rows, screen.Cells(id, left(x.Until), x.Kind, callOf(&x), x.Who, fit(first, 200)))
	}
	return t
}

// left returns how long a question still waits.
func left(until time.Time) string {
	return max(0, time.Until(until)).Round(time.Second).String()
}

func callOf(x *admin.QuestionEntry) string {
	if x.Item == "" {
		return x.Server
	}
	return x.Server + "/" + x.Item
}

// with calls do with a running serve and the question whose ID begins with id.
func (c *questionsCommand) with(cmd *cobra.Command, id string, do func(context.Context, *running, *admin.QuestionDetails) error) error {
	return c.serve(cmd, c.world, func(ctx context.Context, s *running) error {
		var all admin.Questions
		if err := s.decode(ctx, "/api/v1/questions", nil, &all); err != nil {
			return err
		}
		whole := ""
		for _, x := range all.Questions {
			switch {
			case !strings.HasPrefix(x.ID, strings.ToUpper(id)):
			case whole != "":
				return usagef("write more of it, as `dragoman questions"+c.words()+"` shows it", "several questions begin with %s", id)
			default:
				whole = x.ID
			}
		}
		if whole == "" {
			whole = strings.ToUpper(id) // the API knows what has become of it
		}
		var q admin.QuestionDetails
		if err := s.decode(ctx, "/api/v1/questions/"+url.PathEscape(whole), nil, &q); err != nil {
			return c.gone(err)
		}
		return do(ctx, s, &q)
	})
}

// gone adds a hint to the error of the API that a question doesn't wait.
func (c *questionsCommand) gone(err error) error {
	var bad *problemError
	if errors.As(err, &bad) && slices.Contains([]string{"no-such-question", "answered", "no-longer-asked"}, bad.kind) {
		return withHint(err, "`dragoman questions%s` lists what waits", c.words())
	}
	return err
}

func (c *questionsCommand) show(cmd *cobra.Command, args []string) error {
	return c.with(cmd, args[0], func(_ context.Context, _ *running, q *admin.QuestionDetails) error {
		if c.asJSON {
			return c.printJSON(q, "  ")
		}
		var b strings.Builder
		who := clean(q.Who)
		if q.Client != "" {
			who += " with " + clean(q.Client)
		}
		fmt.Fprintf(&b, "%s, of a call of %s by %s\n", q.Kind, clean(callOf(&q.QuestionEntry)), who)
		fmt.Fprintf(&b, "waits since %s, for another %s\n\n", q.Since.In(time.Local).Format(time.TimeOnly), left(q.Until))
		for line := range strings.Lines(q.Message) {
			fmt.Fprintf(&b, "  | %s\n", clean(strings.TrimRight(line, "\r\n")))
		}
		if q.URL != "" {
			fmt.Fprintf(&b, "\n  %s\n", clean(q.URL))
		}
		b.WriteString(describeFields(q))
		_, err := io.WriteString(c.stdout, b.String())
		return err
	})
}

// describeFields returns the fields of a question's form, each with the values that it allows.
func describeFields(q *admin.QuestionDetails) string {
	var b strings.Builder
	for i, f := range fieldsOf(q) {
		if i == 0 {
			b.WriteByte('\n')
		}
		kind := f.Type
		choices, several := choicesOf(f.Schema)
		switch {
		case several && len(choices) > 0:
			kind = "some of these"
		case len(choices) > 0:
			kind = "one of these"
		}
		if !f.Required {
			kind += ", optional"
		}
		fmt.Fprintf(&b, "  %s (%s)\n", clean(f.Name), clean(kind))
		for _, c := range choices {
			fmt.Fprintf(&b, "    %s\n", titled(c))
		}
	}
	return b.String()
}

func fieldsOf(q *admin.QuestionDetails) []tool.Argument {
	if q.Schema == nil {
		return nil
	}
	return tool.ArgumentsOf(schema.Of(q.Schema, jsonrpc.Whole(q.Schema)))
}

func (c *questionsCommand) answer(cmd *cobra.Command, args []string) error {
	given, err := parseArguments("--accept", c.accept)
	if err != nil {
		return err
	}
	if len(given) > 0 && c.content != "" {
		return usagef("remove one of them", "--accept and --content cannot be used together")
	}
	if c.content == "-" {
		const most = 1 << 20
		text, err := io.ReadAll(io.LimitReader(c.stdin, most))
		if err != nil {
			return fmt.Errorf("cannot read stdin: %w", err)
		}
		c.content = string(text)
	}
	return c.with(cmd, args[0], func(ctx context.Context, s *running, q *admin.QuestionDetails) error {
		out := admin.QuestionAnswer{Action: "accept"}
		switch {
		case c.content != "" && q.Kind == "confirmation":
			err = usagef("answer it with --yes", "the question has no form to fill in")
		case c.content != "":
			if err := jsonrpc.Valid([]byte(c.content), jsonrpc.Limits{}); err != nil {
				return usagef("write an object with the fields of the form", "the form is not valid JSON: %s", form.FaultOfJSON(c.content, err))
			}
			out.Content = []byte(c.content)
		case q.Kind == "form":
			out.Content, out.Action, err = c.fill(ctx, q, given)
		case len(given) > 0:
			err = usagef("answer it with --yes", "the question has no form to fill in")
		case !c.yes:
			out.Action, err = c.agree(ctx, q)
		}
		if err != nil {
			return err
		}
		if out.Action == "cancel" {
			return withHint(errors.New("nothing was sent, and the question still waits"), "`dragoman questions decline %s%s` declines it", shellWord(args[0]), c.words())
		}
		return c.send(ctx, s, q, out)
	})
}

// asker returns who asks the user at the terminal.
func (c *questionsCommand) asker(q *admin.QuestionDetails) *asker {
	return &asker{world: c.world, server: q.Server, turn: make(chan struct{}, 1)}
}

// fill returns the filled in form. It asks the user if it may.
func (c *questionsCommand) fill(ctx context.Context, q *admin.QuestionDetails, given []argument) (content []byte, action string, err error) {
	content, err = objectOf(schema.Of(q.Schema, jsonrpc.Whole(q.Schema)), nil, given)
	if err != nil {
		return nil, "", err
	}
	bad := checkForm(q.Schema, content)
	switch {
	case c.interactive && !c.yes:
		content, action = c.asker(q).askForm(ctx, q.Message, q.Schema, given)
		return content, action, nil
	case bad != nil:
		return nil, "", usagef("fill in the form with --accept name=value; `dragoman questions show "+q.ID[:min(shownID, len(q.ID))]+c.words()+"` shows its fields", "%s", clean(bad.Error()))
	case len(given) == 0 && !c.yes:
		return nil, "", usagef("say --yes to send the form as it is, or fill it in with --accept name=value", "no field of the form is filled in")
	}
	return content, "accept", nil
}

// agree asks the user whether they agree.
func (c *questionsCommand) agree(ctx context.Context, q *admin.QuestionDetails) (action string, err error) {
	k := c.asker(q)
	switch {
	case !c.interactive:
		return "", usagef("say --yes, or use `dragoman questions decline`", "stdin or stderr is not a terminal, so nobody can be asked")
	case q.URL != "":
		return k.askPage(ctx, q.Message, q.URL), nil
	}
	return k.converse(ctx, func(t *terminal) string {
		t.say(t.bold("Dragoman asks before it sends a call of " + clean(q.Who) + " to " + clean(q.Server) + ":"))
		t.quote(q.Message)
		return t.consent("[y]es, [d]ecline, [c]ancel:", false, false) // Enter alone must not send what a rule guards
	}), nil
}

// send sends an answer.
func (c *questionsCommand) send(ctx context.Context, s *running, q *admin.QuestionDetails, out admin.QuestionAnswer) error {
	var done admin.QuestionAnswered
	if err := s.apply(ctx, http.MethodPost, "/questions/"+url.PathEscape(q.ID)+"/answer", out, &done); err != nil {
		return c.gone(err)
	}
	what := "declined the question of %s"
	if done.Action == "accept" {
		what = "answered the question of %s, and the call goes on"
	}
	return c.done(c.world, done, "", what, excerpt.Word(q.Server, 100))
}
