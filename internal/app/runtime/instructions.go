package runtime

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/dragoman-mcp/dragoman/internal/setup/config"
	"github.com/dragoman-mcp/dragoman/internal/transport/stdio"
)

// instructions gets the instructions for clients from the configuration, a file or a command. It
// caches the text of a file until the file changes, and the output of a command for a limited time.
// If the text cannot be read, get returns "", so that the handshake does not fail.
type instructions struct {
	mu     sync.Mutex
	source string // the file or the command from which text comes
	text   string
	mod    time.Time // the modification time of the file
	size   int64
	until  time.Time // the time when the command must run again

	running chan struct{} // closed when the command has ended; nil while none runs
}

const (
	maxInstructions     = 256 << 10
	instructionsCommand = 5 * time.Second
	instructionsKept    = time.Minute // how long the output of a command is cached by default
	// failedInstructionsKept is how long a command that failed is not run again, so that clients that
	// connect one after another do not all wait for it.
	failedInstructionsKept = 5 * time.Second
)

func (i *instructions) get(ctx context.Context, in config.Instructions, log *slog.Logger) string {
	switch {
	case in.Text != "":
		return in.Text
	case in.File != "":
		return i.file(in.File, log)
	case len(in.Command) > 0:
		return i.command(ctx, in.Command, cmp.Or(in.Keep, instructionsKept), log)
	}
	return ""
}

func (i *instructions) file(path string, log *slog.Logger) string {
	st, err := os.Stat(path)
	if err == nil && !st.Mode().IsRegular() {
		err = errNoFile // do not open a named pipe, because opening it would block
	}
	if err != nil {
		log.Warn("cannot read the instructions", "cause", err.Error())
		return ""
	}
	i.mu.Lock()
	same := i.source == path && i.mod.Equal(st.ModTime()) && i.size == st.Size()
	text := i.text
	i.mu.Unlock()
	if same {
		return text
	}
	f, err := os.Open(path)
	if err != nil {
		log.Warn("cannot read the instructions", "cause", err.Error())
		return ""
	}
	defer func() { _ = f.Close() }()
	text = readText(f, log)
	i.mu.Lock()
	i.source, i.text, i.mod, i.size = path, text, st.ModTime(), st.Size()
	i.mu.Unlock()
	return text
}

var errNoFile = errors.New("the path does not lead to a regular file")

// command returns the last output of the command, or "" if its last run failed. If that is longer ago
// than keep, or than failedInstructionsKept for a run that failed, the command runs again first.
// Concurrent callers share one run of the command. The end of ctx does not stop the command, because other
// callers may need its output.
func (i *instructions) command(ctx context.Context, argv []string, keep time.Duration, log *slog.Logger) string {
	source := strings.Join(argv, "\x00")
	for {
		i.mu.Lock()
		if i.source == source && time.Until(i.until) > 0 {
			defer i.mu.Unlock()
			return i.text
		}
		running := i.running
		if running == nil {
			i.running = make(chan struct{})
		}
		i.mu.Unlock()
		if running == nil {
			break
		}
		select {
		case <-running:
		case <-ctx.Done():
			return ""
		}
	}
	text, ok := output(context.WithoutCancel(ctx), argv, log)
	if !ok {
		keep = min(keep, failedInstructionsKept)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.source, i.text, i.until = source, text, time.Now().Add(keep)
	close(i.running)
	i.running = nil
	return text
}

func output(ctx context.Context, argv []string, log *slog.Logger) (text string, ok bool) {
	ctx, cancel := context.WithTimeout(ctx, instructionsCommand)
	defer cancel()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env = stdio.Environ(nil, nil)
	cmd.WaitDelay = time.Second
	var out bounded
	cmd.Stdout = &out
	if err := cmd.Run(); err != nil {
		log.Warn("the command for the instructions failed", "cause", err.Error())
		return "", false
	}
	return readText(strings.NewReader(out.b.String()), log), true
}

// bounded is an io.Writer that keeps the first maxInstructions+1 bytes and discards all later
// bytes.
type bounded struct{ b strings.Builder }

func (w *bounded) Write(p []byte) (int, error) {
	if room := maxInstructions + 1 - w.b.Len(); room > 0 {
		w.b.Write(p[:min(room, len(p))])
	}
	return len(p), nil
}

func readText(r io.Reader, log *slog.Logger) string {
	b, err := io.ReadAll(io.LimitReader(r, maxInstructions+1))
	switch {
	case err != nil:
		log.Warn("cannot read the instructions", "cause", err.Error())
		return ""
	case len(b) > maxInstructions:
		log.Warn("the instructions are too long, so they are not used", "limit", maxInstructions)
		return ""
	case !utf8.Valid(b):
		log.Warn("the instructions are not UTF-8, so they are not used")
		return ""
	}
	return strings.TrimSpace(string(b))
}
