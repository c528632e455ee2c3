package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/policy"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
)

// readCommand is `dragoman read`.
type readCommand struct {
	client

	ask       askFlags
	uri, save string
	asJSON    bool
}

func newReadCommand(w *world) *cobra.Command {
	c := &readCommand{client: client{world: w}}
	cmd := &cobra.Command{
		Use:   "read (URL | NAME) URI [flags]",
		Short: "Read one resource and print it",
		Long: `Read one resource of a server and print it. The server is a URL, the name of a
configured server, or a command after --. "dragoman list resources" lists the
URIs.

Text goes to stdout; on a terminal, control characters are escaped. Binary
content goes to stdout too, unless that's a terminal. --save writes the content
to files in a folder and prints their paths.`,
		Example: `  dragoman read docs file:///guide/intro.md

  # With a command, write the URI first. This example saves a picture.
  dragoman read demo://logo.png --save . -- npx -y @modelcontextprotocol/server-everything@2025.9.25`,
		Args:              c.check,
		RunE:              c.run,
		ValidArgsFunction: c.completeItem("resources"),
	}
	flags := flagsInOrder(cmd)
	flags.BoolVar(&c.asJSON, "json", false, "print the whole result as JSON, byte for byte as the server sent it")
	addSaveFlag(flags, &c.save)
	c.ask.add(flags)
	c.addFlags(cmd)
	return cmd
}

func (c *readCommand) check(cmd *cobra.Command, args []string) (err error) {
	var words []string
	if c.where, words, err = serverWords(cmd, args, "read", "URI"); err != nil {
		return err
	}
	switch {
	case len(words) == 0:
		return usagef("run `"+c.where.listLine("resources")+"` to list the resources of the server", "no URI given")
	case len(words) > 1:
		return usagef("put -- before a command", "unexpected argument %q after %q", words[1], words[0])
	}
	c.uri = words[0]
	return nil
}

func (c *readCommand) run(cmd *cobra.Command, _ []string) error {
	asking, err := newAsker(c.world, &c.ask)
	if err != nil {
		return err
	}
	files, err := newSaver(c.save)
	if err != nil {
		return err
	}
	defer files.Close()
	var result []byte
	err = c.onServer(mcp.WithPurpose(cmd.Context(), mcp.MethodReadResource), asking, func(ctx context.Context, s Session, server config.Server) (err error) {
		c.status.Step(server.Name, "reading "+c.uri)
		result, err = s.Request(ctx, mcp.MethodReadResource, append(jsonrpc.AppendQuote([]byte(`{"uri":`), c.uri), '}'))
		return err
	})
	var wire *jsonrpc.Error
	if errors.As(err, &wire) {
		if hint := needHint(wire); hint != "" {
			return withHint(err, "%s", hint)
		}
		return withHint(err, "run `%s` to list the resources of the server, or `%s` to list the templates", c.where.listLine("resources"), c.where.listLine("templates"))
	}
	if err != nil {
		return err
	}
	return c.printContents(result, files)
}

