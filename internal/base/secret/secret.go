// Package secret has a text that doesn't show itself.
//
// Credentials get into logs, errors and answers because somebody prints the struct that holds them.
// Every way of printing, logging or marshalling a Text gives ***, and Text.Reveal, which a reader can
// search for, is the only way to the text itself. It isn't a defence against code that reads memory or
// follows pointers by reflection.
//
// The package keeps nothing. A Text is immutable, so it's safe for concurrent use.
package secret

import (
	"crypto/subtle"
	"fmt"
	"io"
	"log/slog"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
)

// Text is text that must not be shown. The zero Text is no secret; it reveals the empty text.
type Text struct {
	// text is a pointer because fmt does not call methods of unexported struct fields. When a
	// struct that contains a Text is printed, fmt prints the address instead of the text.
	text *string
}

// New returns a Text that holds text.
func New(text string) Text { return Text{text: &text} }

// Reveal returns the secret text. Call Reveal only where the text itself is needed.
func (t Text) Reveal() string {
	if t.text == nil {
		return ""
	}
	return *t.text
}

// Equal reports whether two Texts hold the same text. How long it takes tells no more than whether they
// are equally long. The operator == compares pointers instead.
func (t Text) Equal(o Text) bool {
	return subtle.ConstantTimeCompare([]byte(t.Reveal()), []byte(o.Reveal())) == 1
}

func (t Text) String() string { return excerpt.Mask }

// Format makes every verb of fmt print ***.
func (t Text) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, excerpt.Mask) }

// LogValue implements slog.LogValuer.
func (t Text) LogValue() slog.Value { return slog.StringValue(excerpt.Mask) }

// MarshalJSON returns the JSON string "***".
func (t Text) MarshalJSON() ([]byte, error) { return []byte(`"` + excerpt.Mask + `"`), nil }

// MarshalText implements encoding.TextMarshaler, which YAML, TOML, XML and gob use too.
func (t Text) MarshalText() ([]byte, error) { return []byte(excerpt.Mask), nil }
