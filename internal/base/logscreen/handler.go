package logscreen

import (
	"context"
	"io"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/screen"
)

const (
	// indent is the indentation of the lines below the first: the width of a time and a space.
	indent = len(time.TimeOnly) + 1
	// widest is the most cells of a line; longer ones are hard to read. narrowest is the least.
	widest, narrowest = 110, 40
	// mostEvidence is the most lines of a server's words below one record.
	mostEvidence = 3
)

// Options configure a Handler.
type Options struct {
	// Level is the lowest level to show. At slog.LevelDebug or below, repetitions and all attributes
	// are shown too.
	Level slog.Level
	// Out gets each record with one call of Write, also from several goroutines at the same time.
	Out io.Writer
	// Width returns the width of the terminal in cells.
	Width func() int
	// Colour allows colours.
	Colour bool
}

// Handler is a slog.Handler for people. Call New to create a Handler, and Close when no more records
// follow.
type Handler struct {
	o     Options
	*past             // shared by all handlers that were derived from one
	own   []slog.Attr // the attributes of WithAttrs, with the groups in their keys
	group string      // the prefix of keys, from WithGroup
}

// New returns a handler without attributes.
func New(o Options) *Handler {
	return &Handler{o: o, past: &past{troubles: map[string]*trouble{}}}
}

// Enabled implements slog.Handler.
func (h *Handler) Enabled(_ context.Context, level slog.Level) bool { return level >= h.o.Level }

// WithAttrs implements slog.Handler.
func (h *Handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	out := *h
	out.own = slices.Clip(h.own)
	for _, a := range attrs {
		out.own = flatten(out.own, h.group, a)
	}
	return &out
}

// WithGroup implements slog.Handler.
func (h *Handler) WithGroup(name string) slog.Handler {
	out := *h
	if name != "" {
		out.group = h.group + name + "."
	}
	return &out
}

// flatten appends an attribute, or the attributes of a group, to a list.
func flatten(to []slog.Attr, group string, a slog.Attr) []slog.Attr {
	if a.Value.Kind() == slog.KindLogValuer {
		if _, ok := a.Value.Any().(Advice); !ok {
			a.Value = a.Value.Resolve() // another LogValuer, such as those of package loglimit
		}
	}
	switch {
	case a.Equal(slog.Attr{}):
	case a.Value.Kind() == slog.KindGroup:
		if a.Key != "" {
			group += a.Key + "."
		}
		for _, inner := range a.Value.Group() {
			to = flatten(to, group, inner)
		}
	default:
		to = append(to, slog.Attr{Key: group + a.Key, Value: a.Value})
	}
	return to
}

// verbose reports whether people want to see everything.
func (h *Handler) verbose() bool { return h.o.Level <= slog.LevelDebug }

// Handle implements slog.Handler.
func (h *Handler) Handle(_ context.Context, r slog.Record) error {
	f := &fields{all: slices.Clip(h.own)}
	r.Attrs(func(a slog.Attr) bool {
		f.all = flatten(f.all, h.group, a)
		return true
	})
	f.used = make([]bool, len(f.all))
	s := sayings[r.Message]
	more := ""
	if r.Level >= slog.LevelInfo && !h.verbose() {
		var shown bool
		if more, shown = h.recall(r.Time, s, f); !shown || s.told {
			return nil
		}
	}
	text := h.text(&r, f.said(r.Message, s), more)
	if s.start && h.hold(r.Time, text) {
		return nil
	}
	_, err := io.WriteString(h.o.Out, text)
	return err
}

