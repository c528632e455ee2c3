package admin

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"path/filepath"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/app/runtime"
	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/failure"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/setup/clientfile"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
	"github.com/dragoman-mcp/dragoman/internal/setup/intake"
)

// Trial is a test of a server before the server is added. Dragoman opens the server once, reads its
// lists and closes it.
type Trial struct {
	State     string           `json:"state" enum:"waiting,running,connected,failed,cancelled" doc:"waiting: other trials run first"`
	Started   *time.Time       `json:"started,omitempty" doc:"when the trial started; left out while it waits"`
	Ended     *time.Time       `json:"ended,omitempty" doc:"when the trial ended; left out until then"`
	Revision  string           `json:"revision,omitempty" doc:"the protocol revision that was agreed on; left out if none was"`
	Era       string           `json:"era,omitempty" doc:"legacy or modern; left out if the revision isn't known"`
	Transport string           `json:"transport,omitempty" doc:"stdio, http or sse; left out if it isn't known"`
	Server    string           `json:"server,omitempty" doc:"what the server calls itself, with its version"`
	Steps     []HandshakeStep  `json:"steps" doc:"the steps of the handshake, with their messages"`
	Tools     *int             `json:"tools,omitempty" doc:"number of tools; left out if the list wasn't read"`
	Resources *int             `json:"resources,omitempty" doc:"number of resources; left out if the list wasn't read"`
	Templates *int             `json:"templates,omitempty" doc:"number of resource templates; left out if the list wasn't read"`
	Prompts   *int             `json:"prompts,omitempty" doc:"number of prompts; left out if the list wasn't read"`
	Failure   *failure.Failure `json:"failure,omitempty" doc:"why the server can't be used; only for the state failed"`
}

// The states of a trial.
const (
	trialWaiting   = "waiting"
	trialRunning   = "running"
	trialConnected = "connected"
	trialFailed    = "failed"
	trialCancelled = "cancelled"
)

// The limits of trials.
const (
	mostTrials = 4                // the maximum number of trials at the same time
	trialStart = time.Minute      // the minimum timeout for the start of the server
	trialLists = 30 * time.Second // the timeout for reading the lists
)

var errTrialTimeout = errors.New("the trial has reached its timeout")

// over reports whether the server has been tried, and its trial has ended.
func (x *draftServer) over() bool { return x.trial != nil && x.trial.Ended != nil }

// tryLocked starts a trial of each chosen server of a draft.
func (a *draftAPI) tryLocked(d *draft, t *target) *Problem {
	var starts []*draftServer
	chosen := 0
	for _, x := range d.servers {
		if !x.use {
			continue
		}
		if chosen++; x.trial == nil || x.over() {
			x.trial = &Trial{State: trialWaiting, Steps: []HandshakeStep{}}
			starts = append(starts, x)
		}
	}
	if chosen == 0 {
		return &Problem{Type: "nothing-chosen", Title: "No server is chosen", Status: http.StatusConflict, Detail: "Choose at least one server of the draft."}
	}
	for _, x := range starts {
		var server config.Server
		var failed *failure.Failure
		if t.home != nil {
			server, failed = t.home.resolve(t, x, d.values)
		} else {
			server, failed = t.resolve(x, t.env(a.env, d.values), a.secrets)
		}
		if failed != nil {
			x.end(d, trialFailed, runtime.Trial{Failure: failed})
			continue
		}
		ctx, cancel := context.WithCancel(context.Background())
		x.cancel = cancel
		if !a.drafts.work.Go(func() { defer cancel(); a.perform(ctx, d, x, server) }) {
			cancel()
			x.end(d, trialCancelled, runtime.Trial{})
		}
	}
	return nil
}

// judge does nothing until the trials of all chosen servers have ended. Then it deselects each
// server whose trial has failed, if at least one server has connected. A server that only needs the
// value of a variable stays selected.
func (d *draft) judge() {
	connected := false
	for _, x := range d.servers {
		if x.use && x.trial != nil {
			if !x.over() {
				return
			}
			connected = connected || x.trial.State == trialConnected
		}
	}
	for _, x := range d.servers {
		if x.trial != nil && connected && x.trial.Failure != nil && x.trial.Failure.Class != failure.MissingVariable {
			x.use = false
		}
	}
}

