package cli

import (
	"context"
	"errors"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/app/runtime"
	"github.com/dragoman-mcp/dragoman/internal/app/tool"
	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/base/screen"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/protocol/schema"
)

// askFlags are the flags of commands that answer a server's requests.
type askFlags struct {
	accept  []string
	decline bool
	roots   []string
}

// asker answers the requests of one server while a command runs. It takes the answers from flags or
// asks the user at the terminal. Its methods are safe for concurrent use.
type asker struct {
	*world
	given   []argument // the values of --accept
	decline bool
	roots   []string
	server  string        // the name of the server, which each question shows; set before the session is opened
	turn    chan struct{} // a semaphore, so that the asker asks only one question at a time
	told    chan map[string]bool
}

// asker returns the asker for the flags f of a command.
func newAsker(w *world, f *askFlags) (*asker, error) {
	given, err := parseArguments("--accept", f.accept)
	if err != nil {
		return nil, err
	}
	if f.decline && len(given) > 0 {
		return nil, usagef("remove one of them", "--accept and --decline cannot be used together")
	}
	k := &asker{world: w, given: given, decline: f.decline, turn: make(chan struct{}, 1), told: make(chan map[string]bool, 1)}
	k.told <- map[string]bool{}
	for _, dir := range f.roots {
		uri, err := fileURI(dir)
		if err != nil {
			return nil, err
		}
		k.roots = append(k.roots, uri)
	}
	return k, nil
}

// fileURI returns the file URI of a folder. It returns an error if the folder does not exist.
func fileURI(dir string) (string, error) {
	full, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	if st, err := os.Stat(full); err != nil || !st.IsDir() {
		return "", usagef("use the path of a folder", "--root: %s is not a folder", dir)
	}
	full = filepath.ToSlash(full)
	if !strings.HasPrefix(full, "/") {
		full = "/" + full // on Windows, a path starts with a drive, such as C:/x
	}
	return (&url.URL{Scheme: "file", Path: full}).String(), nil
}

// canAsk reports whether the asker can ask the user.
func (k *asker) canAsk() bool { return k.interactive && !k.decline }

// answers reports whether the asker can answer questions. An asker that declines all questions also
// answers them.
func (k *asker) answers() bool { return k.canAsk() || k.decline || len(k.given) > 0 }

// refused prints that Dragoman refused a request of the server. It prints this only once for each
// method.
func (k *asker) refused(method string) {
	told := <-k.told
	first := !told[method]
	told[method] = true
	k.told <- told
	if !first || k.quiet {
		return
	}
	switch method {
	case mcp.MethodSample:
		k.status.Printf("refused the server's request for text from a language model (sampling), because dragoman has no model")
	case mcp.MethodListRoots:
		k.status.Printf("refused the server's request for folders (roots), because no folder was given with --root")
	case mcp.MethodElicit:
		k.status.Printf("refused the server's request for input, because stdin or stderr is not a terminal; use --accept or --decline")
	}
}

// answer answers one question of the server.
func (k *asker) answer(ctx context.Context, q runtime.Question) runtime.Answer {
	select {
	case k.turn <- struct{}{}:
		defer func() { <-k.turn }()
	case <-ctx.Done():
		return runtime.Answer{Action: "cancel"}
	}
	message := excerpt.Quote(q.Message, maxQuoted)
	declined := func(why string) runtime.Answer {
		k.status.Printf("%s asked %s; declined, because %s", clean(k.server), message, why)
		return runtime.Answer{Action: "decline"}
	}
	switch {
	case k.decline:
		if k.verbose {
			k.status.Printf("%s asked %s; declined", clean(k.server), message)
		}
		return runtime.Answer{Action: "decline"}
	case q.URL != "" && k.canAsk():
		return runtime.Answer{Action: k.askPage(ctx, q.Message, q.URL)}
	case q.URL != "":
		return declined("a page must be opened, but stdin or stderr is not a terminal: " + excerpt.Word(q.URL, maxQuoted))
	case len(q.Schema) == 0:
		return declined("the request has neither a form nor a URL")
	}
	form := schema.Of(q.Schema, jsonrpc.Whole(q.Schema))
	var fill []argument
	var missing []string
	for _, g := range k.given {
		if form.Has(g.key) {
			fill = append(fill, g)
		}
	}
	for _, name := range form.Required() {
		if !slices.ContainsFunc(fill, func(g argument) bool { return g.key == name }) {
			missing = append(missing, "--accept "+excerpt.Word(name, 100)+"=…")
		}
	}
	content, err := objectOf(form, nil, fill)
	if err == nil && len(missing) == 0 {
		err = checkForm(q.Schema, content)
	}
	switch {
	case k.canAsk() && (len(k.given) == 0 || len(missing) > 0 || err != nil):
		content, action := k.askForm(ctx, q.Message, q.Schema, fill)
		return runtime.Answer{Action: action, Content: content}
	case len(missing) > 0:
		return declined("the form also needs " + strings.Join(missing, " "))
	case err != nil:
		return declined(err.Error())
	}
	if k.verbose {
		k.status.Printf("the server asked %s; answered", message)
	}
	return runtime.Answer{Action: "accept", Content: content}
}

