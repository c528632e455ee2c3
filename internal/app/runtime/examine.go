package runtime

import (
	"context"
	"fmt"
	"net/http"
	"net/url"

	"github.com/dragoman-mcp/dragoman/internal/relay/upstream"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
	"github.com/dragoman-mcp/dragoman/internal/transport"
	"github.com/dragoman-mcp/dragoman/internal/transport/httplink"
	"github.com/dragoman-mcp/dragoman/internal/transport/stdio"
	"github.com/dragoman-mcp/dragoman/internal/workbench/doctor"
)

// DoctorTarget returns a configured server as a target of package doctor. Package doctor opens its
// own connections and does not use the connections of clients. allow is the setting egress.allow.
func DoctorTarget(s config.Server, allow []string) (doctor.Target, error) {
	t := doctor.Target{Allow: allow, Secrets: s.Secrets(), Dialect: s.Profile, Name: s.Name, Given: s.Given, Program: s.Command, Args: s.Args}
	env := map[string]string{}
	for k, v := range s.Env {
		env[k] = v.Reveal()
	}
	if s.URL == "" {
		t.Start = doctor.Command(stdio.Spec{Command: s.Command, Args: s.Args, Env: stdio.Environ(env, s.Inherits), Dir: s.Dir})
		return t, nil
	}
	var err error
	if t.CAs, err = httplink.LoadCAs(s.CAFile); err != nil {
		return t, err
	}
	if t.URL, err = url.Parse(s.URL); err != nil {
		return t, fmt.Errorf("the URL of server %q is not valid", s.Name) // do not return err, because err contains the URL
	}
	t.Header = http.Header{}
	near := httplink.Options{CAs: t.CAs}
	for _, h := range s.Header {
		t.Header.Add(h.Name, h.Value.Reveal())
		near.Header = append(near.Header, transport.HeaderField{Name: h.Name, Value: h.Value.Reveal()})
	}
	t.Look = func(ctx context.Context) []string { return upstream.Endpoints(ctx, s.URL, near) }
	return t, nil
}
