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
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
)

func (a *app) readCommand() *cobra.Command {
	var f clientFlags
	var ask askFlags
	var w where
	var uri, save string
	var asJSON bool
	c := &cobra.Command{
		Use:   "read (URL | NAME) URI [flags]",
		Short: "Read one resource and print it",
		Long: `Read one resource of a server and print it. The server is a URL, the name of a
configured server, or a command after --. "dragoman list resources" lists the
URIs.

Text goes to stdout. On a terminal, Dragoman escapes control characters in the
text. Binary content goes to stdout too, unless stdout is a terminal. --save
writes the content to files in a folder and prints their paths.`,
		Example: `  dragoman read docs file:///guide/intro.md

  # With a command, write the URI first. This example saves a picture.
  dragoman read demo://logo.png --save . -- npx -y @modelcontextprotocol/server-everything@2025.9.25`,
		Args: func(c *cobra.Command, args []string) (err error) {
			var words []string
			if w, words, err = serverWords(c, args, "read", "URI"); err != nil {
				return err
			}
			switch {
			case len(words) == 0:
				return usagef("run `"+w.listLine("resources")+"` to list the resources of the server", "no URI given")
			case len(words) > 1:
				return usagef("put -- before a command", "unexpected argument %q after %q", words[1], words[0])
			}
			uri = words[0]
			return nil
		},
		RunE: func(c *cobra.Command, _ []string) error {
			w.file = f.file
			asking, err := a.asker(&ask)
			if err != nil {
				return err
			}
			files, err := newSaver(save)
			if err != nil {
				return err
			}
			defer files.Close()
			var result []byte
			err = a.onServer(mcp.WithPurpose(c.Context(), mcp.MethodReadResource), w, &f, asking, func(ctx context.Context, s Session, server config.Server) (err error) {
				a.status.Step(server.Name, "reading "+uri)
				result, err = s.Request(ctx, mcp.MethodReadResource, append(jsonrpc.AppendQuote([]byte(`{"uri":`), uri), '}'))
				return err
			})
			var wire *jsonrpc.Error
			if errors.As(err, &wire) {
				if hint := needHint(wire); hint != "" {
					return withHint(err, "%s", hint)
				}
				return withHint(err, "run `%s` to list the resources of the server, or `%s` to list the templates", w.listLine("resources"), w.listLine("templates"))
			}
			if err != nil {
				return err
			}
			return a.printContents(result, uri, asJSON, files)
		},
		ValidArgsFunction: a.completeItem(&f, "resources"),
	}
	flags := flagsInOrder(c)
	flags.BoolVar(&asJSON, "json", false, "print the whole result as JSON, byte for byte as the server sent it")
	addSaveFlag(flags, &save)
	ask.add(flags)
	f.add(c)
	return c
}

// printContents prints the contents of a resource.
func (a *app) printContents(result []byte, uri string, asJSON bool, files *saver) error {
	p := a.printer(result, "resource", asJSON, files)
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
	if !p.printed && !asJSON && !a.quiet {
		a.status.Printf("the resource %s is empty", excerpt.Word(uri, maxQuoted))
	}
	return nil
}

