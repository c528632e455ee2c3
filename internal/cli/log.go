package cli

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/lmittmann/tint"

	"github.com/dragoman-mcp/dragoman/internal/config"
	"github.com/dragoman-mcp/dragoman/internal/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/transport/stdio"
)

// startLog makes the logger of a command. Flags win over what the configuration
// says; usual is the level when neither says anything.
func (a *app) startLog(usual slog.Level, c *config.Log) {
	level, json := usual, a.logFormat == "json"
	if c != nil {
		level = c.Level
		if a.logFormat == "" {
			json = c.JSON
		}
	}
	switch {
	case a.verbose:
		level = slog.LevelDebug
	case a.quiet:
		level = slog.LevelError
	}
	o := &slog.HandlerOptions{Level: level}
	switch {
	case json:
		a.log = slog.New(slog.NewJSONHandler(jsonLines{a.status}, o))
	case a.status.terminal:
		a.log = slog.New(tint.NewTextHandler(a.status, &tint.Options{
			Level: level, TimeFormat: time.TimeOnly, NoColor: !a.status.colour, ReplaceAttr: withoutEscape,
		}))
	default:
		a.log = slog.New(slog.NewTextHandler(a.status, o))
	}
}

// withoutEscape takes the escape character out of an attribute. The coloured handler
// quotes all other controls, but lets this one through, and makes one of the four
// characters \x1b too: what a peer says would drive the terminal.
func withoutEscape(_ []string, a slog.Attr) slog.Attr {
	switch a.Value.Kind() {
	case slog.KindString:
		a.Value = slog.StringValue(escapeSpelled.Replace(a.Value.String()))
	case slog.KindAny:
		switch v := a.Value.Any().(type) {
		case slog.Level, *slog.Source: // of the record itself
		default:
			a.Value = slog.StringValue(escapeSpelled.Replace(fmt.Sprintf("%+v", v)))
		}
	}
	return a
}

var escapeSpelled = strings.NewReplacer("\x1b", `\x1B`, `\x1b`, `\x1B`)

// jsonLines writes records in JSON. What a terminal acts on, and the JSON handler
// leaves as it is, is written as an escape.
type jsonLines struct{ to io.Writer }

func (l jsonLines) Write(b []byte) (int, error) {
	if _, err := l.to.Write(excerpt.JSON(b)); err != nil {
		return 0, err
	}
	return len(b), nil
}

// childLines passes on what a server writes to standard error, a line at a time, each
// with the name of the server before it: such a line is the server's, and never looks
// like one of ours.
type childLines struct {
	to   io.Writer
	name string
}

func (l *childLines) Write(b []byte) (int, error) {
	for line := range bytes.Lines(b) {
		if _, err := io.WriteString(l.to, clean(l.name)+" stderr: "+stdio.Printable(line)+"\n"); err != nil {
			return 0, err
		}
	}
	return len(b), nil
}
