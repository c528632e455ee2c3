package logring

import (
	"context"
	"log/slog"
	"slices"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
)

// Handler keeps log records in a ring and passes them on. It keeps records at slog.LevelInfo or
// above. It keeps other records only if the next handler is enabled for their level. Call
// NewHandler to create a Handler.
type Handler struct {
	ring  *Ring
	next  slog.Handler
	about about
	attrs []Attr // the attributes of WithAttrs, without "server"
	group string // the prefix of keys, from WithGroup
}

// about says what a record is about: the values of its attributes "server" and "project".
type about struct{ server, project string }

// NewHandler returns a handler that keeps records in ring and passes them to next.
func NewHandler(ring *Ring, next slog.Handler) *Handler { return &Handler{ring: ring, next: next} }

// Enabled implements slog.Handler.
func (h *Handler) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelInfo || h.next.Enabled(ctx, level)
}

// stderrLine is the message of a record that shows a line of a server's stderr. The ring has
// these lines already; see Ring.Stderr.
const stderrLine = "server stderr"

// Handle implements slog.Handler.
func (h *Handler) Handle(ctx context.Context, r slog.Record) error {
	x := Record{Time: r.Time, Level: r.Level, Text: cut(r.Message)}
	x.Attrs = slices.Clip(h.attrs)
	of := h.about
	r.Attrs(func(a slog.Attr) bool {
		x.Attrs = h.append(x.Attrs, &of, h.group, a)
		return true
	})
	x.Server = of.server
	if ring := h.ring.partOf(of.project); ring != nil && r.Message != stderrLine {
		ring.add(x)
	}
	if !h.next.Enabled(ctx, r.Level) {
		return nil
	}
	return h.next.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (h *Handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	out := *h
	out.next, out.attrs = h.next.WithAttrs(attrs), slices.Clip(h.attrs)
	for _, a := range attrs {
		out.attrs = h.append(out.attrs, &out.about, h.group, a)
	}
	return &out
}

// WithGroup implements slog.Handler.
func (h *Handler) WithGroup(name string) slog.Handler {
	out := *h
	out.next = h.next.WithGroup(name)
	if name != "" {
		out.group = h.group + name + "_"
	}
	return &out
}

// append adds an attribute to a list. It does not add the attribute "server", but stores its value
// in *of. It stores the value of "project" too.
func (h *Handler) append(to []Attr, of *about, group string, a slog.Attr) []Attr {
	v := a.Value.Resolve()
	switch {
	case a.Equal(slog.Attr{}) || len(to) >= maxAttrs:
	case v.Kind() == slog.KindGroup:
		if a.Key != "" {
			group += a.Key + "_"
		}
		for _, inner := range v.Group() {
			to = h.append(to, of, group, inner)
		}
	case group == "" && a.Key == "server" && v.Kind() == slog.KindString:
		of.server = cut(v.String())
	case group == "" && a.Key == "project" && v.Kind() == slog.KindString:
		of.project = v.String()
		to = append(to, Attr{a.Key, cut(v.String())})
	default:
		to = append(to, Attr{group + a.Key, cut(v.String())})
	}
	return to
}

// cut limits the length of a text. The result does not share memory with a longer text.
func cut(text string) string {
	if len(text) <= maxText {
		return text
	}
	return strings.Clone(excerpt.Cut(text, maxText))
}
