package clientfile

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// ErrUnwrap means that an entry starts Dragoman in a way that Undo cannot take back.
var ErrUnwrap = errors.New("the entry starts `dragoman run` in a way that this command did not write; change the file by hand")

// IsWrapped reports whether the entry at path starts a server through `dragoman run`.
func IsWrapped(root *Value, path []string) bool {
	args, ok := ourArgs(wordsOf(root.Get(path...)))
	return ok && len(args) > 1 && args[0] == "run"
}

// Wrap returns the file b of a client with `dragoman run` in front of the command or the URL of the
// server s, which Read has found in it. program is the path of Dragoman. The environment of the entry
// stays, and so do references to variables, because the client replaces them before it starts a command.
// A header becomes an environment variable, because every user of the machine can read a command line.
func Wrap(c *Client, name string, b []byte, s *Server, program string) ([]byte, error) {
	root, err := Parse(name, b)
	if err != nil {
		return nil, err
	}
	now, err := c.wrapped(s.Original, root.Get(s.Path...), program, s.Entry.Get("command").text())
	if err != nil {
		return nil, err
	}
	return rewrite(name, b, s.Path, now)
}

// rewrite returns b with the entry at path changed to now.
func rewrite(name string, b []byte, path []string, now *Value) ([]byte, error) {
	if IsTOML(name) {
		return rewriteTOML(name, b, path, now)
	}
	root, err := Parse(name, b)
	if err != nil {
		return nil, err
	}
	return rewriteJSON(name, b, path, root.Get(path...), now)
}

// wordsOf returns the words of an entry's command.
func wordsOf(entry *Value) (words []string) {
	for _, w := range wordValues(entry) {
		words = append(words, w.text())
	}
	return words
}

func wordValues(entry *Value) (words []*Value) {
	if v := entry.Get("command"); v.scalar() && v.Text != "" {
		words = append(words, v)
	} else if v != nil {
		words = append(words, v.Items...)
	}
	if v := entry.Get("args"); v != nil {
		words = append(words, v.Items...)
	}
	return words
}

// urlKeys are the keys that only the entry of a URL has.
var urlKeys = []string{"url", "httpUrl", "serverUrl", "headers", "http_headers", "env_http_headers", "bearer_token_env_var", "type", "transport", "transportType"}

// wrapped returns the entry of a server with `dragoman run` in front of its command or URL. found is what
// an entry with a venv starts: the path of its command in this Python environment, if it is there.
func (c *Client) wrapped(server string, entry *Value, program, found string) (*Value, error) {
	if !isMap(entry) {
		return nil, errors.New("the entry is not a server")
	}
	words, url := wordValues(entry), entry.Get("url")
	for _, key := range []string{"httpUrl", "serverUrl"} {
		if url.text() == "" {
			url = entry.Get(key)
		}
	}
	out := &Value{Kind: Map, Members: slices.Clone(entry.Members)}
	run := Texts([]string{program, "run"}).Items
	switch {
	case len(words) > 0 && url.text() != "":
		return nil, errors.New("the entry has both a command and a url")
	case len(words) > 0:
		// With a venv, the client would look for Dragoman in there.
		if venv := entry.Get("venv").text(); venv != "" && !isFull(words[0].text()) {
			if !isFull(found) {
				return nil, fmt.Errorf("the client looks for %s in the Python environment %s, and it is not there: write the full path of the program as the command", words[0].text(), venv)
			}
			words[0] = Text(found)
		}
		out.drop("venv")
		// Without --, a word that begins with a dash would be a flag, and a reference a URL.
		if strings.IndexAny(words[0].text(), "-${") == 0 {
			run = append(run, Text("--"))
		}
		c.setCommand(out, append(run, words...))
		return out, nil
	case url.text() == "":
		return nil, errors.New("the entry has neither a command nor a url")
	}
	if err := c.reachable(entry, url.text()); err != nil {
		return nil, err
	}
	for _, key := range urlKeys {
		out.drop(key)
	}
	if kind := c.byCommand([]string{program}).Get("type"); kind != nil {
		out.set("type", kind)
	}
	headers, err := c.headerFlags(server, entry, out)
	if err != nil {
		return nil, err
	}
	address := url.text()
	if c.refs == refsNone {
		address = Literal(address) // `dragoman run` replaces references, and this client has none
	}
	c.setCommand(out, slices.Concat(run, headers, []*Value{Text(address)}))
	for _, key := range []string{"env_vars", c.envKey()} { // behind the command, where people look for them
		if v := out.Get(key); v != nil {
			out.drop(key)
			out.set(key, v)
		}
	}
	return out, nil
}