// text lays out a record. more is dim print that follows the attributes.
func (h *Handler) text(r *slog.Record, x said, more string) string {
	width := max(min(h.o.Width(), widest), narrowest)
	var b strings.Builder
	paint := func(style screen.Style, text string) string {
		if !h.o.Colour {
			return text
		}
		return style.Paint(text)
	}
	rest := strings.Repeat(" ", indent)
	label, style := "", screen.Plain
	switch {
	case r.Level >= slog.LevelError:
		label, style = "error: ", screen.Red
	case r.Level >= slog.LevelWarn:
		label, style = "warning: ", screen.Yellow
	}
	quiet := screen.Plain // the style of the sentence
	if r.Level < slog.LevelInfo {
		quiet = screen.Dim
	}
	for i, l := range screen.Wrap(label+screen.Safe(x.sentence), width-indent) {
		if i == 0 {
			b.WriteString(paint(screen.Dim, r.Time.Format(time.TimeOnly)) + " ")
			l = l[min(len(label), len(l)):]
			b.WriteString(paint(style, label) + paint(quiet, l) + "\n")
			continue
		}
		b.WriteString(rest + paint(quiet, l) + "\n")
	}
	below := func(first, text string, style screen.Style) {
		for i, l := range screen.Wrap(screen.Safe(text), width-indent-len(first)) {
			if i > 0 {
				first = strings.Repeat(" ", len(first))
			}
			b.WriteString(rest + paint(style, first+l) + "\n")
		}
	}
	for _, l := range x.evidence {
		b.WriteString(rest + paint(screen.Dim, screen.Fit(screen.Safe(l), width-indent)) + "\n")
	}
	below("-> ", x.action, quiet)
	for _, d := range x.details {
		below("", d.text, quiet)
		below("-> ", d.action, quiet)
	}
	fine := x.fine
	if h.verbose() {
		fine = append(fine, x.finest...)
	}
	if more != "" {
		fine = append(fine, more)
	}
	below("", strings.Join(fine, ", "), screen.Dim)
	return b.String()
}

// said is a record in words.
type said struct {
	sentence string
	evidence []string // what the server wrote
	action   string   // what to do
	details  []detail // what else there is to say
	fine     []string // the attributes that the sentence doesn't have
	finest   []string // those that only somebody who wants everything wants to see
}

// detail is a further sentence, and what to do about it.
type detail struct{ text, action string }

// finest are the keys of attributes for programs, or of those that say the same as the sentence.
var finest = []string{"class", "cause", "status", "evidence_from", "attempt", "attempts", "for", "principal", "error_code"}

// said puts a record into words.
func (f *fields) said(message string, s saying) (x said) {
	if of := f.peek("project"); of == "" || of == "default" {
		f.take("project")
	}
	sentence := f.take("sentence")
	x.action = f.take("action")
	if x.action == "" {
		x.action = f.take("fix")
	}
	switch count := f.take("more"); {
	case count != "":
		// A count of package loglimit, which has only the attributes that name the peer.
		if s.counted != "" {
			message = s.counted
		}
		x.sentence = f.general(message) + ": " + count + " more like this within " + f.take("within")
	case s.say != nil:
		x.sentence = s.say(f)
	case s.text != "":
		x.sentence = f.fill(s.text)
	}
	switch {
	case sentence == "":
	case x.sentence == "":
		x.sentence = sentence
		f.take("server") // the sentence names the server
	default:
		x.details = append(x.details, detail{text: sentence})
	}
	if s.problem || s.place {
		f.advice(&x, s)
	}
	if x.sentence == "" {
		x.sentence = f.general(message)
	}
	f.advice(&x, s)
	f.take("code") // it's for programs, which read another format
	x.evidence = f.evidence(sentence)
	for _, key := range []string{"retry_after", "retry_in"} {
		if pause := f.take(key); pause != "" {
			x.fine = append(x.fine, "next attempt in "+pause)
		}
	}
	for i, a := range f.all {
		if f.used[i] || valueOf(a) == "" {
			continue
		}
		text := a.Key + " " + word(valueOf(a))
		if slices.Contains(finest, a.Key) {
			x.finest = append(x.finest, text)
		} else {
			x.fine = append(x.fine, text)
		}
	}
	return x
}

