package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/app/runtime"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
	"github.com/dragoman-mcp/dragoman/internal/transport/httplink"
	"github.com/dragoman-mcp/dragoman/internal/transport/stdio"
	"github.com/dragoman-mcp/dragoman/internal/workbench/tape"
)

// RecordOptions are the options of Record.
type RecordOptions struct {
	Server config.Server
	Listen string    // the address on which Record listens for the client; only used if the server has a URL
	Tape   io.Writer // receives the tape; Record does not close it
	About  string    // text that Record writes at the beginning of the tape
	Log    *slog.Logger
	Stderr io.Writer // the child's stderr
	// Stdin and Stdout replace the standard streams of the process, for tests.
	Stdin  io.ReadCloser
	Stdout io.WriteCloser
	Ready  func(url string) // Record calls Ready once, when it listens for the client
}

// Record connects a client to a server, and writes their messages to a tape. If the server is a
// command, Record starts it with the whole environment of Dragoman, because the client started
// Dragoman instead of the server. Record returns when the server's process has ended. code is the
// exit status of the process, as a shell reports it. If the server has a URL, Record returns when
// ctx ends, and code is 0. err says why Record could not connect the client and the server, or why
// the recording is incomplete.
func Record(ctx context.Context, o RecordOptions) (code int, err error) {
	r := tape.NewRecorder(o.Tape, o.About, o.Server.Secrets())
	if o.Server.URL != "" {
		err = recordHTTP(ctx, r, o)
	} else {
		code, err = recordPipe(ctx, r, o)
	}
	if bad := r.Err(); bad != nil {
		err = errors.Join(err, fmt.Errorf("the recording is incomplete: %w", bad))
	}
	return code, err
}

// stopOfTapped is how long a recorded server may take to exit after the connection to its client
// has ended.
const stopOfTapped = 10 * time.Second

func recordPipe(ctx context.Context, r *tape.Recorder, o RecordOptions) (int, error) {
	child, err := startWhole(ctx, o.Server, o.Stderr)
	if err != nil {
		return 0, err
	}
	defer func() { _ = child.Stop(context.Background()) }()
	in, out := o.Stdin, o.Stdout
	if in == nil {
		if in, out, err = stdio.Streams(); err != nil {
			return 0, fmt.Errorf("cannot open the standard streams: %w", err)
		}
	}
	stop := context.AfterFunc(ctx, func() { _ = child.Stop(context.Background()) })
	defer stop()
	stdout, stdin := child.Raw()
	err = r.Pipe(tape.Ends{From: in, To: out}, tape.Ends{From: stdout, To: stdin}, func() { _ = in.Close() })
	if ctx.Err() != nil {
		err = nil // the connection ended because ctx ended, and not because of an error
	}
	polite, cancel := context.WithTimeout(context.Background(), stopOfTapped)
	defer cancel()
	err = errors.Join(err, child.Stop(polite))
	r.Ended(child.ExitText())
	return child.ExitStatus(), err
}

// startWhole starts the command of s with the whole environment of Dragoman, and with the variables
// in the configuration of s.
func startWhole(ctx context.Context, s config.Server, stderr io.Writer) (*stdio.Process, error) {
	env := os.Environ()
	for k, v := range s.Env {
		env = append(env, k+"="+v.Reveal())
	}
	return stdio.Start(ctx, stdio.Spec{
		Command: s.Command, Args: s.Args, Env: env, Dir: s.Dir,
		OnStderr: func(line []byte) {
			if stderr != nil {
				_, _ = stderr.Write(append(append([]byte{}, line...), '\n'))
			}
		},
	})
}

