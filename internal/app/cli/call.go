package cli

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/dragoman-mcp/dragoman/internal/app/form"
	"github.com/dragoman-mcp/dragoman/internal/app/tool"
	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
)

// callCommand is `dragoman call`.
type callCommand struct {
	client

	ask      askFlags
	pairs    []string // the values of --arg
	jsonArgs string
	noCheck  bool
	asJSON   bool
	save     string

	name  string   // the tool
	words []string // its arguments on the command line
}

func newCallCommand(w *world) *cobra.Command {
	c := &callCommand{client: client{world: w}}
	cmd := &cobra.Command{
		Use:   "call (URL | NAME) TOOL [name=value]... [flags]",
		Short: "Call one tool and print its result",
		Long: `Call one tool of a server and print its result. The server is a URL, the name of
a configured server, or a command after --. With a command, the tool, its
arguments and all flags come before the --.

Pass arguments as name=value. The tool's schema decides the JSON type: string,
number, boolean, array or object. Without a schema, the value is a string. For
an array, repeat the name for each item. To pass JSON, write name:=JSON.
--json-args takes all arguments as one JSON object, from the command line, a
file (@FILE) or stdin (@-). --arg name=value is the same as name=value.

The arguments are checked against the schema before the call is sent, unless you
use --no-check. "dragoman show" prints a tool's arguments.

If the tool asks for input, and stdin and stderr are a terminal, you're asked.
In scripts, --accept fills in a form, and --decline refuses to answer. If it
asks for your folders (roots), it gets only those that you pass with --root.

Text goes to stdout unchanged, but on a terminal control characters are escaped.
Images, audio and files are only listed on stderr; --save writes them to a
folder and prints their paths. --json prints the whole result, with their
content.

A configured server is called through the running "dragoman serve" that has the
same configuration, so it doesn't run twice. With --direct, the command starts
it itself. A server that your configuration file doesn't have is found in a
running serve. With --revision, the call is that of a client of this revision,
as in the console's playground.

Ctrl-C cancels the call at the server. The exit code is 1 if the tool reports an
error, 2 if the arguments are wrong, and 130 after Ctrl-C.

Lines on stderr that begin with "dragoman:" are ours. In them, the server's text
is in quotation marks.`,
		Example: `  dragoman call https://mcp.example.com/mcp search query=bridges limit=5

  # With a command, write the tool and its arguments first.
  dragoman call add a=2 b=3 -- npx -y @modelcontextprotocol/server-everything@2025.9.25

  # Pass all arguments as JSON, and print the whole result as JSON.
  dragoman call gh create_issue --json-args '{"title":"Bug","labels":["ui"]}' --json
  dragoman call gh create_issue --json-args @issue.json --timeout 30s

  # Make the call of an older client, through the running serve.
  dragoman call gh create_issue title=Bug --revision 2025-03-26

  # Save the pictures of a result.
  dragoman call charts draw --arg title=Sales --save ./pictures

  # Fill in a form that the tool asks for.
  dragoman call deploy start --accept environment=staging --accept confirm=true`,
		Args: c.check,
		RunE: c.run,
	}
	cmd.ValidArgsFunction = c.completeCall()
	c.addFlags(cmd)
	return cmd
}

func (c *callCommand) addFlags(cmd *cobra.Command) {
	flags := flagsInOrder(cmd)
	flags.StringArrayVar(&c.pairs, "arg", nil, "pass an argument, as `name=value` or name:=JSON (repeatable)")
	flags.StringVar(&c.jsonArgs, "json-args", "", "pass all arguments as one `JSON` object, @FILE or @- for stdin")
	flags.BoolVar(&c.noCheck, "no-check", false, "send the arguments without checking them against the schema")
	flags.BoolVar(&c.asJSON, "json", false, "print the whole result as JSON, byte for byte as the server sent it")
	addSaveFlag(flags, &c.save)
	c.ask.add(flags)
	c.client.addFlags(cmd)
}

func (c *callCommand) check(cmd *cobra.Command, args []string) (err error) {
	c.where, c.words, err = serverWords(cmd, args, "call", "TOOL")
	switch {
	case err != nil:
		return err
	case len(c.words) == 0 && len(c.where.command) > 0:
		return usagef("use `"+c.where.line("call", "TOOL")+"`", "no tool given")
	case len(c.words) == 0 && isURL(c.where.target):
		return usagef("run `"+c.where.line("list")+"` to list the tools of the server", "no tool given")
	case len(c.words) == 0:
		return cmp.Or(c.oneWord(), usagef("put a server before the tool, or a command after --", "got only %q, but call needs a server and a tool", c.where.target))
	case len(c.where.command) == 0 && strings.Contains(c.words[0], "="):
		if err := c.oneWord(); err != nil {
			return err
		}
	}
	c.name, c.words = c.words[0], c.words[1:]
	for _, word := range c.words {
		switch {
		case strings.Contains(word, "="):
		case len(c.where.command) > 0:
			return usagef("put only the tool and its arguments before --", "got both %q and a command", c.name)
		default:
			return usagef("pass arguments as name=value, and put -- before a command", "unexpected argument %q after the tool", word)
		}
	}
	return nil
}

