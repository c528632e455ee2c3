package cli

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dragoman-mcp/dragoman/internal/config"
	"github.com/dragoman-mcp/dragoman/internal/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/mcp"
)

func (a *app) callCommand() *cobra.Command {
	var t targetFlags
	var file, target, tool, jsonArgs string
	var command, pairs, accept []string
	var asJSON bool
	c := &cobra.Command{
		Use:   "call (URL TOOL | NAME TOOL | TOOL -- COMMAND [ARG]...) [flags]",
		Short: "Call one tool and print its result",
		Long: `Call one tool of a server and print its result. The server is a URL, the name of
a configured server, or a command after --. With a command, write the tool and
all flags before the --.

Pass arguments as --arg name=value. The tool's schema decides the JSON type of
the value: string, number, boolean, array or object. Repeat --arg to fill an
array. Without a schema the value is a string. With --arg name:=JSON you write
the JSON yourself. --json-args takes all arguments as one JSON object, or - to
read the object from stdin.

Text goes to stdout unchanged. Images, audio and other binary content are only
mentioned on stderr; --json prints them. On a terminal, control characters in
the text are escaped. The exit code is 1 if the tool reports an error.

Lines on stderr that begin with "dragoman:" come from Dragoman. In these lines,
text from the server is quoted.`,
		Example: `  dragoman call https://mcp.example.com/mcp search --arg query=bridges --arg limit=5

  # With a command, write the tool first.
  dragoman call add --arg a=2 --arg b=3 -- npx -y @modelcontextprotocol/server-everything@2025.9.25

  # Pass all arguments as JSON, and print the whole result as JSON.
  dragoman call gh create_issue --json-args '{"title":"Bug","labels":["ui"]}' --json

  # Fill in a form that the tool asks for.
  dragoman call deploy start --accept environment=staging --accept confirm=true`,
		Args: func(c *cobra.Command, args []string) error {
			target, tool, command = "", "", nil
			if dash := c.ArgsLenAtDash(); dash >= 0 {
				args, command = args[:dash], args[dash:]
				switch {
				case len(command) == 0:
					return usagef("use `dragoman call TOOL -- COMMAND`", "no command after --")
				case len(args) == 0:
					return usagef("use `dragoman call TOOL -- "+clean(strings.Join(command, " "))+"`", "no tool given")
				case len(args) > 1 && strings.Contains(args[1], "="):
					return usagef("put --arg before it", "unexpected argument %q after the tool", args[1])
				case len(args) > 1:
					return usagef("put only the tool before --", "got both %q and a command", args[0])
				}
				tool = args[0]
				return nil
			}
			switch len(args) {
			case 0:
				return usagef("use `dragoman call URL TOOL`, `dragoman call NAME TOOL` or `dragoman call TOOL -- COMMAND`", "no server given")
			case 1:
				if isURL(args[0]) {
					return usagef("run `dragoman list "+clean(args[0])+"` to list its tools", "no tool given")
				}
				return usagef("put a server before it, or a command after --", "got only %q, but call needs a server and a tool", args[0])
			case 2:
				target, tool = args[0], args[1]
				return nil
			}
			return usagef("pass arguments as --arg name=value, and put -- before a command", "unexpected argument %q after the tool", args[2])
		},
		RunE: func(c *cobra.Command, _ []string) error {
			arguments, err := parseArguments("--arg", pairs)
			if err != nil {
				return err
			}
			answers, err := parseArguments("--accept", accept)
			if err != nil {
				return err
			}
			base, err := a.readJSONArgs(jsonArgs)
			if err != nil {
				return err
			}
			server, err := a.target(&t, target, command, file)
			if err != nil {
				return err
			}
			var result []byte
			var hint string
			err = a.withSession(c.Context(), server, a.answerWith(answers), func(s Session) error {
				result, hint, err = a.callTool(c.Context(), s, server, tool, base, arguments)
				return err
			})
			if hint == noSuchTool {
				hint = "the server has no tool with this name; `" + listLine(target, command, file) + "` lists its tools"
			}
			if err != nil {
				if hint != "" {
					err = withHint(err, "%s", hint)
				}
				return err
			}
			err = a.printResult(result, asJSON)
			if err != nil && hint != "" {
				a.status.label(yellow, "hint", hint)
			}
			return err
		},
		ValidArgsFunction: a.completeTarget(&file),
	}
	f := flagsInOrder(c)
	f.StringArrayVar(&pairs, "arg", nil, "pass an argument, as `name=value` or name:=JSON (repeatable)")
	f.StringVar(&jsonArgs, "json-args", "", "pass all arguments as one `JSON` object, or - to read it from stdin")
	f.BoolVar(&asJSON, "json", false, "print the whole result as JSON, byte for byte as the server sent it")
	f.StringArrayVar(&accept, "accept", nil, "fill in a field if the server asks for a form, as `name=value` (repeatable)")
	addConfigFlag(c, &file)
	t.add(f)
	return c
}

