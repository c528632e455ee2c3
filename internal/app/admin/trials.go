package admin

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"path/filepath"
	"sync"
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
	Started   *time.Time       `json:"started,omitempty" doc:"when the trial started; left out while the trial waits"`
	Ended     *time.Time       `json:"ended,omitempty" doc:"when the trial ended; left out while the trial waits or runs"`
	Revision  string           `json:"revision,omitempty" doc:"the protocol revision that Dragoman and the server agreed on; left out if they have not agreed on a revision"`
	Era       string           `json:"era,omitempty" doc:"legacy or modern; left out if the revision is not known"`
	Transport string           `json:"transport,omitempty" doc:"stdio, http or sse; left out if the transport is not known"`
	Server    string           `json:"server,omitempty" doc:"what the server calls itself, with its version"`
	Steps     []HandshakeStep  `json:"steps" doc:"the steps of the handshake, with their messages"`
	Tools     *int             `json:"tools,omitempty" doc:"number of tools; left out if Dragoman has not read the list"`
	Resources *int             `json:"resources,omitempty" doc:"number of resources; left out if Dragoman has not read the list"`
	Templates *int             `json:"templates,omitempty" doc:"number of resource templates; left out if Dragoman has not read the list"`
	Prompts   *int             `json:"prompts,omitempty" doc:"number of prompts; left out if Dragoman has not read the list"`
	Failure   *failure.Failure `json:"failure,omitempty" doc:"why the server cannot be used; only for the state failed"`
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
	trialStart = time.Minute      // the minimum timeout for the start of the server; npx may have to download a package first
	trialLists = 30 * time.Second // the timeout for reading the lists
	trialStop  = 3 * time.Second  // how long the server may take to exit by itself
)

var (
	errTrialCancelled = errors.New("the trial was cancelled")
	errTrialTimeout   = errors.New("the trial has reached its timeout")
)

// trial is a trial that waits, runs or has ended.
type trial struct {
	cancel context.CancelCauseFunc

	mu   sync.Mutex
	show Trial
}

func (x *trial) snapshot() Trial {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.show
}

func (x *trial) set(change func(*Trial)) {
	x.mu.Lock()
	defer x.mu.Unlock()
	change(&x.show)
}

// over reports whether the trial has ended. It returns false if x is nil.
func (x *trial) over() bool { return x != nil && x.snapshot().Ended != nil }

// slots limits how many trials or requests run at the same time. The zero value is ready to use.
type slots struct {
	once sync.Once
	free chan struct{}
}

// take waits for a free slot and takes the slot. ok is false if ctx ends first. release frees the
// slot. most is the number of slots, and must be the same in all calls.
func (s *slots) take(ctx context.Context, most int) (release func(), ok bool) {
	s.once.Do(func() { s.free = make(chan struct{}, most) })
	select {
	case s.free <- struct{}{}:
		return func() { <-s.free }, true
	case <-ctx.Done():
		return nil, false
	}
}

// TryDraft starts a trial of each chosen server of a draft.
func (a *API) TryDraft(id string, q Choice) (Draft, *Problem) {
	d, bad := a.drafts.find(id)
	if bad == nil {
		bad = d.choose(q)
	}
	if bad != nil {
		return Draft{}, bad
	}
	t := a.target()
	type start struct {
		x      *trial
		ctx    context.Context
		server config.Server
		failed *failure.Failure
	}
	var starts []start
	d.mu.Lock()
	chosen := 0
	for _, x := range d.servers {
		if !x.use || d.ended {
			continue
		}
		if chosen++; x.trial != nil && !x.trial.over() {
			continue
		}
		server, failed := t.resolve(x, t.env(a.env, d.values))
		ctx, cancel := context.WithCancelCause(context.Background())
		x.trial = &trial{cancel: cancel, show: Trial{State: trialWaiting, Steps: []HandshakeStep{}}}
		starts = append(starts, start{x.trial, ctx, server, failed})
	}
	d.mu.Unlock()
	if chosen == 0 {
		return Draft{}, &Problem{Type: "nothing-chosen", Title: "No server is chosen", Status: http.StatusConflict, Detail: "Choose at least one server of the draft."}
	}
	for _, s := range starts {
		switch {
		case s.failed != nil:
			s.x.cancel(nil)
			s.x.end(trialFailed, runtime.Trial{Failure: s.failed})
		case !a.drafts.work.Go(func() {
			defer s.x.cancel(nil)
			a.perform(s.ctx, s.x, s.server)
		}):
			s.x.cancel(nil)
			s.x.end(trialCancelled, runtime.Trial{})
		}
	}
	return d.show(a), nil
}

// judgeLocked does nothing until the trials of all chosen servers have ended. Then it deselects
// each server whose trial has failed, if at least one server has connected. A server that only
// needs the value of a variable stays selected. judgeLocked judges each trial only once.
func (d *draft) judgeLocked() {
	connected := false
	for _, x := range d.servers {
		if !x.use || x.trial == nil {
			continue
		}
		if !x.trial.over() {
			return
		}
		connected = connected || x.trial.snapshot().State == trialConnected
	}
	for _, x := range d.servers {
		if x.trial == nil || x.judged == x.trial {
			continue
		}
		x.judged = x.trial
		if f := x.trial.snapshot().Failure; connected && f != nil && f.Class != failure.MissingVariable {
			x.use = false
		}
	}
}

