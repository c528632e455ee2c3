package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/base/screen"
	"github.com/dragoman-mcp/dragoman/internal/workbench/fake"
)

// fakeClientArgs checks the arguments of the command fake --client PROFILE.
func fakeClientArgs(c *cobra.Command, profile string, args []string) error {
	p, ok := fake.Lookup(fake.ClientSide, profile)
	if !ok {
		return usagef(nearProfile(fake.ClientSide, profile), "unknown client profile %q", profile)
	}
	command, address, err := oneTarget(c, args, "dragoman fake --client "+clean(profile))
	if err != nil {
		return err
	}
	if err := p.Reaches(fake.Where{Command: command, URL: address}); err != nil {
		return usagef("use a URL instead of a command, or a command after -- instead of a URL", "%s", err)
	}
	return nil
}

// fakeClient runs a fake client against a server and prints the result of each step.
func (c *fakeCommand) fakeClient(ctx context.Context, at fake.Where, o fake.Options) error {
	co := fake.ClientOptions{Capture: o.Capture, Version: o.Version, Stderr: &childLines{c.status, "server"}, Set: o.Set}
	if err := fake.CheckClient(c.client, o.Set); err != nil {
		return usagef("run `dragoman fake --list --json` to list the settings of each profile", "%s", err)
	}
	var found []fake.Finding
	violations, err := fake.Play(ctx, c.client, at, co, func(f fake.Finding) {
		found = append(found, f)
		if !c.asJSON && ctx.Err() == nil {
			mark := "ok"
			if f.Bad {
				mark = "BAD"
			}
			_, _ = fmt.Fprintf(c.stdout, "%-4s %s %s\n", mark, screen.Pad(f.Step, 25), clean(f.Detail))
		}
	})
	if ctx.Err() != nil {
		return signalOr(ctx, context.Cause(ctx))
	}
	if err != nil {
		return withHint(err, "use `dragoman run` to connect a client and a server of different revisions")
	}
	bad := len(violations)
	for _, f := range found {
		if f.Bad {
			bad++
		}
	}
	if c.asJSON {
		if _, err := c.stdout.Write(surveyJSON(c.client, found, violations)); err != nil {
			return err
		}
	} else {
		for _, v := range violations {
			_, _ = fmt.Fprintf(c.stdout, "BAD  violation: %s\n", clean(v))
		}
	}
	if bad > 0 {
		return fmt.Errorf("the client profile %s found problems: %d", c.client, bad)
	}
	return nil
}

func surveyJSON(profile string, found []fake.Finding, violations []string) []byte {
	out := jsonrpc.AppendQuote([]byte(`{"profile":`), profile)
	out = append(out, `,"steps":[`...)
	for i, f := range found {
		if i > 0 {
			out = append(out, ',')
		}
		out = jsonrpc.AppendQuote(append(out, `{"step":`...), f.Step)
		outcome := "ok"
		if f.Bad {
			outcome = "bad"
		}
		out = jsonrpc.AppendQuote(append(out, `,"outcome":`...), outcome)
		out = append(jsonrpc.AppendQuote(append(out, `,"detail":`...), f.Detail), '}')
	}
	out = jsonrpc.AppendStrings(append(out, `],"violations":`...), violations)
	return append(out, "}\n"...)
}