// reachable returns an error if Dragoman cannot connect to the URL of an entry.
func (c *Client) reachable(entry *Value, url string) error {
	for _, m := range entry.Members {
		off := m.Value.Kind == Null || m.Value.Kind == Bool && m.Value.Text == "false"
		if untold[m.Key] == tokens && !off {
			return fmt.Errorf("its key %s gets a token that only the client can get", m.Key)
		}
	}
	if settings, _ := SignIn(entry); len(settings.Members) > 0 {
		return errors.New("it says how to sign in to the server, which a command line cannot; run `dragoman import` instead")
	}
	for _, key := range []string{"type", "transport", "transportType"} {
		if kind := strings.ToLower(entry.Get(key).text()); kind == "ws" || kind == "websocket" {
			return errors.New("MCP has no WebSocket transport, so Dragoman cannot reach this server")
		}
	}
	if u := strings.ToLower(url); strings.HasPrefix(u, "unix:") || strings.HasPrefix(u, "pipe:") {
		return errors.New("its URL is a kind of socket that Dragoman does not support")
	}
	return nil
}

// setCommand writes the words of a command into an entry, in the form that it has or the client wants.
func (c *Client) setCommand(entry *Value, words []*Value) {
	was := entry.Get("command")
	if was == nil {
		was = c.byCommand([]string{"x"}).Get("command")
	}
	if was.Kind == List {
		entry.set("command", &Value{Kind: List, Items: words})
		return
	}
	entry.set("command", words[0])
	if len(words) > 1 {
		entry.set("args", &Value{Kind: List, Items: words[1:]})
	} else {
		entry.drop("args")
	}
}

// envKey returns the key under which the client keeps the environment of a server.
func (c *Client) envKey() string {
	if c.ID == "opencode" {
		return "environment"
	}
	return "env"
}

// headerFlags returns the flags of `dragoman run` for the headers of an entry. It adds the values of
// the headers to the environment of out. They keep their text, so references keep the client's form.
//
// The flags name the variables without ${ }, because Claude Code refuses a file that has a reference to
// a variable that is not in its own environment.
func (c *Client) headerFlags(server string, entry, out *Value) (flags []*Value, err error) {
	env := Mapping()
	if was := out.Get(c.envKey()); isMap(was) {
		env.Members = slices.Clone(was.Members)
	}
	add := func(text string) { flags = append(flags, Text("--header"), Text(text)) }
	inherit := func(name string) {
		list := &Value{Kind: List}
		if was := out.Get("env_vars"); was != nil {
			list.Items = slices.Clone(was.Items)
		}
		if !slices.ContainsFunc(list.Items, func(v *Value) bool { return v.text() == name }) {
			list.Items = append(list.Items, Text(name))
			out.set("env_vars", list)
		}
	}
	if name := entry.Get("bearer_token_env_var").text(); name != "" {
		add("Authorization: Bearer ${" + name + "}")
		inherit(name)
	}
	for _, key := range []string{"headers", "http_headers", "env_http_headers"} {
		if !isMap(entry.Get(key)) {
			continue
		}
		for _, h := range entry.Get(key).Members {
			switch {
			case !h.Value.scalar() || h.Key == "" || strings.ContainsAny(h.Key, "=: "):
				return nil, fmt.Errorf("its header %q is not valid", h.Key)
			case key == "env_http_headers":
				add(h.Key + "=" + h.Value.Text)
				inherit(h.Value.Text)
			default:
				name := VariableName(server + "_" + h.Key)
				for n := 2; env.Get(name) != nil; n++ {
					name = fmt.Sprintf("%s_%d", VariableName(server+"_"+h.Key), n)
				}
				env.set(name, Text(h.Value.Text))
				add(h.Key + "=" + name)
			}
		}
	}
	if len(env.Members) > 0 {
		out.set(c.envKey(), env)
	}
	return flags, nil
}