// CancelTrials cancels the trials of a draft.
func (a *API) CancelTrials(id string) (Draft, *Problem) {
	d, bad := a.drafts.find(id)
	if bad != nil {
		return Draft{}, bad
	}
	d.mu.Lock()
	for _, x := range d.servers {
		if x.trial != nil {
			x.trial.cancel(errTrialCancelled)
		}
	}
	d.mu.Unlock()
	return d.show(a), nil
}

// perform waits for a slot and then tries a server.
func (a *API) perform(ctx context.Context, x *trial, server config.Server) {
	release, ok := a.drafts.trying.take(ctx, mostTrials)
	if !ok {
		x.end(trialCancelled, runtime.Trial{})
		return
	}
	defer release()
	now := time.Now().UTC()
	x.set(func(t *Trial) { t.State, t.Started = trialRunning, &now })
	log := a.opts.Log.With("server", server.Name)
	log.Info("trying a server before it is added", whatStarts(server)...)
	server.StartTimeout = max(server.StartTimeout, trialStart)
	ctx, stop := context.WithTimeoutCause(ctx, server.StartTimeout+trialLists, errTrialTimeout)
	defer stop()
	o := runtime.TrialOptions{Server: server, Version: a.opts.Version, Stop: trialStop}
	if s := a.opts.Runtime.Current(); s != nil {
		o.Dialects = s.Look()
	}
	result := runtime.Try(ctx, o)
	took := slog.Duration("took", time.Since(now).Round(time.Millisecond))
	switch {
	case result.Failure == nil:
		log.Info("the trial of a server has ended", "outcome", trialConnected, "revision", result.Report.Revision.String(), took)
		x.end(trialConnected, result)
	case cancelled(ctx):
		log.Info("the trial of a server has ended", "outcome", trialCancelled, took)
		x.end(trialCancelled, runtime.Trial{Report: result.Report, Clean: result.Clean})
	default:
		log.Info("the trial of a server has ended", append([]any{"outcome", trialFailed, took}, result.Failure.Attrs()...)...)
		x.end(trialFailed, result)
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
func (x *trial) end(state string, r runtime.Trial) {
	now := time.Now().UTC()
	clean := r.Clean
	if clean == nil {
		clean = excerpt.MaskSecrets
	}
	steps := stepsOf(r.Report.Steps, clean)
	name := infoText(r.Info, clean)
	x.set(func(t *Trial) {
		t.State, t.Ended, t.Failure, t.Server = state, &now, r.Failure, name
		if steps != nil {
			t.Steps = steps
		}
		if r.Report.Revision != mcp.Unknown {
			t.Revision, t.Era = r.Report.Revision.String(), r.Report.Revision.Era()
		}
		if t.Transport = r.Report.Transport; state != trialConnected {
			return
		}
		for method, to := range map[string]**int{mcp.MethodListTools: &t.Tools, mcp.MethodListResources: &t.Resources, mcp.MethodListTemplates: &t.Templates, mcp.MethodListPrompts: &t.Prompts} {
			if n, ok := r.Counts[method]; ok {
				*to = &n
			}
		}
	})
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

// resolve returns the settings that a server of a draft will have in the configuration. If the
// server cannot be used, resolve returns the failure. It does not start the server.
func (t *target) resolve(x *draftServer, env intake.Env) (config.Server, *failure.Failure) {
	invalid := func(text string) *failure.Failure {
		return &failure.Failure{Class: failure.CannotStart, Server: x.name, Sentence: "the entry of server " + excerpt.Quote(x.name, maxName) + " is not valid: " + excerpt.Line(excerpt.MaskSecrets(text), maxDraftText), Action: "correct the entry, then paste the text or choose the file again"}
	}
	add := []clientfile.Added{{Name: x.name, Entry: x.server.Entry, Settings: x.server.Settings}}
	b, err := clientfile.AddServers(t.path, t.before, add)
	var s *config.Snapshot
	if err == nil {
		s, _ = config.Parse(t.path, b, env)
	}
	if s == nil { // the file is not a configuration of Dragoman, or already has a server of this name
		if b, err = clientfile.AddServers("add.yaml", nil, add); err != nil {
			return config.Server{}, invalid(err.Error())
		}
		var problems config.Problems
		if s, problems = config.Parse(filepath.Join(filepath.Dir(t.path), "add.yaml"), b, env); s == nil {
			bad := problems.Err()
			var e *config.Error
			if errors.As(bad, &e) {
				return config.Server{}, invalid(e.Problems[0].Path + " " + e.Problems[0].Text)
			}
			return config.Server{}, invalid("the settings of the server cannot be read")
		}
	}
	c, ok := s.Server(x.name)
	switch {
	case !ok:
		return c, invalid("the settings of the server cannot be read")
	case c.Unusable != nil:
		f := runtime.UnusableFailure(*c.Unusable)
		f.Action = "enter a value for " + c.Unusable.Variable + " above, and test again"
		return c, f
	}
	c.Disabled = false
	return c, nil
}
