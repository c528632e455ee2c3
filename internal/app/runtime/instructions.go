package runtime

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
	"github.com/dragoman-mcp/dragoman/internal/team/prompt"
	"github.com/dragoman-mcp/dragoman/internal/transport/stdio"
)

// instructions gets the instructions for clients from the configuration, a file, a command or a
// requirements server. It caches the text of a file until the file changes, and what a command or a server
// says for a limited time. If the text cannot be read, get returns "", or what the server said before, so
// that the handshake does not fail.
type instructions struct {
	ask func(ctx context.Context, server string) (string, error) // reads the active prompt of a server

	mu     sync.Mutex
	source string // the file, the command or the server from which text comes
	text   string
	mod    time.Time // the modification time of the file
	size   int64
	until  time.Time // the time when the command must run, or the server be asked, again

	running chan struct{} // closed when the command has ended or the server has answered; nil while there is none
}

const (
	maxInstructions     = 256 << 10
	instructionsCommand = 5 * time.Second
	instructionsKept    = time.Minute // how long the output of a command is cached by default
	// failedInstructionsKept is how long a command that failed is not run again, so that clients that
	// connect one after another do not all wait for it.
	failedInstructionsKept = 5 * time.Second
	// A handshake waits for a server as long as for the lists of a slow one.
	instructionsAnswer = 1500 * time.Millisecond
	answerKept         = time.Second
)

func (i *instructions) get(ctx context.Context, in config.Instructions, log *slog.Logger) string {
	switch {
	case in.Text != "":
		return in.Text
	case in.File != "":
		return i.file(in.File, log)
	case len(in.Command) > 0:
		return i.command(ctx, in.Command, cmp.Or(in.Keep, instructionsKept), log)
	case in.From != "":
		return i.server(ctx, in.From, log)
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
func (i *instructions) command(ctx context.Context, argv []string, keep time.Duration, log *slog.Logger) string {
	return i.shared(ctx, strings.Join(argv, "\x00"), func(ctx context.Context, _ string) (string, time.Duration) {
		text, ok := output(ctx, argv, log)
		if !ok {
			return text, min(keep, failedInstructionsKept)
		}
		return text, keep
	})
}

// server returns what the active prompt of a requirements server says. If the server doesn't answer, that is
// what it said before.
func (i *instructions) server(ctx context.Context, name string, log *slog.Logger) string {
	return i.shared(ctx, "server\x00"+name, func(ctx context.Context, before string) (string, time.Duration) {
		ctx, cancel := context.WithTimeout(ctx, instructionsAnswer)
		defer cancel()
		text, err := i.ask(ctx, name)
		if err != nil {
			log.Warn("cannot read the instructions", "cause", err.Error())
			return before, answerKept
		}
		return readText(strings.NewReader(text), log), answerKept
	})
}

// shared returns the last text of a source. It calls read first if the text is older than read said it may be;
// before is that text, or "" if there is none. Concurrent callers share one call of read. The end of ctx does
// not stop it, because other callers may need its result.
func (i *instructions) shared(ctx context.Context, source string, read func(ctx context.Context, before string) (text string, keep time.Duration)) string {
	before := ""
	for {
		i.mu.Lock()
		if i.source == source && time.Until(i.until) > 0 {
			defer i.mu.Unlock()
			return i.text
		}
		if i.source == source {
			before = i.text
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
			return before
		}
	}
	text, keep := read(context.WithoutCancel(ctx), before)
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

// InstructionsWith returns the instructions that a client of a revision would get from the endpoint of all servers if
// active were the project's active prompt. The client may see all servers, and says nothing of itself. unread has the
// names of the servers whose part isn't known yet: no such client has opened them.
func (p *Project) InstructionsWith(ctx context.Context, revision mcp.Revision, active *prompt.Prompt) (text string, unread []string) {
	g, s := p.merged(), p.Current()
	if g == nil || s == nil {
		return active.Instructions(), nil
	}
	f := &mcp.ClientInfo{Revision: revision}
	text, unread = g.View(f, nil).KnownInstructions(ctx, p.identity(s, active.Instructions))
	return text, slices.DeleteFunc(unread, func(name string) bool {
		_, configured := p.Config(name)
		return !configured // the project's own prompts are no server, and say nothing there
	})
}

// activePrompt reads what the active prompt of a requirements server says, which is a resource of it.
func (p *Project) activePrompt(ctx context.Context, server string) (string, error) {
	x := p.server(server)
	if x == nil {
		return "", fmt.Errorf("server %q is disabled", server)
	}
	f := &mcp.ClientInfo{}
	lease, err := x.Acquire(ctx, f, mcp.Need{Method: mcp.MethodReadResource})
	if err != nil {
		return "", err
	}
	defer lease.Release()
	m := jsonrpc.NewRequest("1", mcp.MethodReadResource, []byte(`{"uri":"requirements://instructions"}`))
	c := mcp.NewCall(m, m.Param(mcp.KeyMeta), f)
	c.Ours = true
	reply, err := lease.Call(ctx, mcp.NewAttempt(c), mcp.NoCaller{})
	if err != nil {
		return "", err
	}
	if reply.Msg.Kind == jsonrpc.Failure {
		return "", wireError(reply.Msg)
	}
	for x := range reply.Msg.At(reply.Msg.ResultMember("contents")).Elements() {
		if text, ok := x.Get("text").Text(); ok {
			return text, nil
		}
	}
	return "", fmt.Errorf("server %q has no resource for its instructions", server)
}