// oneWord returns an error for a command line that names either only a server, or both the server and the
// tool in one word, as clients see the tool.
func (c *callCommand) oneWord() error {
	path, _ := c.env.configPath(c.file)
	snapshot, _ := config.Load(path)
	if snapshot == nil {
		return nil
	}
	c.where.file = c.file
	word := c.where.target
	switch _, ok := snapshot.Server(word); {
	case ok && len(c.words) > 0:
		return nil
	case ok:
		return usagef("run `"+c.where.line("list")+"` to list the tools of the server", "no tool given")
	}
	for _, s := range snapshot.Servers {
		if tool, ok := strings.CutPrefix(word, s.Prefix+snapshot.Separator); ok && tool != "" && !s.Unprefixed {
			meant := where{target: s.Name, file: c.file}
			return usagef("did you mean `"+meant.line("call", tool)+"`?", "%q is not a server; write the server and the tool as two words", word)
		}
	}
	return nil
}

func (c *callCommand) run(cmd *cobra.Command, _ []string) error {
	arguments, err := parseArguments("", c.words)
	if err != nil {
		return err
	}
	flagged, err := parseArguments("--arg", c.pairs)
	if err != nil {
		return err
	}
	base, err := c.readJSONArgs(c.jsonArgs)
	if err != nil {
		return err
	}
	ask, err := newAsker(c.world, &c.ask)
	if err != nil {
		return err
	}
	files, err := newSaver(c.save)
	if err != nil {
		return err
	}
	defer files.Close()
	x := &toolCall{client: &c.client, name: c.name, base: base, arguments: append(arguments, flagged...), check: !c.noCheck, ask: ask}
	var result []byte
	err = c.onServer(mcp.WithPurpose(cmd.Context(), mcp.MethodCallTool), ask, func(ctx context.Context, s Session, server config.Server) error {
		x.session, x.server = s, server.Name
		result, err = x.run(ctx)
		return err
	})
	if err != nil {
		if x.hint != "" {
			err = withHint(err, "%s", x.hint)
		}
		return err
	}
	err = c.printResult(result, files)
	if errors.Is(err, errReported) && x.hint != "" {
		c.status.label(yellow, "hint", x.hint)
	}
	return err
}

func (f *askFlags) add(flags *pflag.FlagSet) {
	flags.StringArrayVar(&f.accept, "accept", nil, "fill in a field of a form that the server sends, as `name=value` (repeatable)")
	flags.BoolVar(&f.decline, "decline", false, "decline all questions that the server asks")
	flags.StringArrayVar(&f.roots, "root", nil, "send the folder `DIR` if the server asks for roots (repeatable)")
}

func addSaveFlag(flags *pflag.FlagSet, dir *string) {
	flags.StringVar(dir, "save", "", "save images, audio and files to new files in the folder `DIR`, and print their paths")
}

// readJSONArgs returns the JSON object that --json-args specifies. text is the value of the flag:
// JSON, @FILE, or @- for stdin. readJSONArgs returns nil if text is "".
func (c *callCommand) readJSONArgs(text string) ([]byte, error) {
	if text == "" {
		return nil, nil
	}
	const most = 4 << 20
	b, from := []byte(text), "--json-args"
	path, isFile := strings.CutPrefix(text, "@")
	switch {
	case text == "-" || text == "@-":
		var err error
		if b, err = io.ReadAll(io.LimitReader(c.stdin, most+1)); err != nil {
			return nil, err
		}
		from = "stdin"
	case isFile:
		file, err := os.Open(c.env.expandHome(path))
		if err != nil {
			return nil, usagef("use --json-args @FILE with an existing file, or @- for stdin", "--json-args: %v", err)
		}
		b, err = io.ReadAll(io.LimitReader(file, most+1))
		_ = file.Close()
		if err != nil {
			return nil, err
		}
		from = path
	}
	if err := jsonrpc.Valid(b, jsonrpc.Limits{Bytes: most}); err != nil {
		return nil, usagef(`use an object, for example '{"name":"value"}'`, "%s is not valid JSON: %s", from, form.FaultOfJSON(string(b), err))
	}
	if jsonrpc.KindOf(b, jsonrpc.Whole(b)) != '{' {
		return nil, usagef(`use an object, for example '{"name":"value"}'`, "%s is not a JSON object", from)
	}
	return b, nil
}

