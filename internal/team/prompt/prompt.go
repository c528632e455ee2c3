// Package prompt knows what a prompt of a project is: a text for models, in which {{name}} stands for an
// argument. It checks a prompt before it's kept, and fills in the arguments when somebody gets it.
//
// It does no I/O, and doesn't know how prompts are stored (package store) or served (package runtime).
// A {{ always begins an argument, so a text can't have it for anything else. Each argument of the text is
// declared, and each declared one is in the text: that's how a typing error is found by whoever makes it,
// and not by whoever uses the prompt.
package prompt

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
)

// Prompt is one version of a prompt.
type Prompt struct {
	Name        string
	Description string // what it's for, in one line; "" for none
	Text        string
	Arguments   []Argument
}

// Argument is an argument of a prompt. Whoever gets the prompt has to give all of them.
type Argument struct {
	Name        string   `json:"name"`
	Description string   `json:"description,omitempty"`
	Values      []string `json:"values,omitempty"` // what clients suggest; others are accepted, too
}

// Limits. Those of texts are in bytes.
const (
	MaxName        = 64
	MaxDescription = 2 << 10
	MaxText        = 64 << 10
	MaxArguments   = 20
	MaxValues      = 100 // the most that one answer to completion/complete may have (all revisions, §Completion)
	MaxValue       = 200
	MaxFilled      = 1 << 20 // a text with its arguments
)

// Mistake says what is wrong with a prompt, and what to do.
type Mistake struct {
	Text, Next string
	// Part is what of the prompt is wrong: name, description, text, or an argument as arguments/INDEX. It's "" for a
	// mistake that isn't in the prompt itself.
	Part string
}

func (m *Mistake) Error() string { return m.Text }

func wrong(next, format string, args ...any) error {
	return &Mistake{Text: fmt.Sprintf(format, args...), Next: next}
}

// wrongIn does the same as wrong for a part of a prompt.
func wrongIn(part, next, format string, args ...any) error {
	return &Mistake{fmt.Sprintf(format, args...), next, part}
}

// argumentPart is Mistake.Part of the argument at an index.
func argumentPart(i int) string { return fmt.Sprintf("arguments/%d", i) }

// Check returns a *Mistake if a prompt can't be kept.
func (p *Prompt) Check() error {
	if err := CheckName(p.Name); err != nil {
		return err
	}
	switch {
	case strings.TrimSpace(p.Text) == "":
		return wrongIn("text", "write what the model shall read", "the prompt's text is empty")
	case len(p.Text) > MaxText:
		return wrongIn("text", "shorten it", "the prompt's text has %d bytes, and at most %d are allowed", len(p.Text), MaxText)
	case len(p.Description) > MaxDescription:
		return wrongIn("description", "shorten it", "the description has %d bytes, and at most %d are allowed", len(p.Description), MaxDescription)
	case len(p.Arguments) > MaxArguments:
		return wrongIn("text", "use fewer", "the prompt has %d arguments, and at most %d are allowed", len(p.Arguments), MaxArguments)
	}
	for part, text := range map[string]string{"text": p.Text, "description": p.Description} {
		if !isText(text) {
			return wrongIn(part, "save it as UTF-8", "the prompt is not text in UTF-8, or has a NUL character")
		}
	}
	used, err := Names(p.Text)
	if err != nil {
		return err
	}
	var declared []string
	for i := range p.Arguments {
		a := &p.Arguments[i]
		if err := a.check(argumentPart(i)); err != nil {
			return err
		}
		if slices.Contains(declared, a.Name) {
			return wrongIn(argumentPart(i), "declare it once", "the argument %s is declared twice", a.Name)
		}
		declared = append(declared, a.Name)
	}
	for _, name := range used {
		if !slices.Contains(declared, name) {
			return wrongIn("text", "declare the argument, or remove it from the text", "the text has {{%s}}, and the argument %s isn't declared", name, name)
		}
	}
	for i, name := range declared {
		if !slices.Contains(used, name) {
			return wrongIn(argumentPart(i), "write {{"+name+"}} in the text, or don't declare it", "the argument %s is declared, but the text doesn't have it", name)
		}
	}
	return nil
}