// readJSONArgs returns the object of --json-args, nil when it is not given.
func (a *app) readJSONArgs(text string) ([]byte, error) {
	if text == "" {
		return nil, nil
	}
	const most = 4 << 20
	b, from := []byte(text), "--json-args"
	if text == "-" {
		var err error
		if b, err = io.ReadAll(io.LimitReader(a.stdin, most+1)); err != nil {
			return nil, err
		}
		from = "stdin"
	}
	if err := jsonrpc.Valid(b, jsonrpc.Limits{Bytes: most}); err != nil {
		return nil, usagef(`use an object, for example '{"name":"value"}'`, "%s is not valid JSON: %v", from, err)
	}
	if jsonrpc.KindOf(b, jsonrpc.Whole(b)) != '{' {
		return nil, usagef(`use an object, for example '{"name":"value"}'`, "%s is not a JSON object", from)
	}
	return b, nil
}

// noSuchTool is a placeholder for a hint. The caller of callTool replaces it, because it
// knows the arguments that name the server.
const noSuchTool = "no such tool"

// listLine returns the command that lists the tools of the target of call.
func listLine(target string, command []string, file string) string {
	line := "dragoman list"
	switch {
	case len(command) > 0:
		line += " -- " + strings.Join(command, " ")
	case file != "" && !isURL(target):
		line += " " + target + " -c " + file
	default:
		line += " " + target
	}
	return clean(line)
}

// callTool looks up the types of the arguments and calls the tool. If the call fails, hint
// is one thing to do about it, or "".
func (a *app) callTool(ctx context.Context, s Session, server config.Server, tool string, base []byte, arguments []argument) (result []byte, hint string, err error) {
	var names []string
	var missing string // which servers are missing from the list, and why
	var form schema
	if needTypes(arguments) {
		a.status.Step(server.Name, "looking up "+tool)
		l, err := a.listWhole(ctx, s, server.Name, "tools", func(items [][]byte) bool { return hasNamed(items, tool) })
		if ctx.Err() != nil {
			return nil, "", err
		}
		items := l.Items
		if err != nil {
			// A server that cannot list its tools may still be able to call one.
			a.log.LogAttrs(ctx, slog.LevelDebug, "tools/list failed; arguments are sent as strings", slog.Any("error", err))
		}
		names, missing = namesOf(items), whyMissing(l)
		if i := slices.Index(names, tool); i >= 0 {
			form = schemaOf(items[i], jsonrpc.Find(items[i], jsonrpc.Whole(items[i]), "inputSchema"))
		}
	}
	args, err := form.object(base, "--arg", arguments)
	if err != nil {
		return nil, "", err
	}
	a.status.Step(server.Name, "calling "+tool)
	result, err = s.Call(ctx, tool, args, func(progress, total float64, message string) {
		a.status.Detail(progressText(server.Name, tool, progress, total, message))
	})
	var wire *jsonrpc.Error
	switch {
	case err == nil && !isToolError(result), err != nil && !errors.As(err, &wire):
		return result, "", err
	case wire != nil && needsForm(wire):
		return nil, "the tool asks for input while it runs; answer in advance with --accept name=value", err
	}
	// Servers refuse an unknown tool with an error or with an error result. Only the list
	// shows whether the tool exists.
	if names == nil {
		l, err := s.List(ctx, "tools")
		if err != nil {
			a.log.LogAttrs(ctx, slog.LevelDebug, "tools/list failed", slog.Any("error", err))
		}
		names, missing = namesOf(l.Items), whyMissing(l)
	}
	if slices.Contains(names, tool) {
		return result, "", err
	}
	if near := config.Suggest(tool, names); near != "" {
		return result, "did you mean " + excerpt.Word(near, maxQuoted) + "?", err
	}
	switch {
	case missing != "":
		return result, "the tool may be on a missing server: " + missing, err
	case len(names) == 0:
		return result, "", err
	}
	return result, noSuchTool, err
}