// toolCall is one call of a tool.
type toolCall struct {
	*client
	session   Session
	server    string
	name      string
	base      []byte
	arguments []argument
	check     bool
	ask       *asker

	names   []string // the tools of the server; nil if they are not known
	missing string   // the servers whose tools are missing from names, and why
	hint    string   // what the user can do if the call failed; run sets it
}

// maxVisits is the maximum number of times that the command sends a call if the server requires
// that the user first visits pages.
const maxVisits = 3

// run looks up the tool, checks the arguments and calls the tool.
func (x *toolCall) run(ctx context.Context) ([]byte, error) {
	var found tool.Tool
	if x.check || needTypes(x.arguments) {
		var err error
		if found, err = x.lookUp(ctx); err != nil {
			return nil, err
		}
	}
	args, err := x.checked(found)
	if err != nil {
		return nil, err
	}
	var result []byte
	for range maxVisits {
		x.status.Step(x.server, "calling "+x.name)
		result, err = x.session.Call(ctx, x.name, args, func(progress, total float64, message string) {
			x.status.Detail(progressText(x.server, x.name, progress, total, message))
		})
		if again := x.visit(ctx, err); !again {
			break
		}
	}
	var wire *jsonrpc.Error
	switch {
	case err == nil && !isToolError(result), err != nil && !errors.As(err, &wire):
		return result, err
	case wire != nil:
		if x.hint = needHint(wire); x.hint != "" {
			return nil, err
		}
	}
	x.explain(ctx, wire, result)
	return result, err
}

// lookUp reads the list of tools and returns the tool, or the zero tool if the list does not have it.
// Its only error is the end of ctx.
func (x *toolCall) lookUp(ctx context.Context) (tool.Tool, error) {
	x.status.Step(x.server, "looking up "+x.name)
	l, err := x.listWhole(ctx, x.session, x.server, "tools", func(items [][]byte) bool { return hasNamed(items, x.name) })
	if ctx.Err() != nil {
		return tool.Tool{}, context.Cause(ctx)
	}
	if err != nil {
		// A server may be able to call a tool even if it cannot list its tools.
		x.log.LogAttrs(ctx, slog.LevelDebug, "tools/list failed; arguments are sent as strings", slog.Any("error", err))
	}
	x.remember("tools", l.Items)
	x.names, x.missing = namesOf(l.Items), whyMissing(l)
	if i := slices.Index(x.names, x.name); i >= 0 {
		return tool.Of(l.Items[i]), nil
	}
	return tool.Tool{}, nil
}

// checked returns the arguments as a JSON object. It checks them against the schema of the tool, unless
// the tool was not found or the user does not want that.
func (x *toolCall) checked(found tool.Tool) ([]byte, error) {
	args, err := objectOf(found.Input(), x.base, x.arguments)
	if err != nil {
		if found.Raw() != nil {
			err = withHint(err, "run `%s` to see the arguments", x.where.line("show", x.name))
		}
		return nil, err
	}
	if x.check && found.Raw() != nil {
		err, unusable := checkArguments(x.where, found, args)
		if err != nil {
			return nil, err
		}
		if unusable != nil && !x.quiet {
			x.status.label(yellow, "warning", "the arguments are not checked, because the schema of "+excerpt.Word(x.name, 100)+" cannot be used: "+unusable.Error())
		}
	}
	return args, nil
}

// explain sets the hint for a call that failed with an error response, or with a result that has
// isError. For an unknown tool, some servers return the one and some the other: only the list of tools
// shows whether the tool exists.
func (x *toolCall) explain(ctx context.Context, wire *jsonrpc.Error, result []byte) {
	if x.names == nil {
		l, err := x.session.List(ctx, "tools")
		if err != nil {
			x.log.LogAttrs(ctx, slog.LevelDebug, "tools/list failed", slog.Any("error", err))
		}
		x.names, x.missing = namesOf(l.Items), whyMissing(l)
	}
	switch near := config.Suggest(x.name, x.names); {
	case wire != nil && textOf(wire.Data, jsonrpc.Whole(wire.Data), "cause") == "held": // the error says what to do
	case slices.Contains(x.names, x.name):
		if !x.ask.answers() && (wire != nil && wantsInput([]byte(wire.Message)) || wire == nil && wantsInput(result)) {
			x.hint = needsInput
		}
	case near != "":
		x.hint = "did you mean " + excerpt.Word(near, maxQuoted) + "?"
	case x.missing != "":
		x.hint = "the tool may be on a missing server: " + x.missing
	case len(x.names) > 0:
		x.hint = "the server has no tool with this name; `" + x.where.line("list") + "` lists its tools"
	}
}

