package config

import (
	"fmt"
	"io"
	"log/slog"
)

const mask = "***"

// Secret is text that must not be shown: whatever prints, logs or marshals one
// gets ***. The zero Secret is the empty text. It is immutable.
type Secret struct {
	// A pointer, so that printing a struct in whose unexported fields a Secret
	// sits, where fmt calls no methods, shows an address and not the text.
	text *string
}

// NewSecret returns a Secret that holds text.
func NewSecret(text string) Secret { return Secret{text: &text} }

// Reveal returns the text itself, for the one place that has to send it.
func (s Secret) Reveal() string {
	if s.text == nil {
		return ""
	}
	return *s.text
}

// Equal reports whether two Secrets hold the same text. == does not.
func (s Secret) Equal(o Secret) bool { return s.Reveal() == o.Reveal() }

func (s Secret) String() string { return mask }

// Format makes every verb of fmt print ***.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, mask) }

// LogValue is what log/slog prints.
func (s Secret) LogValue() slog.Value { return slog.StringValue(mask) }

// MarshalJSON gives the JSON string "***".
func (s Secret) MarshalJSON() ([]byte, error) { return []byte(`"` + mask + `"`), nil }

// MarshalText is what other encoders print.
func (s Secret) MarshalText() ([]byte, error) { return []byte(mask), nil }