func namesOf(items [][]byte) []string {
	names := make([]string, len(items))
	for i, raw := range items {
		names[i] = textOf(raw, jsonrpc.Whole(raw), "name")
	}
	return names
}

// needsForm reports whether a server refuses a call because the client does not support
// forms. 2026-07-28 §Base, "Error Codes": -32021 lists the missing
// capabilities in data.requiredCapabilities. Translation to another revision may have
// changed the code.
func needsForm(e *jsonrpc.Error) bool {
	whole := jsonrpc.Whole(e.Data)
	required := jsonrpc.Find(e.Data, whole, "requiredCapabilities")
	if required.IsZero() {
		return e.Code == mcp.CodeMissingCapability
	}
	return !jsonrpc.Find(e.Data, required, "elicitation").IsZero()
}

// isToolError reports whether a result has isError set.
func isToolError(result []byte) bool {
	return jsonrpc.KindOf(result, jsonrpc.Find(result, jsonrpc.Whole(result), "isError")) == 't'
}

func progressText(server, tool string, progress, total float64, message string) string {
	text := server + ": " + tool
	if total > 0 {
		text += " " + strconv.Itoa(int(100*min(1, max(0, progress/total)))) + " %"
	}
	if message != "" {
		text += ": " + excerpt.Quote(message, 200)
	}
	return text
}

func (a *app) printResult(result []byte, asJSON bool) error {
	if asJSON {
		if err := a.printRaw(a.stdout, append(result[:len(result):len(result)], '\n')); err != nil {
			return err
		}
	} else if err := a.printContent(result); err != nil {
		return err
	}
	if isToolError(result) {
		a.status.label(red, "error", "the tool reported an error")
		return errReported
	}
	return nil
}

// answerWith returns a function that answers the elicitations of a server with the given
// values. It returns nil if there are none.
func (a *app) answerWith(given []argument) func(string, []byte) ([]byte, string) {
	if len(given) == 0 {
		return nil
	}
	return func(message string, raw []byte) ([]byte, string) {
		form := schemaOf(raw, jsonrpc.Whole(raw))
		var fill []argument
		var missing []string
		for _, g := range given {
			if form.has(g.key) {
				fill = append(fill, g)
			}
		}
	required:
		for _, name := range form.required() {
			for _, g := range fill {
				if g.key == name {
					continue required
				}
			}
			missing = append(missing, "--accept "+excerpt.Word(name, 100)+"=…")
		}
		content, err := form.object(nil, "--accept", fill)
		message = excerpt.Quote(message, maxQuoted)
		switch {
		case len(raw) == 0:
			a.status.Printf("the server asked %s; declined, because the request is not a form", message)
		case len(missing) > 0:
			a.status.Printf("the server asked %s; declined, because the form also needs %s", message, strings.Join(missing, " "))
		case err != nil:
			a.status.Printf("the server asked %s; declined, because %v", message, err)
		default:
			if a.verbose {
				a.status.Printf("the server asked %s; answered", message)
			}
			return content, "accept"
		}
		return nil, "decline"
	}
}