// checkForm checks the content of a form against the schema raw. It returns an error that describes
// the first problem, or nil if there is none. It also returns nil if Dragoman cannot use the
// schema. In this case, only the server checks the content.
func checkForm(raw, content []byte) error {
	c, err := schema.Compile(raw)
	if err != nil {
		return nil
	}
	if all, err := c.Check(content); err == nil && len(all) > 0 {
		return errors.New(problemText(all[0]))
	}
	return nil
}

// problemText describes a problem in a sentence that begins with the name of the field.
func problemText(p schema.Problem) string {
	path := p.Path
	if p.Name != "" {
		path = append(slices.Clone(path), p.Name)
	}
	if len(path) == 0 {
		return "the object " + p.Text
	}
	name := excerpt.Word(path[0], 100)
	for _, step := range path[1:] {
		if _, err := strconv.Atoi(step); err == nil {
			name += "[" + step + "]"
		} else {
			name += "." + excerpt.Word(step, 100)
		}
	}
	return name + " " + p.Text
}

// terminal is the dialogue with the user about one question.
type terminal struct {
	status *status
	in     io.Reader
}

// errEnough is the error for a line that is longer than any line that a user would type.
var errEnough = errors.New("the line is too long")

// readLine returns the next line without its newline. It reads one byte at a time, because a larger
// read could also consume a part of the next answer, for which converse opens a new reader.
func readLine(in io.Reader) (string, error) {
	const longest = 64 << 10
	var line []byte
	var b [1]byte
	for {
		n, err := in.Read(b[:])
		switch {
		case n > 0 && b[0] == '\n':
			return strings.TrimSuffix(string(line), "\r"), nil
		case n > 0 && len(line) == longest:
			return "", errEnough
		case n > 0:
			line = append(line, b[0])
		case err != nil && len(line) > 0 && errors.Is(err, io.EOF):
			return string(line), nil
		case err != nil:
			return "", err
		}
	}
}

// say prints lines to stderr.
func (t *terminal) say(lines ...string) {
	for _, l := range lines {
		_, _ = t.status.Write([]byte(strings.TrimRight(l, " ") + "\n"))
	}
}

// prompt prints a prompt and reads a line. It returns false if the input has ended or was closed.
func (t *terminal) prompt(text string) (string, bool) {
	_, _ = t.status.Write([]byte(t.bold(text) + " "))
	line, err := readLine(t.in)
	if err != nil {
		t.say("")
		return "", false
	}
	return strings.TrimSpace(line), true
}

func (t *terminal) bold(s string) string {
	if t.status.colour {
		return screen.Bold.Paint(s)
	}
	return s
}

// quote prints text from the server. Each line starts with a bar, so that the text cannot look like
// output of Dragoman.
func (t *terminal) quote(text string) {
	const longest = 4 << 10
	for l := range strings.Lines(excerpt.Cut(text, longest)) {
		for _, part := range orEmpty(screen.Wrap(clean(strings.TrimRight(l, "\r\n")), t.status.width()-4)) {
			t.say("  | " + part)
		}
	}
}

func orEmpty(lines []string) []string {
	if len(lines) == 0 {
		return []string{""}
	}
	return lines
}

// converse runs body, which asks the user at the terminal. It hides the progress line while body
// runs. If ctx ends, converse closes the input, so that body stops reading.
func (k *asker) converse(ctx context.Context, body func(t *terminal) string) (action string) {
	step := k.status.Pause()
	defer step()
	in, err := k.openInput()
	if err != nil {
		k.status.Printf("cannot read from the terminal: %v", err)
		return "cancel"
	}
	stop := context.AfterFunc(ctx, func() { _ = in.Close() })
	action = body(&terminal{k.status, in})
	if stop() {
		_ = in.Close()
	}
	if ctx.Err() != nil {
		return "cancel"
	}
	return action
}

