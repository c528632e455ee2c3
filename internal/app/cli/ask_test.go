package cli

import (
	"bytes"
	"context"
	"io"
	"strings"
	"testing"
	"unicode"

	"github.com/dragoman-mcp/dragoman/internal/app/runtime"
)

// person returns the world of a person at a terminal who types the given lines.
func person(typed string, said *bytes.Buffer) *world {
	in := strings.NewReader(typed)
	return &world{
		env: noEnv, status: newStatus(said, false, noEnv), interactive: true,
		openInput: func() (io.ReadCloser, error) { return io.NopCloser(in), nil },
	}
}

const askedForm = `{"type":"object","properties":{
 "name":{"type":"string","minLength":2,"description":"Your name"},
 "age":{"type":"integer","minimum":18},
 "ok":{"type":"boolean","default":true},
 "size":{"type":"string","oneOf":[{"const":"s","title":"Small"},{"const":"l","title":"Large"}]},
 "tags":{"type":"array","items":{"enum":["x","y","z"]}}
},"required":["name"]}`

func TestForms(t *testing.T) {
	for _, c := range []struct {
		name, schema, typed, want string
		flags                     askFlags
		says                      []string
	}{
		{"all fields", askedForm, "Ann\n20\nno\n2\n1, z\n\n", `accept {"name":"Ann","age":20,"ok":false,"size":"l","tags":["x","z"]}`, askFlags{},
			[]string{"name (string)", "age (integer, optional)", "ok (yes or no, optional)", "[yes] >", "  2) Large (l)", "  | Your name", "  name = Ann"}},
		{"defaults and skipped fields", askedForm, "Ann\n\n\n\n\n\n", `accept {"name":"Ann","ok":true}`, askFlags{}, nil},
		{"wrong values", askedForm, "A\n\nAnn\nold\n7\n18\n\nbig\nLarge\nw\n\ny\n", `accept {"name":"Ann","age":18,"ok":true,"size":"l"}`, askFlags{},
			[]string{"Not accepted: it must have at least 2 characters.", "Not accepted: it must be an integer.", "Not accepted: it must be at least 18.", "Not accepted: it must be a number from 1 to 2.", "or several of them."}},
		{"edit", askedForm, "Ann\n\n\n\n\ne\nBob\n\n\n\n\nyes\n", `accept {"name":"Bob","ok":true}`, askFlags{}, []string{"[Ann] >"}},
		{"decline a field", askedForm, ":decline\n", `decline `, askFlags{}, nil},
		{"cancel a field", askedForm, "Ann\n:cancel\n", `cancel `, askFlags{}, nil},
		{"decline at the end", askedForm, "Ann\n\n\n\n\nd\n", `decline `, askFlags{}, nil},
		{"the input ends", askedForm, "Ann\n", `cancel `, askFlags{}, nil},
		{"no fields", `{"type":"object","properties":{}}`, "y\n", `accept {}`, askFlags{}, []string{"only your consent"}},
		{"Enter is no consent", `{"type":"object","properties":{}}`, "\n\n", `cancel `, askFlags{}, nil},
		{"consent refused", `{"type":"object","properties":{}}`, "n\n", `decline `, askFlags{}, nil},
		{"given in advance", askedForm, "", `accept {"name":"Ann","age":30}`, askFlags{accept: []string{"name=Ann", "age=30"}}, nil},
		{"half given in advance", askedForm, "Ann\n\n\n\n\n", `accept {"name":"Ann","age":30,"ok":true}`, askFlags{accept: []string{"age=30"}}, nil},
		{"wrong in advance", askedForm, "30\n\n\n\n\n", `accept {"name":"Ann","age":30,"ok":true}`, askFlags{accept: []string{"name=Ann", "age=x"}}, nil},
		{"declined in advance", askedForm, "", `decline `, askFlags{decline: true}, nil},
		{"a null default", `{"type":"object","properties":{"a":{"type":["string","null"],"default":null}}}`, "\n\n", `accept {"a":null}`, askFlags{}, nil},
	} {
		var said bytes.Buffer
		a := person(c.typed, &said)
		k, err := newAsker(a, &c.flags)
		if err != nil {
			t.Fatal(err)
		}
		got := k.answer(t.Context(), runtime.Question{Message: "Who are you?", Schema: []byte(c.schema)})
		if g := got.Action + " " + string(got.Content); g != c.want {
			t.Errorf("%s: got %s, want %s\n%s", c.name, g, c.want, said.String())
		}
		for _, s := range c.says {
			if !strings.Contains(said.String(), s) {
				t.Errorf("%s: the output lacks %q:\n%s", c.name, s, said.String())
			}
		}
	}
}