// visit handles an error response with pages that the user must visit before the server runs the
// tool (2025-11-25 §Elicitation, "URL Elicitation Required Error"). It shows these pages to the
// user. It reports whether to send the call again.
func (x *toolCall) visit(ctx context.Context, err error) bool {
	var wire *jsonrpc.Error
	if !errors.As(err, &wire) || wire.Code != mcp.CodeURLElicitationRequired || !x.ask.canAsk() {
		return false
	}
	agreed := false
	for e := range jsonrpc.Elements(wire.Data, jsonrpc.Find(wire.Data, jsonrpc.Whole(wire.Data), "elicitations")) {
		if (*mcp.Own)(nil).URLProblem(wire.Data, e) != "" {
			return false
		}
		if x.ask.askPage(ctx, textOf(wire.Data, e, "message"), textOf(wire.Data, e, "url")) != "accept" {
			return false
		}
		agreed = true
	}
	return agreed && x.ask.waitForPage(ctx)
}

// waitForPage waits until the user confirms that everything on the pages is done. It returns false
// if the user cancels.
func (k *asker) waitForPage(ctx context.Context) bool {
	return k.converse(ctx, func(t *terminal) string {
		if line, ok := t.prompt("Press Enter when you are done there. [c]ancel:"); !ok || strings.EqualFold(line, "c") || strings.EqualFold(line, "cancel") {
			return "cancel"
		}
		return "accept"
	}) == "accept"
}

// namesOf returns the names of a list's items.
func namesOf(items [][]byte) []string {
	names := make([]string, len(items))
	for i, raw := range items {
		names[i] = textOf(raw, jsonrpc.Whole(raw), "name")
	}
	return names
}

// needsInput is the hint if a server asks for input and no user can answer, for example in a
// script.
const needsInput = "the server asks for input; run the command on a terminal, or answer in advance with --accept name=value or --decline"

// wantsInput reports whether a text from a server mentions elicitation. Most servers have no error
// code for a client that does not support elicitation. They mention elicitation only in the text.
func wantsInput(text []byte) bool { return bytes.Contains(bytes.ToLower(text), []byte("elicit")) }

// needHint returns a hint if an error means that the client lacks a capability, that the user
// must visit a page, or that one of Dragoman's limits was reached. Otherwise, it returns "". The error -32021 lists the missing capabilities in
// data.requiredCapabilities (2026-07-28 §Base, "Error Codes"). needHint reads this member in every
// error, because Dragoman may have changed the code for another revision.
func needHint(e *jsonrpc.Error) string {
	whole := jsonrpc.Whole(e.Data)
	required := jsonrpc.Find(e.Data, whole, "requiredCapabilities")
	if after, ok := mcp.OverLimit(e.Data); ok {
		return "try again in " + max(after.Round(100*time.Millisecond), 100*time.Millisecond).String() + ", or ask whoever runs Dragoman for more"
	}
	needs := func(key string) bool { return !jsonrpc.Find(e.Data, required, key).IsZero() }
	switch {
	case e.Code == mcp.CodeURLElicitationRequired:
		for at := range jsonrpc.Elements(e.Data, jsonrpc.Find(e.Data, whole, "elicitations")) {
			if (*mcp.Own)(nil).URLProblem(e.Data, at) == "" {
				return "open " + excerpt.Word(textOf(e.Data, at, "url"), maxQuoted) + " in a browser, then run the command again"
			}
		}
		return ""
	case needs("elicitation"), required.IsZero() && e.Code == mcp.CodeMissingCapability:
		return needsInput
	case needs("sampling"):
		return "the server needs a client with a language model, which dragoman does not have"
	case needs("roots"):
		return "the server asks for folders; name one with --root DIR"
	}
	return ""
}

// isToolError reports whether isError is true in a result.
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

// printResult prints the result of the call: with --json the bytes that the server sent, otherwise its
// content blocks. If files is not nil, it saves content that is not text.
func (c *callCommand) printResult(result []byte, files *saver) error {
	p := newPrinter(c.world, result, fileName(c.name), c.asJSON, files)
	err := p.print(func() error {
		for item := range jsonrpc.Elements(result, jsonrpc.Find(result, jsonrpc.Whole(result), "content")) {
			if err := p.item(item); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	structured := !jsonrpc.Find(result, jsonrpc.Whole(result), "structuredContent").IsZero()
	if !p.printed && structured && !c.quiet && !c.asJSON {
		c.status.Printf("the result has only structured content; --json prints it")
	}
	if isToolError(result) {
		c.status.label(red, "error", "the tool reported an error")
		return errReported
	}
	return nil
}

// timeoutError is the cause of a context that ended because the time in --timeout was over.
type timeoutError struct{ after time.Duration }

func (e timeoutError) Error() string { return fmt.Sprintf("no result within %s", e.after) }
func (timeoutError) Hint() string {
	return "allow more time with --timeout; -v shows what the command waits for"
}