// askPage shows the user the URL of a page and asks for consent to visit the page. It does not open
// a browser.
func (k *asker) askPage(ctx context.Context, message, page string) (action string) {
	return k.converse(ctx, func(t *terminal) string {
		host := page
		if u, err := url.Parse(page); err == nil {
			if host = u.Host; mcp.PlaceOf(u) != "" {
				host += " (" + mcp.PlaceOf(u) + ")"
			}
		}
		t.say(t.bold(clean(k.server) + " asks you to open a page on " + clean(host) + ":"))
		t.quote(message)
		t.say("  " + clean(page))
		return t.consent("Press Enter to agree, then open it in a browser. [d]ecline, [c]ancel:", false, true)
	})
}

// askForm asks the user for the fields of a form, and then for consent to send the values. fill
// contains the values from --accept.
func (k *asker) askForm(ctx context.Context, message string, raw []byte, fill []argument) (content []byte, action string) {
	form := schema.Of(raw, jsonrpc.Whole(raw))
	fields := tool.ArgumentsOf(form)
	values := map[string][]byte{}
	for _, f := range fields {
		var texts []string
		for _, g := range fill {
			switch {
			case g.key == f.Name && g.json:
				values[f.Name] = []byte(g.value)
			case g.key == f.Name:
				texts = append(texts, g.value)
			}
		}
		if len(texts) > 0 {
			if v, wants := valueOf(f.Schema, texts); wants == "" {
				values[f.Name] = v
			}
		}
	}
	action = k.converse(ctx, func(t *terminal) string {
		t.say(t.bold(clean(k.server) + " asks:"))
		t.quote(message)
		if len(fields) > 0 {
			t.say("Fill in the fields. Enter alone takes the value in brackets, or skips an", "optional field. :decline refuses to answer, :cancel stops.")
		}
		given := len(values) > 0
		for {
			for _, f := range fields {
				if _, ok := values[f.Name]; ok && given {
					continue // --accept has already set the value
				}
				if action := t.field(f, values); action != "" {
					return action
				}
			}
			given = false
			content = objectIn(fields, values)
			if err := checkForm(raw, content); err != nil {
				t.say(clean(err.Error()))
				continue
			}
			switch action := t.confirm(fields, values); action {
			case "edit":
			default:
				return action
			}
		}
	})
	if action != "accept" {
		content = nil
	}
	return content, action
}

// objectIn returns the values as a JSON object, in the order of the fields.
func objectIn(fields []tool.Argument, values map[string][]byte) []byte {
	out := []byte{'{'}
	for _, f := range fields {
		if v, ok := values[f.Name]; ok {
			if len(out) > 1 {
				out = append(out, ',')
			}
			out = append(append(jsonrpc.AppendQuote(out, f.Name), ':'), v...)
		}
	}
	return append(out, '}')
}

// confirm shows what Dragoman will send, and asks for consent.
func (t *terminal) confirm(fields []tool.Argument, values map[string][]byte) string {
	t.say(t.bold("This will be sent to the server:"))
	if len(values) == 0 {
		t.say("  only your consent")
	}
	for _, f := range fields {
		if v, ok := values[f.Name]; ok {
			t.say("  " + clean(f.Name) + " = " + shown(v))
		}
	}
	if len(fields) == 0 { // nothing was typed yet, so Enter may have been meant for something else
		return t.consent("[y]es, [d]ecline, [c]ancel:", false, false)
	}
	return t.consent("[Y]es, [e]dit, [d]ecline, [c]ancel:", true, true)
}

// consent asks until the user chooses an action: "accept", "decline", "cancel" or, if edit is true,
// "edit". An empty line means "accept" if enter is true. The end of the input means "cancel".
func (t *terminal) consent(prompt string, edit, enter bool) (action string) {
	for {
		line, ok := t.prompt(prompt)
		switch word := strings.ToLower(strings.TrimPrefix(line, ":")); {
		case !ok, word == "c", word == "cancel":
			return "cancel"
		case word == "" && enter, word == "y", word == "yes":
			return "accept"
		case word == "d", word == "decline", word == "n", word == "no":
			return "decline"
		case edit && (word == "e" || word == "edit"):
			return "edit"
		}
	}
}

// shown formats a JSON value for the terminal. It shows strings without quotes.
func shown(v []byte) string {
	if s, ok := jsonrpc.Text(v, jsonrpc.Whole(v)); ok {
		return clean(jsonrpc.Shown(s))
	}
	return clean(string(v))
}

// plainly formats a default as the user would type it: yes or no, and a list on one line.
func plainly(v []byte) string {
	switch at := jsonrpc.Whole(v); jsonrpc.KindOf(v, at) {
	case 't':
		return "yes"
	case 'f':
		return "no"
	case '[':
		var all []string
		for e := range jsonrpc.Elements(v, at) {
			all = append(all, shown(e.Of(v)))
		}
		return strings.Join(all, ", ")
	}
	return shown(v)
}

