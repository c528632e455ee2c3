package secret

import (
	"bytes"
	"encoding/gob"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/pelletier/go-toml/v2"
)

const canary = "hunter2-canary"

// holder has a Text wherever a struct can have one.
type holder struct {
	Public  Text
	private Text
	Pointer *Text
	List    []Text
	Map     map[string]Text
	Any     any
	Inner   struct{ Text }
}

func hold() holder {
	t := New(canary)
	return holder{t, t, &t, []Text{t}, map[string]Text{"k": t}, t, struct{ Text }{t}}
}

// shows fails if out shows the secret in any spelling that a verb of fmt knows.
func shows(t *testing.T, how string, out string) {
	t.Helper()
	lower := strings.ToLower(out)
	for _, spelling := range []string{canary, fmt.Sprintf("%x", canary), fmt.Sprintf("% x", canary), fmt.Sprintf("%v", []byte(canary)), fmt.Sprintf("%o", []byte(canary)), fmt.Sprintf("%b", []byte(canary))} {
		if strings.Contains(lower, strings.Trim(spelling, "[]")) {
			t.Errorf("%s shows the secret: %s", how, out)
		}
	}
}

// TestTM19_NoVerbShowsASecret tries every verb with every flag, on the Text and on what holds it.
func TestTM19_NoVerbShowsASecret(t *testing.T) {
	text := New(canary)
	h := hold()
	for verb := 'A'; verb <= 'z'; verb++ {
		for _, flags := range []string{"", "+", "#", "-", " ", "0", "#+", "20", ".3"} {
			format := "%" + flags + string(verb)
			for _, v := range []any{text, &text, h, &h, []any{text}, map[Text]Text{text: text}, fmt.Errorf("no: %w", errorOf{text}), errors.Join(errorOf{text})} {
				shows(t, fmt.Sprintf("%s of %T", format, v), fmt.Sprintf(format, v))
			}
			// Package fmt itself prints the type, the pointer and what is not a verb.
			if out := fmt.Sprintf(format, text); !strings.ContainsRune("TpwZ", verb) && (verb <= 'Z' || verb >= 'a') && out != "***" {
				t.Errorf("%s prints %s", format, out)
			}
		}
	}
	for _, out := range []string{fmt.Sprint(text, h), fmt.Sprintln(text, &h), text.String()} {
		shows(t, "Sprint", out)
	}
}

type errorOf struct{ Text }

func (e errorOf) Error() string { return fmt.Sprintf("refused %s", e.Text) }

// TestTM19_NoEncodingShowsASecret marshals a Text and what holds it.
func TestTM19_NoEncodingShowsASecret(t *testing.T) {
	h := hold()
	for how, marshal := range map[string]func(any) ([]byte, error){
		"json": json.Marshal, "yaml": func(v any) ([]byte, error) { return yaml.Marshal(v) }, "toml": toml.Marshal, "xml": func(v any) ([]byte, error) { return xml.Marshal(v) },
		"gob": func(v any) ([]byte, error) {
			var b bytes.Buffer
			err := gob.NewEncoder(&b).Encode(v)
			return b.Bytes(), err
		},
		"slog text": func(v any) ([]byte, error) {
			var b bytes.Buffer
			slog.New(slog.NewTextHandler(&b, nil)).Info("x", "v", v)
			return b.Bytes(), nil
		},
		"slog json": func(v any) ([]byte, error) {
			var b bytes.Buffer
			slog.New(slog.NewJSONHandler(&b, nil)).Info("x", "v", v)
			return b.Bytes(), nil
		},
	} {
		for _, v := range []any{struct{ S Text }{New(canary)}, h, &h} {
			out, err := marshal(v)
			shows(t, how, string(out))
			if err == nil && !bytes.Contains(out, []byte("***")) {
				t.Errorf("%s: %s", how, out)
			}
		}
	}
	if b, err := json.Marshal(map[string]any{"s": New(canary), "zero": Text{}}); err != nil || string(b) != `{"s":"***","zero":"***"}` {
		t.Errorf("%s, %v", b, err)
	}
}

func TestText(t *testing.T) {
	if (Text{}).Reveal() != "" || New(canary).Reveal() != canary {
		t.Error("the text was not revealed")
	}
	for _, tt := range []struct {
		a, b Text
		want bool
	}{{New("a"), New("a"), true}, {New("a"), New("b"), false}, {New("a"), New("aa"), false}, {Text{}, New(""), true}, {Text{}, New("a"), false}} {
		if got := tt.a.Equal(tt.b); got != tt.want {
			t.Errorf("%q and %q: %v", tt.a.Reveal(), tt.b.Reveal(), got)
		}
	}
}
