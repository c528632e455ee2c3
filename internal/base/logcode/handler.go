package logcode

import (
	"context"
	"log/slog"
)

// Key is the key of the attribute that holds the code.
const Key = "code"

// Handler adds the code to the records that it passes on, as the last attribute. It passes a
// record on unchanged if the record already has a code, or if the table has no code for its
// message. Call New to create a Handler.
type Handler struct{ next slog.Handler }

// New returns a handler that passes records to next. If next already adds codes, New returns
// next.
func New(next slog.Handler) slog.Handler {
	if h, ok := next.(*Handler); ok {
		return h
	}
	return &Handler{next}
}

// Enabled implements slog.Handler.
func (h *Handler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.next.Enabled(ctx, level)
}

// Handle implements slog.Handler.
func (h *Handler) Handle(ctx context.Context, r slog.Record) error {
	code := ofMessage[r.Message]
	if code == "" {
		return h.next.Handle(ctx, r)
	}
	has := false
	r.Attrs(func(a slog.Attr) bool {
		has = a.Key == Key
		return !has
	})
	if !has {
		r = r.Clone()
		r.AddAttrs(slog.String(Key, code))
	}
	return h.next.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (h *Handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &Handler{h.next.WithAttrs(attrs)}
}

// WithGroup implements slog.Handler.
func (h *Handler) WithGroup(name string) slog.Handler { return &Handler{h.next.WithGroup(name)} }
