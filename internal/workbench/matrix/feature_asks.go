package matrix

import (
	"context"
	"errors"
	"fmt"

	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/workbench/fake"
)

const form = "accept Ada 36" // the tool result after fake.Obliging has answered the form

func playSampling(ctx context.Context, t *talk) error {
	return errors.Join(
		t.says(ctx, "sample", `{"prompt":"six times seven?"}`, "sampled: six times seven?"),
		t.says(ctx, "ask_twice", "{}", "sampled: Say something.; sampled: You said: sampled: Say something."),
	)
}

func playRoots(ctx context.Context, t *talk) error {
	return t.says(ctx, "roots", "{}", fake.ObligingRoot)
}

func playForm(ctx context.Context, t *talk) error {
	return errors.Join(
		t.says(ctx, "elicit", "{}", form),
		t.says(ctx, "ask_all", "{}", "sampled: Say something.; "+form+"; "+fake.ObligingRoot),
	)
}

// playRichForm checks a form with fields that 2025-06-18 does not allow. The server gets the same
// answer from clients of all revisions.
func playRichForm(ctx context.Context, t *talk) error {
	return t.says(ctx, "elicit_rich", "{}", `accept color="#f00" sizes=["s"] tags=["wet","dry"] name="Ada" age=36 gloss=true`)
}

func playURL(ctx context.Context, t *talk) error {
	return t.says(ctx, "elicit_url", "{}", "accept")
}

func lostForm(ctx context.Context, t *talk) error {
	return t.notAsked(ctx, "elicit", t.Server.Can(mcp.Elicitation))
}

func lostRichForm(ctx context.Context, t *talk) error {
	switch {
	case !t.Server.Can(mcp.RichForms):
		return nil
	case t.Client.Can(mcp.Elicitation):
		return playRichForm(ctx, t) // the form works; only the limits and some default values are lost
	}
	return t.notAsked(ctx, "elicit_rich", true)
}

func lostURL(ctx context.Context, t *talk) error {
	return t.notAsked(ctx, "elicit_url", t.Server.Can(mcp.URLElicitation))
}

// notAsked calls a tool that needs a capability that the client does not have. The client must get
// an error and no server request. The parameter there says whether the server has the tool. If it
// is false, notAsked does nothing.
func (t *talk) notAsked(ctx context.Context, tool string, there bool) error {
	if !there {
		return nil
	}
	before := len(t.c.Asks())
	r, err := t.c.Call(ctx, "tools/call", []byte(toolParams(tool, "{}")), fake.CallOptions{})
	if err != nil {
		return fmt.Errorf("%s: %w", tool, err)
	}
	if asks := t.c.Asks(); len(asks) > before {
		return fmt.Errorf("%s: the client got a %s request, although the client did not declare the capability for it", tool, asks[before].Method)
	}
	if r.Err == nil && member(r.Result, "isError") != "true" {
		return fmt.Errorf("%s: the call succeeded, although the client cannot answer server requests: %s", tool, clip(string(r.Result)))
	}
	return nil
}
