package daemon

import (
	"context"
	"log/slog"

	"github.com/dragoman-mcp/dragoman/internal/app/telemetry"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
)

// startTraces sends the spans of calls to a collector, if the configuration or the environment names one. Otherwise it
// returns nil. Variables that we can't use are no more than a notice, since they may be meant for other programs.
func startTraces(file config.Traces, env func(string) (string, bool), version string, log *slog.Logger, clean func(project, server string) func(string) string) *telemetry.Traces {
	to, err := telemetry.TracesFrom(file, env)
	if err != nil {
		level := slog.LevelInfo
		if file.Endpoint != "" {
			level = slog.LevelWarn
		}
		log.Log(context.Background(), level, "settings for traces could not be used", "cause", err.Error())
	}
	if to != nil {
		log.Info("calls are traced", "endpoint", to.Shown)
	}
	return telemetry.NewTraces(to, version, log, clean)
}