func recordHTTP(ctx context.Context, r *tape.Recorder, o RecordOptions) error {
	target, err := url.Parse(o.Server.URL)
	if err != nil {
		return err
	}
	cas, err := httplink.LoadCAs(o.Server.CAFile)
	if err != nil {
		return err
	}
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment, DisableCompression: true, ForceAttemptHTTP2: true}
	httplink.Trust(transport, cas)
	defer transport.CloseIdleConnections()
	path := target.Path
	if path == "" {
		path = "/"
	}
	return listen(ctx, listenOptions{
		address: o.Listen, handler: r.Proxy(target, path, fields(o.Server.Header), transport), endpoints: runtime.NewEndpoints(),
		log: orDiscard(o.Log), limit: time.Second,
		ready: func(base string) {
			if o.Ready != nil {
				o.Ready(base + path)
			}
		},
	})
}

func fields(list []config.Field) http.Header {
	h := http.Header{}
	for _, f := range list {
		h.Add(f.Name, f.Value.Reveal())
	}
	return h
}

func orDiscard(l *slog.Logger) *slog.Logger {
	if l == nil {
		return slog.New(slog.DiscardHandler)
	}
	return l
}

// ReplayOptions are the options of Replay.
type ReplayOptions struct {
	Tape *tape.Tape
	// If Server is not nil, Replay acts as the client, and sends the recorded messages of the
	// client to this server. If Server is nil, Replay acts as the server for a client. The client
	// connects over stdio or, if Listen is not "", over HTTP.
	Server *config.Server
	Listen string
	tape.Options
	Log    *slog.Logger
	Stderr io.Writer // the child's stderr
	Stdin  io.ReadCloser
	Stdout io.WriteCloser
	Ready  func(url string)
}

// Replay plays one side of a tape. It returns the differences between the tape and the messages of
// the other side. If Replay acts as the server over HTTP, it returns when the client has sent all
// recorded messages, or when ctx ends.
func Replay(ctx context.Context, o ReplayOptions) ([]tape.Difference, error) {
	switch {
	case o.Server != nil && o.Server.URL != "":
		target, err := url.Parse(o.Server.URL)
		if err != nil {
			return nil, err
		}
		cas, err := httplink.LoadCAs(o.Server.CAFile)
		if err != nil {
			return nil, err
		}
		transport := &http.Transport{Proxy: http.ProxyFromEnvironment, DisableCompression: true}
		httplink.Trust(transport, cas)
		defer transport.CloseIdleConnections()
		return o.Tape.PlayHTTP(ctx, target, fields(o.Server.Header), transport, o.Options)
	case o.Server != nil:
		child, err := startWhole(ctx, *o.Server, o.Stderr)
		if err != nil {
			return nil, err
		}
		stdout, stdin := child.Raw()
		d, err := o.Tape.PlayPipe(ctx, true, tape.Ends{From: stdout, To: stdin}, func() { _ = child.Stop(context.Background()) }, o.Options)
		return d, errors.Join(err, child.Stop(context.Background()))
	case o.Listen != "":
		return replayListen(ctx, o)
	}
	in, out := o.Stdin, o.Stdout
	if in == nil {
		var err error
		if in, out, err = stdio.Streams(); err != nil {
			return nil, fmt.Errorf("cannot open the standard streams: %w", err)
		}
	}
	return o.Tape.PlayPipe(ctx, false, tape.Ends{From: in, To: out}, func() { _ = in.Close() }, o.Options)
}

func replayListen(ctx context.Context, o ReplayOptions) ([]tape.Difference, error) {
	stage, err := o.Tape.Stage(o.Options)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	var watching sync.WaitGroup
	defer watching.Wait()
	defer cancel()
	watching.Go(func() {
		for moved := stage.Moved(); !stage.Done(); moved = stage.Moved() {
			select {
			case <-moved:
			case <-ctx.Done():
				return
			}
		}
		cancel()
	})
	err = listen(ctx, listenOptions{
		address: o.Listen, handler: stage, endpoints: runtime.NewEndpoints(), log: orDiscard(o.Log), limit: 2 * time.Second,
		ready: func(base string) {
			if o.Ready != nil {
				o.Ready(base + stage.Path())
			}
		},
	})
	return stage.Differences(), err
}
