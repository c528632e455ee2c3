package daemon

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"maps"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/relay/event"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
	"github.com/dragoman-mcp/dragoman/internal/team/store"
	"github.com/dragoman-mcp/dragoman/internal/team/vault"
)

// secretsOf returns a look-up for the secrets of the projects. It finds what the store has when it's called.
func secretsOf(ctx context.Context, s *store.Safe) config.Secrets {
	if s == nil {
		return nil
	}
	return func(project, name string) (config.Secret, bool, error) { return s.Secret(ctx, project, name) }
}

// readSecrets reads the configuration file again if it refers to secrets, which the caller of Serve couldn't
// look up. It logs the problems that the caller couldn't know.
func (o *ServeOptions) readSecrets(ctx context.Context, log *slog.Logger) (err error) {
	o.read = sealedIn(o.store.Snapshot(), projectsOf(o.Config))
	if !o.Config.ReadsSecrets() {
		return nil
	}
	s, problems := config.LoadWith(o.Config.File, secretsOf(ctx, o.safe))
	if s == nil || o.Strict && problems.Err() != nil {
		return problems.Refusal(o.Strict)
	}
	if o.Extend != nil {
		if s, err = o.Extend(s); err != nil {
			return err
		}
	}
	warnProblems(log, newProblems(o.Problems, problems, config.Changes{}))
	o.Config, o.Problems = s, problems
	return nil
}

// reread reads the configuration file with its secrets. If the vault's key is not in order any more, the
// servers that need secrets couldn't be started, so the file is refused and they stay.
func (o *ServeOptions) reread(ctx context.Context) (*config.Snapshot, config.Problems) {
	s, problems := config.LoadWith(o.ConfigPath, secretsOf(ctx, o.safe))
	if s == nil || !s.ReadsSecrets() {
		return s, problems
	}
	err := o.safe.Check(ctx)
	if err == nil {
		return s, problems
	}
	p := config.Problem{File: o.ConfigPath, Text: "the secrets cannot be read: " + err.Error()}
	var v *vault.Error
	if errors.As(err, &v) {
		p.Hint = v.Next
	}
	return nil, config.Problems{p}
}

// sealedIn returns the sealed secrets of default and of others, the other projects of the file.
func sealedIn(s *store.Snapshot, others []string) map[string][]byte {
	all := map[string][]byte{}
	for _, project := range append(others, event.DefaultProject) {
		for name, value := range s.Sealed(project) {
			all[project+"\x00"+name] = value
		}
	}
	return all
}

// followSecrets calls changed when the sealed secrets that the file may name aren't those before, and after
// each further change, until ctx ends. others returns the projects of the file besides default.
func followSecrets(ctx context.Context, s *store.Store, others func() []string, before map[string][]byte, changed func()) {
	for {
		now := s.Snapshot()
		sealed := sealedIn(now, others())
		if !maps.EqualFunc(sealed, before, bytes.Equal) {
			changed()
		}
		before = sealed
		if !wait(ctx, now.Replaced(), time.Time{}) {
			return
		}
	}
}
