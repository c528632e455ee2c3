package daemon

import (
	"context"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/app/runtime"
	"github.com/dragoman-mcp/dragoman/internal/team/store"
)

// promptsIn returns runtime.Options.Prompts: what the newest snapshot of the store has, also while its database
// can't be read.
func promptsIn(s *store.Store) func(project string) []store.Prompt {
	if s == nil {
		return nil
	}
	return func(project string) []store.Prompt { return s.Snapshot().Prompts(project) }
}

// followPrompts tells the runtime when the store has other prompts, until ctx ends.
func followPrompts(ctx context.Context, s *store.Store, r *runtime.Runtime) {
	var before *store.Snapshot
	for {
		now := s.Snapshot()
		if !now.SamePrompts(before) {
			r.PromptsChanged()
		}
		before = now
		if !wait(ctx, now.Replaced(), time.Time{}) {
			return
		}
	}
}
