package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dragoman-mcp/dragoman/internal/app/runtime"
	"github.com/dragoman-mcp/dragoman/internal/app/tool"
	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/base/screen"
	"github.com/dragoman-mcp/dragoman/internal/base/tokens"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
)

// showCommand is `dragoman show`.
type showCommand struct {
	client

	name               string
	asJSON, withSchema bool
}

func newShowCommand(w *world) *cobra.Command {
	c := &showCommand{client: client{world: w}}
	cmd := &cobra.Command{
		Use:   "show (URL | NAME) [TOOL] [flags]",
		Short: "Describe a server, or one of its tools",
		Long: `Describe a server: its name, version and instructions, what it offers, and each
tool in one line. With TOOL, describe this tool: its signature, its arguments,
an example call, and what the server hints about it. The server is a URL, the
name of a configured server, or a command after --.

The context cost is an estimate of the tokens that a tool's name, description
and input schema take in a model's context. The real number depends on what the
client sends to the model. For common servers, the estimate was within 7 % of
what two public tokenizers count.

In a signature, a question mark follows an optional argument. A tool without an
output schema is shown to return content, such as text.`,
		Example: `  dragoman show https://mcp.example.com/mcp
  dragoman show gh create_issue

  # With a command, write the tool first. This example also prints the schemas.
  dragoman show add --schema -- npx -y @modelcontextprotocol/server-everything@2025.9.25`,
		Args: c.check,
		RunE: c.run,
	}
	cmd.ValidArgsFunction = c.completeItem("tools")
	flags := flagsInOrder(cmd)
	flags.BoolVar(&c.withSchema, "schema", false, "also print the schemas of the tool")
	flags.BoolVar(&c.asJSON, "json", false, "print JSON; for a tool, the object that the server sent")
	c.addFlags(cmd)
	return cmd
}

func (c *showCommand) check(cmd *cobra.Command, args []string) (err error) {
	var words []string
	if c.where, words, err = serverWords(cmd, args, "show", "[TOOL]"); err != nil {
		return err
	}
	c.name = ""
	if len(words) > 1 {
		return usagef("put -- before a command", "unexpected argument %q after %q", words[1], words[0])
	}
	if len(words) > 0 {
		c.name = words[0]
	}
	return nil
}

func (c *showCommand) run(cmd *cobra.Command, _ []string) error {
	return c.onServer(mcp.WithPurpose(cmd.Context(), mcp.MethodListTools), nil, func(ctx context.Context, s Session, server config.Server) error {
		if c.name != "" {
			return c.showTool(ctx, s, server.Name)
		}
		return c.showServer(ctx, s, server)
	})
}

// kindOfList maps each list to the capability that a server with this list must have.
var kindOfList = map[string]string{"tools": "tools", "prompts": "prompts", "resources": "resources", "templates": "resources"}

// has reports whether the JSON object capabilities has a member called name.
func has(capabilities []byte, name string) bool {
	return !jsonrpc.Find(capabilities, jsonrpc.Whole(capabilities), name).IsZero()
}

// inventory has the description of a server and its lists, by kind. If a list could not be read,
// failed has the error.
type inventory struct {
	description runtime.Description
	lists       map[string]runtime.List
	failed      map[string]error
}

