package matrix

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/workbench/fake"
)

func playProgress(ctx context.Context, t *talk) error {
	r, err := t.tool(ctx, "wait", `{"steps":3,"ms":1}`, fake.CallOptions{Progress: true})
	if err != nil {
		return err
	}
	if err := same("what wait says", textOf(r.Result), "waited"); err != nil {
		return err
	}
	return t.checkSteps(r.Progress, 3)
}

// checkSteps expects every progress step of the tool wait, in order and with its message.
func (t *talk) checkSteps(notices []fake.Notice, steps int) error {
	var got, want []string
	for i := 1; i <= steps; i++ {
		line := fmt.Sprintf("%d of %d", i, steps)
		if t.Server.Can(mcp.ProgressMessages) && t.Client.Can(mcp.ProgressMessages) {
			line += fmt.Sprintf(`, "step %d of %d"`, i, steps)
		}
		want = append(want, line)
	}
	for _, n := range notices {
		line := member(n.Params, "progress") + " of " + member(n.Params, "total")
		if words := member(n.Params, "message"); words != "" && t.Client.Can(mcp.ProgressMessages) {
			line += ", " + words
		}
		got = append(got, line)
	}
	return same("the progress", strings.Join(got, "; "), strings.Join(want, "; "))
}

func playCancellation(ctx context.Context, t *talk) error {
	before, err := t.cancelled(ctx)
	if err != nil {
		return err
	}
	running, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	wanted := errors.New("the client no longer wants the result")
	// Cancel the call after its first progress notification: then the server has certainly received
	// the call.
	_, err = t.tool(running, "wait", `{"steps":1000,"ms":50}`, fake.CallOptions{
		Progress: true, OnProgress: func(fake.Notice) { cancel(wanted) },
	})
	if !errors.Is(err, wanted) {
		return fmt.Errorf("the client cancelled the call, but the call ended in another way: %w", err)
	}
	return until(ctx, func() (bool, error) {
		n, err := t.cancelled(ctx)
		return n > before, err
	})
}

// cancelled returns the number of cancelled calls that the server has counted.
func (t *talk) cancelled(ctx context.Context) (int, error) {
	r, err := t.tool(ctx, "cancelled", "{}", fake.CallOptions{})
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(textOf(r.Result))
}

func playLogging(ctx context.Context, t *talk) error {
	if !t.c.Offers("logging") {
		return errors.New("the server does not declare logging")
	}
	perRequest := t.Client.Can(mcp.PerRequestMeta)
	for _, level := range []string{"info", "error"} {
		o := fake.CallOptions{LogLevel: level}
		if !perRequest {
			o.LogLevel = ""
			if r, err := t.c.SetLevel(ctx, level); err != nil || r.Err != nil {
				return fmt.Errorf("cannot set the log level to %s: %w", level, errors.Join(err, asError(r)))
			}
		}
		after := t.c.Serial()
		r, err := t.tool(ctx, "log", `{"text":"at `+level+`"}`, o)
		if err != nil {
			return err
		}
		want := map[string]string{"info": `"info" "warning" "error"`, "error": `"error"`}[level]
		// On the stream of a session, notifications may arrive after the result.
		_, err = t.c.Await(ctx, after, func(n fake.Notice) bool {
			return n.Method == mcp.NoteMessage && member(n.Params, "level") == `"error"`
		})
		if err != nil {
			return fmt.Errorf("no log message of level error arrived: %w", err)
		}
		notices := r.Logs
		if !perRequest {
			notices = t.c.Notices()[after:]
		}
		var got []string
		for _, n := range notices {
			if n.Method != mcp.NoteMessage {
				continue
			}
			if err := errors.Join(
				same("the logger", member(n.Params, "logger"), `"fake"`),
				same("the text", member(n.Params, "data"), `"at `+level+`"`),
			); err != nil {
				return err
			}
			got = append(got, member(n.Params, "level"))
		}
		if err := same("the levels from "+level+" on", strings.Join(got, " "), want); err != nil {
			return err
		}
	}
	return nil
}

func asError(r *fake.Reply) error {
	if r == nil || r.Err == nil {
		return nil
	}
	return r.Err
}

// dropAfter is the number of events after which a server closes the stream of the tool wait.
// Only a wait with resumeSteps steps has so many events.
const (
	dropAfter   = "6"
	resumeSteps = 12
)

// playResume makes a call with streams that break. It breaks the stream on each side that can
// resume streams. The server closes the stream after dropAfter events. The client closes the stream
// after breakAt events.
func playResume(ctx context.Context, t *talk) error {
	const breakAt = 4
	o := fake.CallOptions{Progress: true}
	if unresumable(t.Client, t.ClientTransport) == "" {
		o.Break = breakAt
	}
	r, err := t.tool(ctx, "wait", fmt.Sprintf(`{"steps":%d,"ms":5}`, resumeSteps), o)
	if err != nil {
		return err
	}
	if err := same("what wait says", textOf(r.Result), "waited"); err != nil {
		return err
	}
	return t.checkSteps(r.Progress, resumeSteps)
}