// unwrapped returns an entry without `dragoman run` in front of its command or URL. ok is false if the
// entry does not start `dragoman run`, or starts it with flags that only a person would write.
func (c *Client) unwrapped(entry *Value) (out *Value, ok bool) {
	args, ok := ourArgs(wordsOf(entry))
	if !ok || len(args) < 2 || args[0] != "run" {
		return nil, false
	}
	rest := wordValues(entry)
	rest = rest[len(rest)-len(args)+1:]
	out = &Value{Kind: Map, Line: entry.Line, Col: entry.Col, Members: slices.Clone(entry.Members)}
	if rest[0].text() == "--" && len(rest) > 1 {
		c.setCommand(out, rest[1:])
		return out, true
	}
	headers := 0
	for len(rest) > 2 && rest[0].text() == "--header" {
		if !c.putHeader(out, rest[1].text()) {
			return nil, false
		}
		rest, headers = rest[2:], headers+1
	}
	first := rest[0].text()
	isURL := strings.Contains(first, "://") || strings.IndexAny(first, "${") == 0
	switch {
	case strings.HasPrefix(first, "-"), isURL && len(rest) > 1, headers > 0 && !isURL:
		return nil, false
	case !isURL:
		c.setCommand(out, rest)
		return out, true
	}
	if c.refs == refsNone {
		first = strings.ReplaceAll(first, "$${", "${")
	}
	for _, key := range []string{"command", "args", "type"} {
		out.drop(key)
	}
	byURL := c.byURL
	if byURL == nil {
		byURL = typed("")
	}
	for _, m := range byURL(first).Members {
		m.Value.Line, m.Value.Col = rest[0].Line, rest[0].Col
		out.set(m.Key, m.Value)
	}
	return out, true
}

// putHeader moves the value of a header from the environment of an entry to its headers. flag is the
// value of --header: NAME=VARIABLE, or NAME: TEXT${VARIABLE}. putHeader returns false for other flags.
func (c *Client) putHeader(entry *Value, flag string) bool {
	name, prefix, variableName := "", "", ""
	if key, text, ok := strings.Cut(flag, ":"); ok {
		before, after, ref := strings.Cut(strings.TrimSpace(text), "${")
		if !ref || !strings.HasSuffix(after, "}") || strings.HasSuffix(before, "$") {
			return false
		}
		name, prefix, variableName = key, before, strings.TrimSuffix(after, "}")
	} else {
		name, variableName, _ = strings.Cut(flag, "=")
	}
	if name == "" || !IsVariable(variableName) {
		return false
	}
	into := func(key, name string, v *Value) {
		headers := Mapping()
		if was := entry.Get(key); isMap(was) {
			headers.Members = slices.Clone(was.Members)
		}
		headers.set(name, v)
		entry.set(key, headers)
	}
	env := entry.Get(c.envKey())
	if v := env.Get(variableName); v.scalar() {
		left := &Value{Kind: Map, Line: env.Line, Col: env.Col, Members: slices.Clone(env.Members)}
		left.drop(variableName)
		if entry.set(c.envKey(), left); len(left.Members) == 0 {
			entry.drop(c.envKey())
		}
		key := "headers"
		if c.ID == "codex" {
			key = "http_headers"
		}
		into(key, name, &Value{Kind: String, Text: prefix + v.Text, Line: v.Line, Col: v.Col})
		return true
	}
	if c.ID != "codex" {
		return false
	}
	if list := entry.Get("env_vars"); list != nil {
		left := &Value{Kind: List, Items: slices.DeleteFunc(slices.Clone(list.Items), func(v *Value) bool { return v.text() == variableName })}
		if entry.set("env_vars", left); len(left.Items) == 0 {
			entry.drop("env_vars")
		}
	}
	switch {
	case prefix == "":
		into("env_http_headers", name, Text(variableName))
	case name == "Authorization" && prefix == "Bearer ":
		entry.set("bearer_token_env_var", Text(variableName))
	default:
		return false
	}
	return true
}