// takeInventory reads the lists that the server has, one at a time. If whole is true, it waits for
// the servers of a gateway that are still starting.
func (c *showCommand) takeInventory(ctx context.Context, s Session, server string, whole bool) (*inventory, error) {
	d, err := s.Describe(ctx)
	if err != nil {
		return nil, err
	}
	out := &inventory{d, map[string]runtime.List{}, map[string]error{}}
	for _, kind := range listKinds {
		if !has(d.Capabilities, kindOfList[kind]) {
			continue
		}
		c.status.Step(server, "listing "+kind)
		var l runtime.List
		if whole {
			l, err = c.listWhole(ctx, s, server, kind, nil)
		} else {
			l, err = s.List(ctx, kind)
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if err != nil {
			out.failed[kind] = err
			continue
		}
		out.lists[kind] = l
	}
	return out, nil
}

// counts returns the number of items of each kind as text: "7 tools, 2 prompts".
func (i *inventory) counts() string {
	var parts []string
	for _, kind := range listKinds {
		l, ok := i.lists[kind]
		switch {
		case i.failed[kind] != nil:
			parts = append(parts, kind+" cannot be listed")
		case ok && len(l.Items) == 1:
			parts = append(parts, "1 "+strings.TrimSuffix(kind, "s"))
		case ok:
			parts = append(parts, strconv.Itoa(len(l.Items))+" "+kind)
		}
	}
	if len(parts) == 0 {
		return "nothing"
	}
	return strings.Join(parts, ", ")
}

func cost(tools [][]byte) int {
	n := 0
	for _, raw := range tools {
		n += tokens.Tool(raw, jsonrpc.Whole(raw))
	}
	return n
}

// showServer prints a description of a server.
func (c *showCommand) showServer(ctx context.Context, s Session, server config.Server) error {
	i, err := c.takeInventory(ctx, s, server.Name, true)
	if err != nil {
		return err
	}
	d := i.description
	tools := i.lists["tools"].Items
	for kind, l := range i.lists {
		c.remember(kind, l.Items)
	}
	if c.asJSON {
		return c.showServerJSON(i, c.served(ctx, server))
	}
	info := jsonrpc.Whole(d.Info)
	var b strings.Builder
	title := textOf(d.Info, info, "name")
	if t := textOf(d.Info, info, "title"); t != "" && t != title {
		title = t + " (" + title + ")"
	}
	b.WriteString(c.bold(clean(strings.TrimSpace(excerpt.Cut(title, 200)+" "+excerpt.Cut(textOf(d.Info, info, "version"), 60)))) + "\n")
	head := screen.Table{Columns: []screen.Column{{}, {Wrap: true}}}
	row := func(key, value string) {
		if value != "" {
			head.Rows = append(head.Rows, screen.Cells(key, value))
		}
	}
	row("speaks", c.speaks(ctx, d, server))
	row("offers", i.counts())
	if len(tools) > 0 {
		row("context cost", tokens.About(cost(tools)+tokens.Text(d.Instructions))+" (an estimate)")
	}
	row("website", excerpt.Cut(textOf(d.Info, info, "websiteUrl"), 300))
	b.WriteString(c.table(head))
	if text := strings.TrimSpace(d.Instructions); text != "" {
		b.WriteString("\n" + c.bold("Instructions") + "\n")
		b.WriteString(c.paragraphs(text, "  "))
	}
	if len(tools) > 0 {
		b.WriteString("\n" + c.bold("Tools") + "\n")
		t := screen.Table{Columns: []screen.Column{{Whole: true, Most: widestName}, {Right: true}, {}}}
		for n, r := range rowsOf("tools", tools) {
			t.Rows = append(t.Rows, []screen.Cell{{Text: "  " + r[0]}, {Text: "~" + strconv.Itoa(cost(tools[n:n+1])), Style: screen.Dim}, {Text: r[1]}})
		}
		b.WriteString(c.table(t))
		b.WriteString("\n`" + c.where.line("show", "TOOL") + "` describes one tool. The number after each tool is its estimated tokens.\n")
	}
	if _, err := c.stdout.Write([]byte(b.String())); err != nil {
		return err
	}
	for _, kind := range listKinds {
		if err := i.failed[kind]; err != nil {
			c.status.label(yellow, "warning", "the list of "+kind+" failed: "+oneLine(errorText(err)))
		} else if why := whyMissing(i.lists[kind]); why != "" && !c.quiet {
			c.status.label(yellow, "note", why+"; "+kind+" are missing from the list")
		}
	}
	return nil
}

// speaks returns the protocol and the transport of a server. If the session goes through a serve
// process, both values come from the report of that process, because the session shows only the
// protocol of serve.
func (c *showCommand) speaks(ctx context.Context, d runtime.Description, server config.Server) string {
	direct := d.Revision.String() + " over " + d.Transport
	switch s := c.served(ctx, server); {
	case s == nil:
		return direct
	case s.Revision != "":
		return s.Revision + " over " + s.Transport + " (asked through the running serve)"
	}
	return direct + " with the running serve"
}

// served returns the report of the serve process that a session with the server goes through. It
// returns nil if the session goes directly to the server.
func (c *showCommand) served(ctx context.Context, server config.Server) *serveReport {
	if !c.where.configured() {
		return nil
	}
	base, report, why := c.serving(ctx)
	if through, ok := endpointOf(server, base, &report); why != "" || !ok || through.URL != server.URL {
		return nil
	}
	return serverNamed(&report, server.Name)
}

// showServerJSON prints a server as JSON. It includes the server's JSON byte for byte. If the
// session goes through a serve process, served is the report of that process. Otherwise, served is
// nil.
func (c *showCommand) showServerJSON(i *inventory, served *serveReport) error {
	revision, transport := i.description.Revision.String(), i.description.Transport
	if served != nil && served.Revision != "" { // the revision of the server, not of the serve process
		revision, transport = served.Revision, served.Transport
	}
	out := append([]byte(`{"serverInfo":`), orNull(i.description.Info)...)
	out = jsonrpc.AppendQuote(append(out, `,"revision":`...), revision)
	out = jsonrpc.AppendQuote(append(out, `,"transport":`...), transport)
	if served != nil {
		out = append(out, `,"via":"serve"`...)
	}
	out = append(append(out, `,"capabilities":`...), orNull(i.description.Capabilities)...)
	if i.description.Instructions != "" {
		out = jsonrpc.AppendQuote(append(out, `,"instructions":`...), i.description.Instructions)
	}
	for _, kind := range listKinds {
		l, ok := i.lists[kind]
		if !ok {
			continue
		}
		out = append(jsonrpc.AppendQuote(append(out, ','), kind), ':', '[')
		for n, raw := range l.Items {
			if n > 0 {
				out = append(out, ',')
			}
			out = append(out, bytes.TrimSpace(raw)...)
		}
		out = append(out, ']')
	}
	n := cost(i.lists["tools"].Items) + tokens.Text(i.description.Instructions)
	out = strconv.AppendInt(append(out, `,"contextTokens":`...), int64(n), 10)
	return c.printRaw(c.stdout, append(out, "}\n"...))
}

// orNull returns JSON that may be missing, or else null.
func orNull(b []byte) []byte {
	if len(b) == 0 {
		return []byte("null")
	}
	return b
}

// showTool prints a description of one tool.
func (c *showCommand) showTool(ctx context.Context, s Session, server string) error {
	c.status.Step(server, "looking up "+c.name)
	l, err := c.listWhole(ctx, s, server, "tools", func(items [][]byte) bool { return hasNamed(items, c.name) })
	if err != nil {
		return err
	}
	c.remember("tools", l.Items)
	var found tool.Tool
	names := namesOf(l.Items)
	for i, n := range names {
		if n == c.name {
			found = tool.Of(l.Items[i])
		}
	}
	if found.Raw() == nil {
		hint := "run `" + c.where.line("list") + "` to list the tools of the server"
		if why := whyMissing(l); why != "" {
			hint = "the tool may be on a missing server: " + why
		}
		if near := config.Suggest(c.name, names); near != "" {
			hint = "did you mean " + excerpt.Word(near, maxQuoted) + "?"
		}
		return withHint(&noToolError{server, c.name}, "%s", hint)
	}
	if c.asJSON {
		return c.printRaw(c.stdout, append(bytes.TrimSpace(bytes.Clone(found.Raw())), '\n'))
	}
	_, err = c.stdout.Write([]byte(c.describeTool(found)))
	return err
}

// noToolError reports that a server does not list a tool.
type noToolError struct{ server, tool string }

func (e *noToolError) Error() string {
	return excerpt.Word(e.server, 100) + " has no tool " + excerpt.Word(e.tool, 100)
}

// describeTool returns the description of a tool as text that is safe to print.
func (c *showCommand) describeTool(t tool.Tool) string {
	var b strings.Builder
	b.WriteString(c.signature(t))
	if title := t.Title(); title != "" && title != t.Name() {
		b.WriteString("\n  " + c.bold(clean(excerpt.Cut(title, 300))) + "\n")
	}
	if t.AppOnly() {
		b.WriteString("\n  This tool is " + appOnly + ": hosts that show its page do not show the tool to the model.\n")
	}
	if text := strings.TrimSpace(t.Text("description")); text != "" {
		b.WriteString("\n" + c.paragraphs(text, "  "))
	}
	if args := t.Arguments(); len(args) > 0 {
		b.WriteString("\n" + c.bold("Arguments") + "\n")
		table := screen.Table{Columns: []screen.Column{{Whole: true, Most: 24}, {Most: 32}, {}, {Wrap: true}}}
		for _, x := range args {
			need := "optional"
			switch {
			case x.Required:
				need = "required"
			case x.Default != "":
				need = "default " + x.Default
			}
			table.Rows = append(table.Rows, screen.Cells("  "+x.Name, x.Type, need, strings.Join(strings.Fields(x.About), " ")))
		}
		b.WriteString(c.table(table))
	}
	if hints := t.Hints(); len(hints) > 0 {
		b.WriteString("\n" + c.bold("The server says, without a guarantee") + "\n")
		table := screen.Table{Columns: make([]screen.Column, 2)}
		for _, h := range hints {
			table.Rows = append(table.Rows, screen.Cells("  "+h.Text, "("+h.Name+")"))
		}
		b.WriteString(c.table(table))
	}
	b.WriteString("\n" + c.bold("Example") + "\n  " + c.where.line("call", exampleWords(t)...) + "\n")
	b.WriteString("\n" + c.bold("Context cost") + "\n  " + tokens.About(tokens.Tool(t.Raw(), jsonrpc.Whole(t.Raw()))) + " (an estimate)\n")
	if c.withSchema {
		for _, x := range []struct {
			title string
			raw   []byte
		}{{"Input schema", t.Input().Raw()}, {"Output schema", t.Output().Raw()}} {
			if x.raw == nil {
				continue
			}
			var pretty bytes.Buffer
			if json.Indent(&pretty, x.raw, "", "  ") != nil {
				pretty.Reset()
				pretty.Write(x.raw)
			}
			b.WriteString("\n" + c.bold(x.title) + "\n" + cleanLines(string(excerpt.JSON(pretty.Bytes()))) + "\n")
		}
	} else {
		b.WriteString("\nAdd --schema to see the schemas.\n")
	}
	return b.String()
}

// exampleWords returns the words of an example call that follow the server on the command line.
func exampleWords(t tool.Tool) []string {
	words := []string{t.Name()}
	values := t.Example()
	if slices.ContainsFunc(values, func(v tool.Value) bool { return !typeable(v.Name) }) {
		object := []byte{'{'}
		for i, v := range values {
			if i > 0 {
				object = append(object, ',')
			}
			object = append(append(jsonrpc.AppendQuote(object, v.Name), ':'), v.JSON...)
		}
		return append(words, "--json-args", string(excerpt.JSON(append(object, '}'))))
	}
	for _, v := range values {
		if v.Text == string(v.JSON) && strings.HasPrefix(v.Text, "{") || v.Text == "null" {
			words = append(words, v.Name+":="+v.Text)
			continue
		}
		words = append(words, v.Name+"="+v.Text)
	}
	return words
}

// signature returns the signature of a tool, on one line if it fits.
func (c *showCommand) signature(t tool.Tool) string {
	name := clean(t.Signature())
	if head, rest, ok := strings.Cut(name, "("); ok && screen.Width(name) <= c.columns() {
		return c.bold(head) + "(" + rest + "\n"
	}
	head, _, _ := strings.Cut(name, "(")
	var b strings.Builder
	b.WriteString(c.bold(head) + "(\n")
	for _, p := range t.Parameters() {
		b.WriteString("  " + clean(p) + ",\n")
	}
	b.WriteString(") → " + clean(t.Returns()) + "\n")
	return b.String()
}

// paragraphs wraps text from a server. It keeps line breaks, because lists and examples need them.
func (c *showCommand) paragraphs(text, indent string) string {
	const longest = 16 << 10
	var b strings.Builder
	for l := range strings.Lines(excerpt.Cut(text, longest)) {
		l = strings.TrimRight(l, " \t\r\n")
		lead := l[:len(l)-len(strings.TrimLeft(l, " \t"))]
		lead = strings.ReplaceAll(lead, "\t", "  ")
		if s := wrap(clean(l), indent+lead, c.columns()); s != "" {
			b.WriteString(s)
		} else {
			b.WriteByte('\n')
		}
	}
	return b.String()
}

func (c *showCommand) bold(s string) string {
	if c.screen && c.status.colour {
		return screen.Bold.Paint(s)
	}
	return s
}

// table renders a table for stdout.
func (c *showCommand) table(t screen.Table) string {
	t.Width = c.columns()
	if c.screen {
		t.Colour = c.status.colour
	}
	return t.Text()
}