// perform waits for a slot and then tries a server. ctx ends if the trial is cancelled.
func (a *draftAPI) perform(ctx context.Context, d *draft, x *draftServer, server config.Server) {
	end := func(state string, r runtime.Trial) {
		a.drafts.mu.Lock()
		defer a.drafts.mu.Unlock()
		x.end(d, state, r)
	}
	select {
	case a.drafts.trying <- struct{}{}:
		defer func() { <-a.drafts.trying }()
	case <-ctx.Done():
		end(trialCancelled, runtime.Trial{})
		return
	}
	now := time.Now().UTC()
	a.drafts.mu.Lock()
	x.trial.State, x.trial.Started = trialRunning, &now
	a.drafts.mu.Unlock()
	log := a.log.With("server", server.Name)
	log.Info("trying a server before adding it", whatStarts(server)...)
	server.StartTimeout = max(server.StartTimeout, trialStart)
	limited, stop := context.WithTimeoutCause(ctx, server.StartTimeout+trialLists, errTrialTimeout)
	defer stop()
	result := a.project.Try(limited, server)
	took := slog.Duration("took", time.Since(now).Round(time.Millisecond))
	switch {
	case result.Failure == nil:
		log.Info("the trial of a server has ended", "outcome", trialConnected, "revision", result.Report.Revision.String(), took)
		end(trialConnected, result)
	case ctx.Err() != nil:
		log.Info("the trial of a server has ended", "outcome", trialCancelled, took)
		end(trialCancelled, runtime.Trial{Report: result.Report, Clean: result.Clean})
	default:
		log.Info("the trial of a server has ended", append([]any{"outcome", trialFailed, took}, result.Failure.Attrs()...)...)
		end(trialFailed, result)
	}
}

// whatStarts returns the program or the host of a server as attributes of a log record. It leaves
// out the arguments and the rest of the URL, because they may contain secrets.
func whatStarts(server config.Server) []any {
	if server.Command != "" {
		return []any{"command", excerpt.Line(excerpt.MaskSecrets(server.Command), maxName)}
	}
	if u, err := url.Parse(server.URL); err == nil {
		return []any{"host", excerpt.Line(u.Host, maxName)}
	}
	return nil
}

// end stores the result of a trial that has ended.
func (x *draftServer) end(d *draft, state string, r runtime.Trial) {
	now := time.Now().UTC()
	clean := r.Clean
	if clean == nil {
		clean = excerpt.MaskSecrets
	}
	t := x.trial
	t.State, t.Ended, t.Failure, t.Server, t.Transport = state, &now, r.Failure, infoText(r.Info, clean), r.Report.Transport
	if steps := stepsOf(r.Report.Steps, clean); steps != nil {
		t.Steps = steps
	}
	if r.Report.Revision != mcp.Unknown {
		t.Revision, t.Era = r.Report.Revision.String(), r.Report.Revision.Era()
	}
	if state == trialConnected {
		for method, to := range map[string]**int{mcp.MethodListTools: &t.Tools, mcp.MethodListResources: &t.Resources, mcp.MethodListTemplates: &t.Templates, mcp.MethodListPrompts: &t.Prompts} {
			if n, ok := r.Counts[method]; ok {
				*to = &n
			}
		}
	}
	d.judge()
}

// infoText returns the name and the version from an Implementation object.
func infoText(info []byte, clean func(string) string) string {
	whole := jsonrpc.Whole(info)
	part := func(key string) string {
		text, _ := jsonrpc.Text(info, jsonrpc.Find(info, whole, key))
		return text
	}
	text := part("name")
	if v := part("version"); v != "" {
		text += " " + v
	}
	return excerpt.Line(clean(text), maxName)
}

// invalid is the failure of a server whose entry can't be used.
func (x *draftServer) invalid(text string) *failure.Failure {
	return &failure.Failure{Class: failure.CannotStart, Server: x.name, Sentence: "the entry of server " + excerpt.Quote(x.name, maxName) + " is not valid: " + excerpt.Line(excerpt.MaskSecrets(text), maxDraftText), Action: "correct the entry, then paste the text or choose the file again"}
}

// resolve returns the settings that a server of a draft will have in the configuration. If the
// server cannot be used, resolve returns the failure. It does not start the server.
func (t *target) resolve(x *draftServer, env intake.Env, secrets config.Secrets) (config.Server, *failure.Failure) {
	add := []clientfile.Added{{Name: x.name, Entry: x.server.Entry, Settings: x.server.Settings}}
	b, err := clientfile.AddServersTo(t.path, t.before, t.project, add)
	var s *config.Snapshot
	var problems config.Problems
	if err == nil {
		if s, _ = config.ParseWith(t.path, b, env, secrets); s != nil {
			s = intake.ServersOf(s, t.project)
		}
	}
	if s == nil { // the file is not a configuration of Dragoman, or already has a server of this name
		if b, err = clientfile.AddServersTo("add.yaml", nil, t.project, add); err == nil {
			s, problems = config.ParseWith(filepath.Join(filepath.Dir(t.path), "add.yaml"), b, env, secrets)
			if err = problems.Err(); s != nil {
				s = intake.ServersOf(s, t.project)
			}
		}
	}
	if s == nil && err == nil {
		err = errors.New("the project cannot be used with it")
	}
	if s == nil {
		text := err.Error()
		var e *config.Error
		if errors.As(err, &e) {
			text = e.Problems[0].Path + " " + e.Problems[0].Text
		}
		return config.Server{}, x.invalid(text)
	}
	c, ok := s.Server(x.name)
	switch {
	case !ok:
		return c, x.invalid("the settings of the server cannot be read")
	case c.Unusable != nil:
		f := runtime.UnusableFailure(*c.Unusable)
		if v := c.Unusable.Variable; v != "" {
			f.Action = "enter a value for " + v + " above, and test again"
		}
		return c, f
	}
	c.Disabled = false
	return c, nil
}
