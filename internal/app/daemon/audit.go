package daemon

import (
	"net/http"
	"path/filepath"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/relay/calls"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
	"github.com/dragoman-mcp/dragoman/internal/team/audit"
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
	d.trail = audit.New(x)
	if o.Gate.Audit == nil {
		o.Gate.Audit = d.trail
	}
	e.gate.Tell(d.denied)
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