// resourceContent prints or saves one item of a resource's contents.
func (p *printer) resourceContent(item jsonrpc.Span) error {
	blob := jsonrpc.Find(p.raw, item, "blob")
	switch {
	case p.files != nil:
		return p.resource(item)
	case !blob.IsZero() && p.app.screen:
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
	if p.app.screen {
		p.text(s)
	} else {
		_, _ = p.w.WriteString(s) // write the text unchanged, because stdout may be a file
	}
	return nil
}

func (a *app) promptCommand() *cobra.Command {
	var f clientFlags
	var ask askFlags
	var w where
	var name, save string
	var words []string
	var asJSON, noCheck bool
	c := &cobra.Command{
		Use:   "prompt (URL | NAME) PROMPT [name=value]... [flags]",
		Short: "Fill in one prompt and print its messages",
		Long: `Get one prompt of a server with its arguments filled in, and print its messages.
The server is a URL, the name of a configured server, or a command after --.
"dragoman list prompts" lists the prompts.

Pass arguments as name=value; all values are text. Before the command sends the
request, it reports missing and unknown arguments as errors. --no-check skips
this check.

If the prompt has several messages, the command prints the role of each message
on a line before the message.`,
		Example: `  dragoman prompt https://mcp.example.com/mcp review language=go

  # With a command, write the prompt first.
  dragoman prompt args-prompt city=Paris -- npx -y @modelcontextprotocol/server-everything@2025.9.25`,
		Args: func(c *cobra.Command, args []string) (err error) {
			if w, words, err = serverWords(c, args, "prompt", "PROMPT"); err != nil {
				return err
			}
			if len(words) == 0 {
				return usagef("run `"+w.listLine("prompts")+"` to list the prompts of the server", "no prompt given")
			}
			name, words = words[0], words[1:]
			for _, word := range words {
				if !strings.Contains(word, "=") {
					return usagef("pass arguments as name=value, and put -- before a command", "unexpected argument %q after the prompt", word)
				}
			}
			return nil
		},
		RunE: func(c *cobra.Command, _ []string) error {
			w.file = f.file
			given, err := textArguments(words)
			if err != nil {
				return err
			}
			asking, err := a.asker(&ask)
			if err != nil {
				return err
			}
			files, err := newSaver(save)
			if err != nil {
				return err
			}
			defer files.Close()
			var result []byte
			listed := true
			err = a.onServer(mcp.WithPurpose(c.Context(), mcp.MethodGetPrompt), w, &f, asking, func(ctx context.Context, s Session, server config.Server) (err error) {
				if !noCheck {
					if listed, err = a.checkPrompt(ctx, s, server.Name, w, name, given); err != nil {
						return err
					}
				}
				a.status.Step(server.Name, "getting "+name)
				params := jsonrpc.AppendQuote([]byte(`{"name":`), name)
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
				return withHint(err, "run `%s` to list the prompts of the server", w.listLine("prompts"))
			case err != nil:
				return err
			}
			return a.printMessages(result, fileName(name), asJSON, files)
		},
		ValidArgsFunction: a.completeItem(&f, "prompts"),
	}
	flags := flagsInOrder(c)
	flags.BoolVar(&noCheck, "no-check", false, "send the arguments without checking them against the list of prompts")
	flags.BoolVar(&asJSON, "json", false, "print the whole result as JSON, byte for byte as the server sent it")
	addSaveFlag(flags, &save)
	ask.add(flags)
	f.add(c)
	return c
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
func (a *app) checkPrompt(ctx context.Context, s Session, server string, w where, name string, given []argument) (listed bool, err error) {
	a.status.Step(server, "looking up "+name)
	l, err := a.listWhole(ctx, s, server, "prompts", func(items [][]byte) bool { return hasNamed(items, name) })
	if ctx.Err() != nil {
		return false, context.Cause(ctx)
	}
	names := namesOf(l.Items)
	i := slices.Index(names, name)
	if err != nil || i < 0 {
		if near := config.Suggest(name, names); err == nil && near != "" && len(l.Starting) == 0 {
			return false, withHint(usagef("", "%s has no prompt %s", excerpt.Word(server, 100), excerpt.Word(name, 100)), "did you mean %s?", excerpt.Word(near, maxQuoted))
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
			text := excerpt.Word(name, 100) + ": " + excerpt.Word(key, 100) + " is missing"
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
		text := excerpt.Word(name, 100) + " has no argument " + excerpt.Word(g.key, 100)
		if near := config.Suggest(g.key, known); near != "" {
			text += "; did you mean " + excerpt.Word(near, 100) + "?"
		}
		texts = append(texts, text)
	}
	return true, argumentErrors(texts, "run `"+w.listLine("prompts")+" --json` to see the arguments; --no-check sends them as they are")
}

// printMessages prints the messages of a prompt.
func (a *app) printMessages(result []byte, name string, asJSON bool, files *saver) error {
	p := a.printer(result, name, asJSON, files)
	return p.print(func() error {
		var messages []jsonrpc.Span
		for m := range jsonrpc.Elements(result, jsonrpc.Find(result, jsonrpc.Whole(result), "messages")) {
			messages = append(messages, m)
		}
		for i, m := range messages {
			if len(messages) > 1 && !asJSON {
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

func (a *app) completeCommand() *cobra.Command {
	var f clientFlags
	var w where
	var kind, ref, argumentName, value string
	var words []string
	var asJSON bool
	const rest = "(prompt | template) NAME ARGUMENT [VALUE]"
	c := &cobra.Command{
		Use:   "complete (URL | NAME) " + rest + " [name=value]... [flags]",
		Short: "Ask a server to complete an argument of a prompt or template",
		Long: `Ask a server which values of an argument begin with VALUE, and print each value
on a line. After prompt, NAME is the name of a prompt. After template, NAME is
the URI template of a resource template. If you know the values of other
arguments, pass them as name=value. The server is a URL, the name of a
configured server, or a command after --.`,
		Example: `  dragoman complete docs prompt review language py
  dragoman complete docs template 'file:///{path}' path src/ branch=main

  # With a command, write the command last.
  dragoman complete prompt args-prompt city Par -- npx -y @modelcontextprotocol/server-everything@2025.9.25`,
		Args: func(c *cobra.Command, args []string) (err error) {
			if w, words, err = serverWords(c, args, "complete", rest); err != nil {
				return err
			}
			if len(words) > 0 && words[0] != "prompt" && words[0] != "template" {
				return usagef("use prompt or template", "cannot complete %q", words[0])
			}
			if len(words) < 3 {
				return usagef("use `"+w.line("complete")+" "+rest+"`", "`complete` needs `prompt` or `template`, a name and an argument")
			}
			kind, ref, argumentName, value, words = words[0], words[1], words[2], "", words[3:]
			if len(words) > 0 && !strings.Contains(words[0], "=") {
				value, words = words[0], words[1:]
			}
			for _, word := range words {
				if !strings.Contains(word, "=") {
					return usagef("pass other arguments as name=value", "unexpected argument %q after the value", word)
				}
			}
			return nil
		},
		RunE: func(c *cobra.Command, _ []string) error {
			w.file = f.file
			known, err := textArguments(words)
			if err != nil {
				return err
			}
			params := jsonrpc.AppendQuote([]byte(`{"ref":{"type":"ref/prompt","name":`), ref)
			if kind == "template" {
				params = jsonrpc.AppendQuote([]byte(`{"ref":{"type":"ref/resource","uri":`), ref)
			}
			params = jsonrpc.AppendQuote(append(params, `},"argument":{"name":`...), argumentName)
			params = append(jsonrpc.AppendQuote(append(params, `,"value":`...), value), '}')
			if len(known) > 0 {
				params = append(append(append(params, `,"context":{"arguments":`...), textObject(known)...), '}')
			}
			var result []byte
			err = a.onServer(mcp.WithPurpose(c.Context(), mcp.MethodComplete), w, &f, nil, func(ctx context.Context, s Session, server config.Server) (err error) {
				a.status.Step(server.Name, "completing "+argumentName)
				result, err = s.Request(ctx, mcp.MethodComplete, append(params, '}'))
				return err
			})
			if err != nil {
				return err
			}
			return a.printCompletion(result, asJSON)
		},
		ValidArgsFunction: a.completeTarget(&f.file),
	}
	flags := flagsInOrder(c)
	flags.BoolVar(&asJSON, "json", false, "print the whole result as JSON, byte for byte as the server sent it")
	f.add(c)
	return c
}

// printCompletion prints the values in a completion result.
func (a *app) printCompletion(result []byte, asJSON bool) error {
	if asJSON {
		return a.printRaw(a.stdout, append(result[:len(result):len(result)], '\n'))
	}
	at := jsonrpc.Find(result, jsonrpc.Whole(result), "completion")
	var out bytes.Buffer
	n := int64(0)
	for e := range jsonrpc.Elements(result, jsonrpc.Find(result, at, "values")) {
		s, _ := jsonrpc.Text(result, e)
		out.WriteString(clean(jsonrpc.Shown(s)) + "\n")
		n++
	}
	if _, err := a.stdout.Write(out.Bytes()); err != nil {
		return err
	}
	if a.quiet {
		return nil
	}
	total, counted := jsonrpc.Int(result, jsonrpc.Find(result, at, "total"))
	switch {
	case n == 0:
		a.status.Printf("the server has no values for this argument")
	case counted && total > n:
		a.status.Printf("these are %d of %s values", n, strconv.FormatInt(total, 10))
	case jsonrpc.KindOf(result, jsonrpc.Find(result, at, "hasMore")) == 't':
		a.status.Printf("the server has more values")
	}
	return nil
}