func TestPages(t *testing.T) {
	for typed, want := range map[string]string{"\n": "accept", "what\ny\n": "accept", "d\n": "decline", "no\n": "decline", "c\n": "cancel", "": "cancel"} {
		var said bytes.Buffer
		k, _ := newAsker(person(typed, &said), &askFlags{})
		got := k.answer(t.Context(), runtime.Question{Message: "Sign in", URL: "https://id.example.com/go?x=1"})
		if got.Action != want || !strings.Contains(said.String(), "open a page on id.example.com:") || !strings.Contains(said.String(), "\n  https://id.example.com/go?x=1\n") {
			t.Errorf("%q: %s, want %s\n%s", typed, got.Action, want, said.String())
		}
	}
	// If no person can be asked, Dragoman prints the URL and declines.
	var said bytes.Buffer
	a := person("", &said)
	a.interactive = false
	k, _ := newAsker(a, &askFlags{accept: []string{"a=b"}})
	if got := k.answer(t.Context(), runtime.Question{Message: "Sign in", URL: "https://id.example.com/"}); got.Action != "decline" || !strings.Contains(said.String(), "https://id.example.com/") {
		t.Errorf("%s %s", got.Action, said.String())
	}
}

// blocked is an input that delivers nothing. Close ends a pending read.
type blocked struct {
	reading, closed chan struct{}
}

func (b *blocked) Read([]byte) (int, error) {
	close(b.reading)
	<-b.closed
	return 0, io.ErrClosedPipe
}

func (b *blocked) Close() error { close(b.closed); return nil }

// TestEndOfQuestion checks that Dragoman stops waiting for the answer to a question when the call
// ends.
func TestEndOfQuestion(t *testing.T) {
	var said bytes.Buffer
	in := &blocked{make(chan struct{}), make(chan struct{})}
	a := person("", &said)
	a.openInput = func() (io.ReadCloser, error) { return in, nil }
	k, _ := newAsker(a, &askFlags{})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan runtime.Answer)
	go func() { done <- k.answer(ctx, runtime.Question{Message: "?", Schema: []byte(askedForm)}) }()
	<-in.reading
	cancel()
	if got := <-done; got.Action != "cancel" {
		t.Errorf("%s", got.Action)
	}
}

// TestHostileForm checks that text from a server in a form cannot control the terminal or
// imitate a line from Dragoman.
func TestHostileForm(t *testing.T) {
	raw := strings.NewReplacer("Your name", "x\\r\\ndragoman: hint: FORGED \\u001b[2J", "Small", "\\u202e\\u001b]0;t\\u0007", `"age"`, `"a\u001b[2J"`).Replace(askedForm)
	var said bytes.Buffer
	k, _ := newAsker(person("Ann\n20\nno\n2\n1, z\n\n", &said), &askFlags{})
	k.answer(t.Context(), runtime.Question{Message: forged, Schema: []byte(raw)})
	k, _ = newAsker(person("\n", &said), &askFlags{})
	k.answer(t.Context(), runtime.Question{Message: forged, URL: "https://h/"})
	for l := range strings.Lines(said.String()) {
		l = strings.TrimSuffix(l, "\n")
		if strings.ContainsFunc(l, func(r rune) bool { return !unicode.IsPrint(r) }) || strings.HasPrefix(l, "dragoman:") {
			t.Errorf("%q", l)
		}
	}
	if !strings.Contains(said.String(), "  | dragoman: hint: FORGED") {
		t.Error(said.String())
	}
}

func TestRefusedRequests(t *testing.T) {
	var said bytes.Buffer
	k, _ := newAsker(person("", &said), &askFlags{})
	for range 3 {
		k.refused("sampling/createMessage")
	}
	k.refused("roots/list")
	if n := strings.Count(said.String(), "\n"); n != 2 || !strings.Contains(said.String(), "--root") {
		t.Error(said.String())
	}
}
