package config

import (
	"crypto/sha256"
	"reflect"
	"slices"
)

// serverSettings maps each field of Server to the name of its setting in the file. A field without
// its own setting maps to "".
var serverSettings = map[string]string{
	"Command": "command", "Args": "args", "Env": "env", "Dir": "cwd", "InheritEnv": "inheritEnv", "URL": "url",
	"Header": "headers", "Kind": "type", "CAFile": "caFile", "SignIn": "signIn", "Prefix": "prefix", "Unprefixed": "prefix", "Isolation": "isolation",
	"Revision": "revision", "Dialect": "dialect", "Profile": "dialect", "Lazy": "lazy", "Expose": "expose",
	"CallTimeout": "callTimeout", "CallMax": "callMax", "StartTimeout": "startTimeout", "Message": "message", "Ping": "ping",
	"Disabled": "disabled", "Unusable": "variables", "Shared": "use", "Also": "expose",
	"Hint": "hint", "TrustAnnotations": "trust",
	"Name": "", "Given": "", "Fingerprint": "",
}

// snapshotSettings maps each field of Snapshot to the name of its setting in the file. A field
// without its own setting maps to "". So do Servers and Projects, because Since compares these
// one by one.
var snapshotSettings = map[string]string{
	"Listen": "listen", "Identity": "server", "Revisions": "revisions", "InheritEnv": "inheritEnv", "EnvFile": "envFile",
	"Database": "database", "VaultKey": "vault.key", "SealKeys": "sealKeys", "Cluster": "cluster",
	"Separator": "names.separator", "Limits": "limits", "PublicURL": "publicURL", "TLS": "tls", "Hosts": "allowedHosts",
	"Origins": "allowedOrigins", "Log": "log", "Traces": "telemetry.traces", "Console": "console", "Record": "record", "Audit": "audit", "Dialects": "dialects",
	"AllowUnauthenticatedNetworkAccess": "allowUnauthenticatedNetworkAccess",
	"Access":                            "access",
	"Egress":                            "egress.allow",
	"Expose":                            "expose",
	"Policy":                            "policy",
	"House":                             "policy",
	"HouseTraffic":                      "limits",
	"Pins":                              "pins",
	"Questions":                         "questions",
	"Tools":                             "tools",
	"File":                              "", "Empty": "", "Servers": "", "Projects": "",
}

// Changes is the difference between a configuration and an older one. Removed is in the order of
// the older file. The other lists of servers are in the order of the newer file. A server that was
// disabled before is ignored, or Added if it's enabled now.
type Changes struct {
	Added, Removed, Disabled, Kept []string // names of servers
	Changed                        []ServerChange
	Settings                       []string // names of changed settings outside the servers, in the order of the fields of Snapshot
}

// ServerChange lists the settings of a server that have changed.
type ServerChange struct {
	Name     string
	Settings []string // the names of the settings in the file
	Restart  bool     // the server must be restarted
}

// Since returns the difference between s and an older configuration.
func (s *Snapshot) Since(old *Snapshot) (c Changes) {
	s, old = s.unplaced(), old.unplaced()
	before := old.enabled()
	for _, x := range s.Servers {
		was, ok := before[x.Name]
		switch {
		case x.Disabled && ok:
			c.Disabled = append(c.Disabled, x.Name)
		case x.Disabled:
		case !ok:
			c.Added = append(c.Added, x.Name)
		case reflect.DeepEqual(*was, x):
			c.Kept = append(c.Kept, x.Name)
		default:
			c.Changed = append(c.Changed, ServerChange{x.Name, differences(*was, x, serverSettings), was.Fingerprint != x.Fingerprint})
		}
	}
	for _, x := range old.Servers {
		if _, ok := s.Server(x.Name); !ok && !x.Disabled {
			c.Removed = append(c.Removed, x.Name)
		}
	}
	c.Settings = differences(*old, *s, snapshotSettings)
	return c
}

// unplaced returns a copy of the snapshot that has only what the file says, and whose problems don't say
// where in it they are. A line that was inserted above a server doesn't change the server.
func (s *Snapshot) unplaced() *Snapshot {
	out := *s
	out.secrets, out.Projects, out.content = nil, slices.Clone(s.Projects), [sha256.Size]byte{}
	for i := range out.Projects {
		out.Projects[i] = out.Projects[i].unplaced()
	}
	out.Servers = slices.Clone(s.Servers)
	for i := range out.Servers {
		out.Servers[i].vaultKey = "" // changes with dragoman.vault.key
		if p := out.Servers[i].Unusable; p != nil {
			q := p.Unplaced()
			out.Servers[i].Unusable = &q
		}
	}
	return &out
}

// enabled returns the enabled servers, by name.
func (s *Snapshot) enabled() map[string]*Server {
	out := make(map[string]*Server)
	for i := range s.Servers {
		if !s.Servers[i].Disabled {
			out[s.Servers[i].Name] = &s.Servers[i]
		}
	}
	return out
}

// differences compares the exported fields of two structs of the same type. For each field that
// differs, it returns the name of the setting to which names maps the field. It ignores fields that
// names maps to "".
func differences(a, b any, names map[string]string) (out []string) {
	x, y := reflect.ValueOf(a), reflect.ValueOf(b)
	for i := range x.NumField() {
		f := x.Type().Field(i)
		name := names[f.Name]
		if !f.IsExported() || name == "" || len(out) > 0 && out[len(out)-1] == name {
			continue
		}
		if !reflect.DeepEqual(x.Field(i).Interface(), y.Field(i).Interface()) {
			out = append(out, name)
		}
	}
	return out
}
