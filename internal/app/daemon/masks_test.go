//go:build unix

package daemon

import (
	"context"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/relay/event"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
)

// TestRunMasksSecrets checks that the log of `run` shows no secret of its server, over HTTP and on a pipe:
// neither in the lines of calls nor in the events that the server causes.
func TestRunMasksSecrets(t *testing.T) {
	const secret = "hunter2-canary"
	const read, call = `{"jsonrpc":"2.0","id":7,"method":"resources/read","params":{"uri":"db://u:` + secret + `@h/t"}}`, "echo-" + secret
	for _, door := range []string{"http", "pipe"} {
		t.Run(door, func(t *testing.T) {
			t.Parallel()
			u := child(t, "s", "legacy", func(s *config.Server) { s.Env["API_TOKEN"] = config.NewSecret(secret) })
			var log *journal
			o := RunOptions{Server: u.Server, LogCalls: true, Events: &event.Publisher{}}
			if door == "http" {
				r := launch(t, func(ctx context.Context, log *slog.Logger, ready func(string)) error {
					o.Listen, o.Log, o.Ready = "127.0.0.1:0", log, ready
					return Run(ctx, o)
				})
				log = r.log
				r.call("/mcp", call, "{}")
				r.modern("/mcp", "8", "resources/read", "db://u:"+secret+"@h/t", `"uri":"db://u:`+secret+`@h/t"`)
			} else {
				p := pipeTo(t, func(ctx context.Context, log *slog.Logger, in io.Reader, out io.WriteCloser) error {
					o.Log, o.Stdin, o.Stdout = log, in, out
					return Run(ctx, o)
				})
				log = p.log
				p.initialize("{}")
				p.send(toolCall("6", call, "{}"))
				p.answerTo("6")
				p.send(read)
				p.answerTo("7")
			}
			o.Events.Publish(event.Event{Kind: event.Loss, Server: "s", Name: "tools/list", Detail: `"db://u:` + secret + `@h/t" is left out`})
			await(t, "the events are in the log", time.Minute, func() bool {
				text := log.String()
				return strings.Contains(text, "tool=echo-") && strings.Contains(text, "method=resources/read") && strings.Contains(text, "is left out")
			})
			for line := range strings.Lines(log.String()) {
				if strings.Contains(line, secret) {
					t.Error(line)
				}
			}
		})
	}
}