// CheckName returns a *Mistake if a prompt can't have this name.
func CheckName(name string) error {
	if !valid(name, "-_") {
		return wrongIn("name", "use 1 to 64 small letters, digits, - and _, and begin with a letter or digit", "%s can't be the name of a prompt", excerpt.Quote(name, MaxName))
	}
	return nil
}

// CheckActive returns a *Mistake if a prompt can't be the instructions: clients don't send arguments for those.
func (p *Prompt) CheckActive() error {
	if len(p.Arguments) > 0 {
		return wrong("use a version without arguments", "the prompt %s has the argument %s, and instructions can't have arguments", p.Name, p.Arguments[0].Name)
	}
	return nil
}

// check returns a *Mistake about part if the prompt can't have the argument.
func (a *Argument) check(part string) error {
	switch {
	case !valid(a.Name, "_"):
		return wrongIn(part, "use 1 to 64 small letters, digits and _, and begin with a letter or digit", "%s can't be the name of an argument", excerpt.Quote(a.Name, MaxName))
	case len(a.Description) > MaxDescription || !isText(a.Description):
		return wrongIn(part, "shorten it", "the description of the argument %s is not text of at most %d bytes", a.Name, MaxDescription)
	case len(a.Values) > MaxValues:
		return wrongIn(part, "name fewer", "the argument %s has %d values, and at most %d are allowed", a.Name, len(a.Values), MaxValues)
	}
	for _, v := range a.Values {
		if v == "" || len(v) > MaxValue || !isText(v) {
			return wrongIn(part, "write each value in 1 to 200 bytes", "the argument %s has the value %s, which no client could suggest", a.Name, excerpt.Quote(v, MaxName))
		}
	}
	return nil
}

func valid(name, also string) bool {
	return name != "" && len(name) <= MaxName && !strings.ContainsAny(name[:1], also) && !strings.ContainsFunc(name, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || strings.ContainsRune(also, r))
	})
}

func isText(s string) bool { return utf8.ValidString(s) && !strings.Contains(s, "\x00") }

// Names returns the arguments that a text has, each once, or a *Mistake.
func Names(text string) (all []string, err error) {
	err = parts(text, func(string) {}, func(name string) {
		if !slices.Contains(all, name) {
			all = append(all, name)
		}
	})
	return all, err
}

// parts divides a text: it calls plain for what stands as it is, and argument for each name in braces.
func parts(text string, plain, argument func(string)) error {
	for {
		before, rest, open := strings.Cut(text, "{{")
		plain(before)
		if !open {
			return nil
		}
		name, after, closed := strings.Cut(rest, "}}")
		if !closed {
			return wrongIn("text", "write {{name}}", "the text has {{ without }} after it, before %s", excerpt.Quote(rest, 20))
		}
		name = strings.TrimFunc(name, unicode.IsSpace)
		if !valid(name, "_") {
			return wrongIn("text", "write {{name}}, with small letters, digits and _", "the text has %s, which isn't an argument", excerpt.Quote("{{"+name+"}}", MaxName))
		}
		argument(name)
		text = after
	}
}

// Fill returns the text with the values of its arguments. What a value contains stays as it is, also braces. If
// one is missing, or if the text would be too long, it returns a *Mistake.
func (p *Prompt) Fill(values map[string]string) (string, error) {
	var missing []string
	for i := range p.Arguments {
		if _, ok := values[p.Arguments[i].Name]; !ok {
			missing = append(missing, p.Arguments[i].Name)
		}
	}
	if len(missing) > 0 {
		return "", wrong("send it in arguments", "the prompt %s needs the argument %s", p.Name, strings.Join(missing, " and "))
	}
	var b strings.Builder
	long := false
	add := func(s string) {
		if long = long || b.Len()+len(s) > MaxFilled; !long {
			b.WriteString(s)
		}
	}
	err := parts(p.Text, add, func(name string) { add(values[name]) })
	if err == nil && long {
		err = wrong("send shorter arguments", "the prompt %s would have more than %d bytes with these arguments", p.Name, MaxFilled)
	}
	return b.String(), err
}

// Instructions returns the description and the text, as clients get them from the active prompt.
func (p *Prompt) Instructions() string { return strings.TrimSpace(p.Description + "\n\n" + p.Text) }

// MistakeOf returns what is wrong with a prompt as a sentence and the next step, if that is why err is.
func MistakeOf(err error) (m *Mistake, ok bool) {
	ok = errors.As(err, &m)
	return m, ok
}
