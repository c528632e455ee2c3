package cli

import (
	"log/slog"
	"time"

	"github.com/lmittmann/tint"

	"github.com/dragoman-mcp/dragoman/internal/config"
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
		a.log = slog.New(slog.NewJSONHandler(a.status, o))
	case a.status.terminal:
		a.log = slog.New(tint.NewTextHandler(a.status, &tint.Options{
			Level: level, TimeFormat: time.TimeOnly, NoColor: !a.status.colour,
		}))
	default:
		a.log = slog.New(slog.NewTextHandler(a.status, o))
	}
}
