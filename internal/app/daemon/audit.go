package daemon

import (
	"context"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/base/work"
	"github.com/dragoman-mcp/dragoman/internal/relay/calls"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
	"github.com/dragoman-mcp/dragoman/internal/team/audit"
	"github.com/dragoman-mcp/dragoman/internal/team/cluster"
	"github.com/dragoman-mcp/dragoman/internal/team/store"
	"github.com/dragoman-mcp/dragoman/internal/transport/httpdoor"
)

// openTrail makes the audit the auditor of all requests, unless a test has one of its own, and lets the gate tell it of
// whom it turns away.
func (d *daemon) openTrail(o *ServeOptions, e *entry) {
	d.audit.Store(&o.Config.Audit)
	x := audit.Options{Settings: d.auditSettings, Store: o.store, Log: d.log, Clean: func(project string) func(string) string { return d.clean(project, "") }, Masker: d.masker}
	if beside := vaultFile(o); beside != "" {
		x.Folder = filepath.Join(filepath.Dir(beside), "audit")
	}
	if o.safe != nil && strings.Contains(o.Config.Database, "://") {
		x.Heads = func(ctx context.Context) ([]audit.Head, error) {
			return auditHeads(ctx, o.safe, o.Config.Database, o.clusterSchema())
		}
	}
	d.trail = audit.New(x)
	if o.Gate.Audit == nil {
		o.Gate.Audit = d.trail
	}
	e.gate.Tell(d.denied)
}

// auditHeads returns the heads of the audits of all replicas that a store has had. This process need not be one of them.
func auditHeads(ctx context.Context, safe *store.Safe, database, schema string) (out []audit.Head, err error) {
	secret, ok, err := safe.OfHouse(ctx, sealName)
	if err != nil || !ok {
		return nil, err
	}
	code, err := rowsKey(secret.Reveal())
	if err != nil {
		return nil, err
	}
	all, err := cluster.Heads(ctx, cluster.Options{Database: database, Schema: schema, Secret: code})
	for _, h := range all {
		out = append(out, audit.Head{Trail: h.Trail, File: h.File, Seq: h.Seq, Sum: h.Sum, False: !h.Genuine})
	}
	return out, err
}

// anchorEvery is how often a replica keeps the head of its audit in the database.
const anchorEvery = 10 * time.Second

// anchorAudit does so until ctx ends, while there are new lines. One that could not be kept is kept with the next.
func (d *daemon) anchorAudit(ctx context.Context, every time.Duration) {
	for kept := int64(0); work.Sleep(ctx, every) == nil; {
		h, ok := d.trail.Head()
		if ok && h.Seq != kept && d.opts.replicas.Anchor(ctx, cluster.Head{Trail: h.Trail, File: h.File, Seq: h.Seq, Sum: h.Sum}) == nil {
			kept = h.Seq
		}
	}
}

// denied is access.Denials.
func (d *daemon) denied(r *http.Request, why string, who *identity.Principal) {
	d.trail.Deny(why, httpdoor.Remote(r), who)
}

// auditSettings returns what the audit does now. It's on by itself as soon as not everybody is the local user.
func (d *daemon) auditSettings() audit.Settings {
	a := d.audit.Load()
	s := audit.Settings{Refuse: a.Refuses(), Size: int64(a.FileSize), Files: a.Files}
	switch {
	case a.Calls == config.AuditArguments:
		s.Level = audit.Arguments
	case a.Calls == config.AuditNames, a.Calls == config.AuditAuto && (d.gate.Keys().Any() || !d.gate.Open()):
		s.Level = audit.Names
	}
	return s
}

// masker returns what masks the secrets of a project in the arguments of a call.
func (d *daemon) masker(project string) func(raw []byte) []byte {
	var known []string
	if r := d.masks.Load(); r != nil {
		if p := r.Project(project); p != nil {
			known = p.Secrets()
		}
	}
	m := calls.NewMasker(known)
	return func(raw []byte) []byte {
		masked, _ := m.Message(raw)
		return masked
	}
}