// printContents prints the contents of a resource.
func (c *readCommand) printContents(result []byte, files *saver) error {
	p := newPrinter(c.world, result, "resource", c.asJSON, files)
	err := p.print(func() error {
		for item := range jsonrpc.Elements(result, jsonrpc.Find(result, jsonrpc.Whole(result), "contents")) {
			if err := p.resourceContent(item); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	if !p.printed && !c.asJSON && !c.quiet {
		c.status.Printf("the resource %s is empty", excerpt.Word(c.uri, maxQuoted))
	}
	return nil
}

// resourceContent prints or saves one item of a resource's contents.
func (p *printer) resourceContent(item jsonrpc.Span) error {
	blob := jsonrpc.Find(p.raw, item, "blob")
	switch {
	case p.files != nil:
		return p.resource(item)
	case !blob.IsZero() && p.screen:
		mime := textOf(p.raw, item, "mimeType")
		if mime == "" {
			mime = "no type given"
		}
		return withHint(fmt.Errorf("the resource is binary (%s, %s), and stdout is a terminal", excerpt.Word(mime, 100), bytesOf(base64Length(p.raw, blob))),
			"redirect stdout to a file, or save the resource with --save DIR")
	case !blob.IsZero():
		b, err := decode(p.raw, blob)
		if err != nil {
			return err
		}
		p.printed = true
		_, _ = p.w.Write(b)
		return nil
	}
	s, _ := jsonrpc.Text(p.raw, jsonrpc.Find(p.raw, item, "text"))
	s = jsonrpc.Shown(s)
	p.printed = true
	if p.screen {
		p.text(s)
	} else {
		_, _ = p.w.WriteString(s) // write the text unchanged, because stdout may be a file
	}
	return nil
}

// promptCommand is `dragoman prompt`.
type promptCommand struct {
	client

	ask             askFlags
	name, save      string
	words           []string
	asJSON, noCheck bool
}

func newPromptCommand(w *world) *cobra.Command {
	c := &promptCommand{client: client{world: w}}
	cmd := &cobra.Command{
		Use:   "prompt (URL | NAME) PROMPT [name=value]... [flags]",
		Short: "Fill in one prompt and print its messages",
		Long: `Get one prompt of a server with its arguments filled in, and print its messages.
The server is a URL, the name of a configured server, or a command after --.
"dragoman list prompts" lists the prompts. A running serve's own prompts belong
to project:prompts.

Pass arguments as name=value; all values are text. Missing and unknown arguments
are reported before the request is sent, unless you use --no-check.

If there are several messages, each has its role on the line before.`,
		Example: `  dragoman prompt https://mcp.example.com/mcp review language=go

  # One of the project's own.
  dragoman prompt project:prompts review change=42

  # With a command, write the prompt first.
  dragoman prompt args-prompt city=Paris -- npx -y @modelcontextprotocol/server-everything@2025.9.25`,
		Args:              c.check,
		RunE:              c.run,
		ValidArgsFunction: c.completeItem("prompts"),
	}
	flags := flagsInOrder(cmd)
	flags.BoolVar(&c.noCheck, "no-check", false, "send the arguments without checking them against the list of prompts")
	flags.BoolVar(&c.asJSON, "json", false, "print the whole result as JSON, byte for byte as the server sent it")
	addSaveFlag(flags, &c.save)
	c.ask.add(flags)
	c.addFlags(cmd)
	return cmd
}

func (c *promptCommand) check(cmd *cobra.Command, args []string) (err error) {
	if c.where, c.words, err = serverWords(cmd, args, "prompt", "PROMPT"); err != nil {
		return err
	}
	if len(c.words) == 0 {
		return usagef("run `"+c.where.listLine("prompts")+"` to list the prompts of the server", "no prompt given")
	}
	c.name, c.words = c.words[0], c.words[1:]
	for _, word := range c.words {
		if !strings.Contains(word, "=") {
			return usagef("pass arguments as name=value, and put -- before a command", "unexpected argument %q after the prompt", word)
		}
	}
	return nil
}

func (c *promptCommand) run(cmd *cobra.Command, _ []string) error {
	given, err := textArguments(c.words)
	if err != nil {
		return err
	}
	asking, err := newAsker(c.world, &c.ask)
	if err != nil {
		return err
	}
	files, err := newSaver(c.save)
	if err != nil {
		return err
	}
	defer files.Close()
	if c.where.target == policy.ProjectPrompts {
		if err := c.useJoined(cmd.Context(), "start `dragoman serve`", "only a running serve has prompts of its own, and none was found"); err != nil {
			return err
		}
	}
	var result []byte
	listed := true
	err = c.onServer(mcp.WithPurpose(cmd.Context(), mcp.MethodGetPrompt), asking, func(ctx context.Context, s Session, server config.Server) (err error) {
		if !c.noCheck {
			if listed, err = c.checkPrompt(ctx, s, server.Name, given); err != nil {
				return err
			}
		}
		c.status.Step(server.Name, "getting "+c.name)
		params := jsonrpc.AppendQuote([]byte(`{"name":`), c.name)
		if len(given) > 0 {
			params = append(append(params, `,"arguments":`...), textObject(given)...)
		}
		result, err = s.Request(ctx, mcp.MethodGetPrompt, append(params, '}'))
		return err
	})
	var wire *jsonrpc.Error
	switch {
	case errors.As(err, &wire) && needHint(wire) != "":
		return withHint(err, "%s", needHint(wire))
	case wire != nil && !listed:
		return withHint(err, "run `%s` to list the prompts of the server", c.where.listLine("prompts"))
	case err != nil:
		return err
	}
	return c.printMessages(result, files)
}

// textArguments parses name=value pairs. All values are strings, so a colon before the = is a part of
// the name. Each name must occur only once.
func textArguments(words []string) ([]argument, error) {
	var given []argument
	seen := map[string]bool{}
	for _, word := range words {
		name, value, err := cutPair("", word)
		if err != nil {
			return nil, err
		}
		if seen[name] {
			return nil, usagef("remove one of the two values", "%s is given twice", name)
		}
		seen[name] = true
		given = append(given, argument{key: name, value: value})
	}
	return given, nil
}

// textObject returns a JSON object with the arguments as strings.
func textObject(given []argument) []byte {
	out := []byte{'{'}
	for i, g := range given {
		if i > 0 {
			out = append(out, ',')
		}
		out = jsonrpc.AppendQuote(append(jsonrpc.AppendQuote(out, g.key), ':'), g.value)
	}
	return append(out, '}')
}

// checkPrompt checks the arguments of a prompt against the server's list of prompts. listed is
// false if the prompt is not in the list. In this case, only the server checks the arguments.
func (c *promptCommand) checkPrompt(ctx context.Context, s Session, server string, given []argument) (listed bool, err error) {
	c.status.Step(server, "looking up "+c.name)
	l, err := c.listWhole(ctx, s, server, "prompts", func(items [][]byte) bool { return hasNamed(items, c.name) })
	if ctx.Err() != nil {
		return false, context.Cause(ctx)
	}
	names := namesOf(l.Items)
	i := slices.Index(names, c.name)
	if err != nil || i < 0 {
		if near := config.Suggest(c.name, names); err == nil && near != "" && len(l.Starting) == 0 {
			return false, withHint(usagef("", "%s has no prompt %s", excerpt.Word(server, 100), excerpt.Word(c.name, 100)), "did you mean %s?", excerpt.Word(near, maxQuoted))
		}
		return false, nil
	}
	raw := l.Items[i]
	var known []string
	var texts []string
	for at := range jsonrpc.Elements(raw, jsonrpc.Find(raw, jsonrpc.Whole(raw), "arguments")) {
		key := textOf(raw, at, "name")
		known = append(known, key)
		required := jsonrpc.KindOf(raw, jsonrpc.Find(raw, at, "required")) == 't'
		if required && !slices.ContainsFunc(given, func(g argument) bool { return g.key == key }) {
			text := excerpt.Word(c.name, 100) + ": " + excerpt.Word(key, 100) + " is missing"
			if about := textOf(raw, at, "description"); about != "" {
				text += ": " + excerpt.Quote(about, 200)
			}
			texts = append(texts, text)
		}
	}
	for _, g := range given {
		if slices.Contains(known, g.key) {
			continue
		}
		text := excerpt.Word(c.name, 100) + " has no argument " + excerpt.Word(g.key, 100)
		if near := config.Suggest(g.key, known); near != "" {
			text += "; did you mean " + excerpt.Word(near, 100) + "?"
		}
		texts = append(texts, text)
	}
	return true, argumentErrors(texts, "run `"+c.where.listLine("prompts")+" --json` to see the arguments; --no-check sends them as they are")
}

// printMessages prints the messages of a prompt.
func (c *promptCommand) printMessages(result []byte, files *saver) error {
	p := newPrinter(c.world, result, fileName(c.name), c.asJSON, files)
	return p.print(func() error {
		var messages []jsonrpc.Span
		for m := range jsonrpc.Elements(result, jsonrpc.Find(result, jsonrpc.Whole(result), "messages")) {
			messages = append(messages, m)
		}
		for i, m := range messages {
			if len(messages) > 1 && !c.asJSON {
				if i > 0 {
					_ = p.w.WriteByte('\n')
				}
				_, _ = p.w.WriteString(excerpt.Word(textOf(result, m, "role"), 40) + ":\n")
			}
			if err := p.item(jsonrpc.Find(result, m, "content")); err != nil {
				return err
			}
		}
		return nil
	})
}

// completeRest is what follows the server on the command line of complete.
const completeRest = "(prompt | template) NAME ARGUMENT [VALUE]"

// completeCommand is `dragoman complete`.
type completeCommand struct {
	client

	kind, ref, argumentName, value string
	words                          []string
	asJSON                         bool
}

func newCompleteCommand(w *world) *cobra.Command {
	c := &completeCommand{client: client{world: w}}
	cmd := &cobra.Command{
		Use:   "complete (URL | NAME) " + completeRest + " [name=value]... [flags]",
		Short: "Ask a server to complete an argument of a prompt or template",
		Long: `Ask a server which values of an argument begin with VALUE, and print each on a
line. After prompt, NAME is the name of a prompt; after template, it's the URI
template of a resource template. If you know other arguments, pass them as
name=value. The server is a URL, the name of a configured server, or a command
after --.`,
		Example: `  dragoman complete docs prompt review language py
  dragoman complete docs template 'file:///{path}' path src/ branch=main

  # With a command, write the command last.
  dragoman complete prompt args-prompt city Par -- npx -y @modelcontextprotocol/server-everything@2025.9.25`,
		Args:              c.check,
		RunE:              c.run,
		ValidArgsFunction: c.env.completeTarget(&c.file),
	}
	flags := flagsInOrder(cmd)
	flags.BoolVar(&c.asJSON, "json", false, "print the whole result as JSON, byte for byte as the server sent it")
	c.addFlags(cmd)
	return cmd
}

func (c *completeCommand) check(cmd *cobra.Command, args []string) (err error) {
	if c.where, c.words, err = serverWords(cmd, args, "complete", completeRest); err != nil {
		return err
	}
	if len(c.words) > 0 && c.words[0] != "prompt" && c.words[0] != "template" {
		return usagef("use prompt or template", "cannot complete %q", c.words[0])
	}
	if len(c.words) < 3 {
		return usagef("use `"+c.where.line("complete")+" "+completeRest+"`", "`complete` needs `prompt` or `template`, a name and an argument")
	}
	c.kind, c.ref, c.argumentName, c.value, c.words = c.words[0], c.words[1], c.words[2], "", c.words[3:]
	if len(c.words) > 0 && !strings.Contains(c.words[0], "=") {
		c.value, c.words = c.words[0], c.words[1:]
	}
	for _, word := range c.words {
		if !strings.Contains(word, "=") {
			return usagef("pass other arguments as name=value", "unexpected argument %q after the value", word)
		}
	}
	return nil
}

func (c *completeCommand) run(cmd *cobra.Command, _ []string) error {
	known, err := textArguments(c.words)
	if err != nil {
		return err
	}
	params := jsonrpc.AppendQuote([]byte(`{"ref":{"type":"ref/prompt","name":`), c.ref)
	if c.kind == "template" {
		params = jsonrpc.AppendQuote([]byte(`{"ref":{"type":"ref/resource","uri":`), c.ref)
	}
	params = jsonrpc.AppendQuote(append(params, `},"argument":{"name":`...), c.argumentName)
	params = append(jsonrpc.AppendQuote(append(params, `,"value":`...), c.value), '}')
	if len(known) > 0 {
		params = append(append(append(params, `,"context":{"arguments":`...), textObject(known)...), '}')
	}
	var result []byte
	err = c.onServer(mcp.WithPurpose(cmd.Context(), mcp.MethodComplete), nil, func(ctx context.Context, s Session, server config.Server) (err error) {
		c.status.Step(server.Name, "completing "+c.argumentName)
		result, err = s.Request(ctx, mcp.MethodComplete, append(params, '}'))
		return err
	})
	if err != nil {
		return err
	}
	return c.printCompletion(result)
}

// printCompletion prints the values in a completion result.
func (c *completeCommand) printCompletion(result []byte) error {
	if c.asJSON {
		return c.printRaw(c.stdout, append(result[:len(result):len(result)], '\n'))
	}
	at := jsonrpc.Find(result, jsonrpc.Whole(result), "completion")
	var out bytes.Buffer
	n := int64(0)
	for e := range jsonrpc.Elements(result, jsonrpc.Find(result, at, "values")) {
		s, _ := jsonrpc.Text(result, e)
		out.WriteString(clean(jsonrpc.Shown(s)) + "\n")
		n++
	}
	if _, err := c.stdout.Write(out.Bytes()); err != nil {
		return err
	}
	if c.quiet {
		return nil
	}
	total, counted := jsonrpc.Int(result, jsonrpc.Find(result, at, "total"))
	switch {
	case n == 0:
		c.status.Printf("the server has no values for this argument")
	case counted && total > n:
		c.status.Printf("these are %d of %s values", n, strconv.FormatInt(total, 10))
	case jsonrpc.KindOf(result, jsonrpc.Find(result, at, "hasMore")) == 't':
		c.status.Printf("the server has more values")
	}
	return nil
}