// field asks for one field until the value is valid, and stores the value in values. If the user
// cancels or declines the form, it returns "cancel" or "decline", otherwise "".
func (t *terminal) field(f tool.Argument, values map[string][]byte) (action string) {
	choices, several := choicesOf(f.Schema)
	t.introduce(f, choices, several)
	before, ok := values[f.Name]
	if !ok {
		before = f.Schema.JSON("default")
	}
	prompt := ">"
	if before != nil {
		prompt = "[" + fit(plainly(before), 40) + "] >"
	}
	check, err := schema.Compile(f.Schema.Raw())
	if err != nil {
		check = nil // only the server checks the value
	}
	for {
		line, ok := t.prompt(prompt)
		switch {
		case !ok || line == ":cancel" || line == ":c":
			return "cancel"
		case line == ":decline" || line == ":d":
			return "decline"
		case line == "" && before != nil:
			values[f.Name] = before
			return ""
		case line == "" && !f.Required:
			delete(values, f.Name)
			return ""
		case line == "" && (f.Schema.Types() != schema.String || len(choices) > 0):
			t.say("This field is required.")
			continue
		}
		v, wants := fieldValue(f.Schema, line, choices, several)
		problem := ""
		if wants != "" {
			problem = "must be " + wants
		} else if check != nil {
			if all, err := check.Check(v); err == nil && len(all) > 0 {
				problem = all[0].Text
			}
		}
		if problem != "" {
			t.say("Not accepted: it " + clean(problem) + ".")
			continue
		}
		values[f.Name] = v
		return ""
	}
}

// introduce prints what a field is about, and its choices with their numbers.
func (t *terminal) introduce(f tool.Argument, choices []schema.Choice, several bool) {
	about := f.Type
	switch {
	case len(choices) > 0 && several:
		about = "numbers, separated by commas"
	case len(choices) > 0:
		about = "one number"
	case f.Type == "boolean":
		about = "yes or no"
	}
	if !f.Required {
		about += ", optional"
	}
	t.say("", t.bold(clean(excerpt.Cut(f.Name, 100)))+" ("+clean(about)+")")
	if f.About != "" {
		t.quote(excerpt.Cut(f.About, 1<<10))
	}
	for i, c := range choices {
		t.say("  " + strconv.Itoa(i+1) + ") " + titled(c))
	}
}

// titled returns the value of a choice, behind its title if it has one.
func titled(c schema.Choice) string {
	if value := shown(c.Value); c.Title == "" || c.Title == value {
		return value
	}
	return clean(c.Title) + " (" + shown(c.Value) + ")"
}

// choicesOf returns the values that a field allows, and whether it takes several of them. It returns nil if the field
// also allows others.
func choicesOf(s schema.View) (choices []schema.Choice, several bool) {
	if choices = s.Choices(); len(choices) == 0 && s.Types()&schema.Array != 0 {
		// In a multi-select field, the schema of the array items has the choices (2025-11-25
		// §Elicitation, "Multi-Select").
		return s.Items().Choices(), true
	}
	return choices, false
}

// fieldValue converts the text that the user typed to JSON. If the text is not valid, wants
// describes a valid value.
func fieldValue(s schema.View, line string, choices []schema.Choice, several bool) (v []byte, wants string) {
	if len(choices) == 0 {
		if s.Types() == schema.Boolean {
			switch strings.ToLower(line) {
			case "y", "yes", "true", "1":
				return []byte("true"), ""
			case "n", "no", "false", "0":
				return []byte("false"), ""
			}
			return nil, "yes or no"
		}
		return valueOf(s, []string{line})
	}
	one := func(word string) []byte {
		if n, err := strconv.Atoi(word); err == nil && n >= 1 && n <= len(choices) {
			return choices[n-1].Value
		}
		for _, c := range choices {
			if strings.EqualFold(word, shown(c.Value)) || c.Title != "" && strings.EqualFold(word, c.Title) {
				return c.Value
			}
		}
		return nil
	}
	wants = "a number from 1 to " + strconv.Itoa(len(choices))
	if !several {
		if v = one(line); v == nil {
			return nil, wants
		}
		return v, ""
	}
	v = []byte{'['}
	for word := range strings.SplitSeq(line, ",") {
		x := one(strings.TrimSpace(word))
		if x == nil {
			return nil, wants + ", or several of them"
		}
		if len(v) > 1 {
			v = append(v, ',')
		}
		v = append(v, x...)
	}
	return append(v, ']'), ""
}
