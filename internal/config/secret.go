package config

import (
	"cmp"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"slices"
	"strings"
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

// shortestSecret is the length below which a text is no secret: it is a flag or a
// level, and stands in every second sentence.
const shortestSecret = 6

// Secrets returns the texts of a server's configuration that nobody should be shown
// who is shown what the server says, longest first: the values of its environment and
// its headers and the words in them, what came from outside into its arguments and its
// URL, and what credentials a URL has. Those of less than six bytes are left out.
func (s Server) Secrets() []string {
	var all []string
	add := func(text string) {
		all = append(all, text)
		if words := strings.Fields(text); len(words) > 1 { // Bearer XYZ
			all = append(all, words...)
		}
	}
	for _, v := range s.Env {
		add(v.Reveal())
	}
	for _, h := range s.Header {
		add(h.Value.Reveal())
	}
	for _, v := range s.outside {
		add(v.Reveal())
	}
	if u, err := url.Parse(s.URL); err == nil {
		add(u.RawQuery)
		for _, values := range u.Query() {
			all = append(all, values...)
		}
		if password, ok := u.User.Password(); ok {
			add(password)
		}
	}
	all = slices.DeleteFunc(all, func(text string) bool {
		return len(text) < shortestSecret || text == "Bearer"
	})
	slices.SortFunc(all, func(a, b string) int {
		return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(a, b))
	})
	return slices.Compact(all)
}