// general returns a sentence for a record that the table doesn't know: the message, whose server it's
// about, and the cause.
func (f *fields) general(message string) string {
	text := message
	if f.peek("server") != "" {
		text = "server " + f.server() + ": " + text
	}
	if cause := f.take("cause"); cause != "" {
		text += ": " + inSentence(cause)
	}
	return text
}

// Advice is the value of an attribute that has texts and what to do about them. Other handlers show its
// LogValue.
type Advice interface {
	slog.LogValuer
	// Advice calls tell for each problem: where it is, such as a line of a file, what it is, and what to do
	// about it. where and action may be "".
	Advice(tell func(where, text, action string))
}

// advice adds the advice in the attributes to x.
func (f *fields) advice(x *said, s saying) {
	for i, a := range f.all {
		v, ok := a.Value.Any().(Advice)
		if !ok || f.used[i] {
			continue
		}
		f.used[i] = true
		v.Advice(func(where, text, action string) {
			switch {
			case s.place:
				x.fine = append(x.fine, where) // the sentence says the rest
				return
			case where != "":
				text = where + ": " + text
			}
			if x.sentence == "" {
				x.sentence, x.action = text, action
				return
			}
			x.details = append(x.details, detail{text, action})
		})
	}
}

// evidence returns lines with the server's own words. It leaves out what the sentence quotes, and what
// comes from the operating system: the sentence says that already.
func (f *fields) evidence(sentence string) (out []string) {
	from := f.take("evidence_from")
	for i, a := range f.all {
		if a.Key != "evidence" || f.used[i] {
			continue
		}
		f.used[i] = true
		lines, ok := a.Value.Any().(interface{ Lines() []string })
		if !ok || from == "system" {
			continue
		}
		for _, l := range lines.Lines() {
			if len(out) < mostEvidence && !strings.Contains(sentence, strconv.Quote(l)) {
				out = append(out, from+" | "+l)
			}
		}
	}
	return out
}

// fields are the attributes of a record.
type fields struct {
	all  []slog.Attr
	used []bool // what a sentence says already
}

// peek returns an attribute as text, or "" if the record has none with this key.
func (f *fields) peek(key string) string {
	for _, a := range f.all {
		if a.Key == key {
			return valueOf(a)
		}
	}
	return ""
}

// take does the same as peek, and the attribute won't be shown again.
func (f *fields) take(key string) string {
	for i, a := range f.all {
		if a.Key == key {
			f.used[i] = true
			return valueOf(a)
		}
	}
	return ""
}

// server returns the name of the server that a record is about, in quotes.
func (f *fields) server() string {
	name := f.take("server")
	if of := f.take("project"); of != "" && of != "default" {
		name = of + "/" + name
	}
	return strconv.Quote(name)
}

// fill replaces each {key} in a text with the attribute. It returns "" if the record lacks one of them.
func (f *fields) fill(text string) string {
	var b strings.Builder
	var taken []string
	for {
		before, rest, ok := strings.Cut(text, "{")
		b.WriteString(before)
		if !ok {
			break
		}
		key, after, _ := strings.Cut(rest, "}")
		value := f.peek(key)
		if value == "" {
			return ""
		}
		if key == "server" {
			b.WriteString(f.server())
		} else {
			b.WriteString(inSentence(value))
		}
		taken, text = append(taken, key), after
	}
	for _, key := range taken {
		f.take(key)
	}
	return b.String()
}

func valueOf(a slog.Attr) string { return a.Value.Resolve().String() }

// inSentence returns text for the middle of a sentence. What has to be escaped is put in quotes.
func inSentence(text string) string {
	if screen.Safe(text) != text {
		return strconv.Quote(text)
	}
	return text
}

// word returns text as one word: in quotes, unless it's plain.
func word(text string) string {
	if text == "" || strings.ContainsAny(text, " \"',;=") || screen.Safe(text) != text {
		return strconv.Quote(text)
	}
	return text
}
