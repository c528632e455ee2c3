package fake

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// Finding is the outcome of one step of a survey.
type Finding struct {
	Step   string
	Detail string // the result, or the fault if Bad is set
	Bad    bool
}

// Limits of a survey.
const (
	maxSurveyed = 20  // the maximum number of items of one list that a survey tries
	maxPages    = 200 // the maximum number of pages of one list
)

// Survey tries all requests without side effects: lists, reads, prompts, completions,
// subscriptions, requests that the server must refuse, and the tools that are read-only and need no
// arguments. Survey calls done after each step. The setting "step" limits the time of each step.
// When ctx ends, Survey ends the conversation and reports the remaining steps as not tried. The
// method Violations returns the server's violations.
func (c *Client) Survey(ctx context.Context, done func(Finding)) {
	v := survey{c: c}
	free := context.AfterFunc(ctx, func() { c.hangUp(context.Cause(ctx)) })
	defer free()
	for _, s := range []struct {
		name, needs string // the server must offer needs, unless needs is ""
		play        func(context.Context) (string, error)
	}{
		{"tools/list", "tools", v.tools}, {"tools/call", "", v.callTools},
		{"resources/list", "resources", v.resources}, {"resources/templates/list", "resources", v.templates}, {"resources/read", "", v.reads},
		{"prompts/list", "prompts", v.prompts}, {"prompts/get", "", v.gets}, {"completion/complete", "", v.completes},
		{"subscriptions", "", v.subscribes}, {"logging", "logging", v.logs}, {"ping", "", v.pings},
		{"a wrong cursor", "tools", v.wrongCursor}, {"an unknown tool", "tools", v.unknownTool}, {"an unknown method", "", v.unknownMethod},
		{"what was not offered", "", v.unoffered},
	} {
		if s.name == "what was not offered" && !c.habits.unoffered {
			continue
		}
		if ctx.Err() != nil {
			done(Finding{Step: s.name, Detail: "not tried: " + context.Cause(ctx).Error(), Bad: true})
			continue
		}
		if s.needs != "" && !v.c.Offers(s.needs) {
			done(Finding{Step: s.name, Detail: notOffered})
			continue
		}
		step, cancel := context.WithTimeoutCause(ctx, c.step, fmt.Errorf("no answer within %s", c.step))
		detail, err := s.play(step)
		cancel()
		f := Finding{Step: s.name, Detail: detail}
		if err != nil {
			f.Detail, f.Bad = err.Error(), true
		}
		done(f)
	}
}

// survey keeps the results of earlier steps that later steps need.
type survey struct {
	c         *Client
	readers   []string // the read-only tools without required arguments
	uris      []string
	ready     []string    // the prompts without required arguments
	arguments [][2]string // the pairs of a prompt name and an argument name
}

const notOffered = "not offered"

// walk reads all pages of a list and calls each, if it is not nil, for every item. It returns a text
// with the number of items and pages.
func (v *survey) walk(ctx context.Context, method, key string, each func(raw []byte, entry jsonrpc.Span)) (string, error) {
	n, params := 0, []byte("{}")
	for page := 1; page <= maxPages; page++ {
		r, err := v.call(ctx, method, string(params))
		if err != nil {
			return "", err
		}
		whole := jsonrpc.Whole(r)
		for e := range jsonrpc.Elements(r, jsonrpc.Find(r, whole, key)) {
			n++
			if each != nil {
				each(r, e)
			}
		}
		cursor := jsonrpc.Find(r, whole, "nextCursor")
		if cursor.IsZero() {
			return fmt.Sprintf("%d in %d pages", n, page), nil
		}
		params = fmt.Appendf(nil, `{"cursor":%s}`, cursor.Of(r))
	}
	return "", fmt.Errorf("the list does not end after %d pages", maxPages)
}

// call sends a request and returns the result. If the server answers with an error, call returns
// that error.
func (v *survey) call(ctx context.Context, method, params string) ([]byte, error) {
	r, err := v.c.Call(ctx, method, []byte(params), CallOptions{})
	if err == nil && r.Err != nil {
		err = r.Err
	}
	if err != nil {
		return nil, err
	}
	return r.Result, nil
}

func (v *survey) tools(ctx context.Context) (string, error) {
	return v.walk(ctx, mcp.MethodListTools, "tools", func(raw []byte, t jsonrpc.Span) {
		reads := jsonrpc.KindOf(raw, jsonrpc.Find(raw, jsonrpc.Find(raw, t, "annotations"), "readOnlyHint")) == 't'
		for range jsonrpc.Elements(raw, jsonrpc.Find(raw, jsonrpc.Find(raw, t, "inputSchema"), "required")) {
			reads = false
		}
		if name, _ := jsonrpc.Text(raw, jsonrpc.Find(raw, t, "name")); reads && len(v.readers) < maxSurveyed {
			v.readers = append(v.readers, name)
		}
	})
}

func (v *survey) callTools(ctx context.Context) (string, error) {
	if len(v.readers) == 0 {
		return "no read-only tools without required arguments", nil
	}
	o := CallOptions{Progress: true}
	if v.c.e.has(perRequest) {
		o.LogLevel = "debug"
	}
	results, errs := 0, 0
	for _, name := range v.readers {
		r, err := v.c.Call(ctx, mcp.MethodCallTool, []byte(`{"name":`+quote(name)+`,"arguments":{}}`), o)
		switch {
		case err != nil:
			return "", fmt.Errorf("%s: %w", clip(name), err)
		case r.Err != nil:
			errs++
		default:
			results++
		}
	}
	return fmt.Sprintf("%d results and %d errors, %d questions: %s", results, errs, len(v.c.Asks()), strings.Join(v.readers, " ")), nil
}

func (v *survey) resources(ctx context.Context) (string, error) {
	return v.walk(ctx, mcp.MethodListResources, "resources", func(raw []byte, r jsonrpc.Span) {
		if uri, _ := jsonrpc.Text(raw, jsonrpc.Find(raw, r, "uri")); len(v.uris) < maxSurveyed {
			v.uris = append(v.uris, uri)
		}
	})
}

func (v *survey) templates(ctx context.Context) (string, error) {
	return v.walk(ctx, mcp.MethodListTemplates, "resourceTemplates", nil)
}

func (v *survey) reads(ctx context.Context) (string, error) {
	for _, uri := range v.uris {
		if _, err := v.call(ctx, mcp.MethodReadResource, `{"uri":`+quote(uri)+`}`); err != nil {
			return "", fmt.Errorf("%s: %w", clip(uri), err)
		}
	}
	return fmt.Sprintf("%d read", len(v.uris)), nil
}

func (v *survey) prompts(ctx context.Context) (string, error) {
	return v.walk(ctx, mcp.MethodListPrompts, "prompts", func(raw []byte, p jsonrpc.Span) {
		name, _ := jsonrpc.Text(raw, jsonrpc.Find(raw, p, "name"))
		free := true
		for a := range jsonrpc.Elements(raw, jsonrpc.Find(raw, p, "arguments")) {
			free = free && jsonrpc.KindOf(raw, jsonrpc.Find(raw, a, "required")) != 't'
			if arg, _ := jsonrpc.Text(raw, jsonrpc.Find(raw, a, "name")); len(v.arguments) < maxSurveyed {
				v.arguments = append(v.arguments, [2]string{name, arg})
			}
		}
		if free && len(v.ready) < maxSurveyed {
			v.ready = append(v.ready, name)
		}
	})
}

func (v *survey) gets(ctx context.Context) (string, error) {
	for _, name := range v.ready {
		if _, err := v.call(ctx, mcp.MethodGetPrompt, `{"name":`+quote(name)+`}`); err != nil {
			return "", fmt.Errorf("%s: %w", clip(name), err)
		}
	}
	return fmt.Sprintf("%d without required arguments", len(v.ready)), nil
}

func (v *survey) completes(ctx context.Context) (string, error) {
	if v.c.e.has(completions) && !v.c.Offers("completions") {
		return notOffered, nil
	}
	n := 0
	for _, a := range v.arguments {
		ref := `{"ref":{"type":"ref/prompt","name":` + quote(a[0]) + `},"argument":{"name":` + quote(a[1]) + `,"value":""}}`
		_, err := v.call(ctx, mcp.MethodComplete, ref)
		var refused *jsonrpc.Error
		if errors.As(err, &refused) && !v.c.e.has(completions) {
			return "refused, which is allowed without the capability", nil
		}
		if err != nil {
			return "", fmt.Errorf("%s of %s: %w", clip(a[1]), clip(a[0]), err)
		}
		n++
	}
	return fmt.Sprintf("%d arguments of prompts", n), nil
}

func (v *survey) subscribes(ctx context.Context) (string, error) {
	f := Filter{Tools: v.c.Offers("tools", "listChanged"), Prompts: v.c.Offers("prompts", "listChanged"), Resources: v.c.Offers("resources", "listChanged")}
	if v.c.Offers("resources", "subscribe") && len(v.uris) > 0 {
		f.URIs = v.uris[:1]
	}
	if !f.Tools && !f.Prompts && !f.Resources && len(f.URIs) == 0 {
		return notOffered, nil
	}
	s, err := v.c.Subscribe(ctx, f)
	if err != nil {
		return "", err
	}
	got := s.Agreed()
	return "agreed to " + got.json(), s.Close(ctx)
}

func (v *survey) logs(ctx context.Context) (string, error) {
	if v.c.e.has(perRequest) {
		return "asked for with each call", nil
	}
	r, err := v.c.SetLevel(ctx, "info")
	if err == nil && r.Err != nil {
		err = r.Err
	}
	return "level set", err
}

func (v *survey) pings(ctx context.Context) (string, error) {
	if !v.c.e.has(handshake) {
		return v.c.e.date + " has no ping", nil
	}
	_, err := v.call(ctx, mcp.MethodPing, "")
	return "answered", err
}

// refused sends a request and expects an error response with one of the codes.
func (v *survey) refused(ctx context.Context, method, params string, codes ...int64) (string, error) {
	r, err := v.c.Call(ctx, method, []byte(params), CallOptions{})
	switch {
	case err != nil:
		return "", err
	case r.Err == nil:
		return "", fmt.Errorf("not refused: %s", clip(string(r.Result)))
	case !slices.Contains(codes, r.Err.Code):
		return "", fmt.Errorf("refused with the code %d, expected %d", r.Err.Code, codes[0])
	}
	return fmt.Sprintf("refused with %d", r.Err.Code), nil
}

func (v *survey) wrongCursor(ctx context.Context) (string, error) {
	// §Pagination, "Error Handling": a server SHOULD refuse an invalid cursor. Survey also accepts
	// a server that returns a list.
	detail, err := v.refused(ctx, mcp.MethodListTools, `{"cursor":"no such cursor"}`, jsonrpc.CodeInvalidParams)
	if err != nil && strings.HasPrefix(err.Error(), "not refused") {
		return "not refused", nil
	}
	return detail, err
}

func (v *survey) unknownTool(ctx context.Context) (string, error) {
	const params = `{"name":"no such tool","arguments":{}}`
	detail, err := v.refused(ctx, mcp.MethodCallTool, params, jsonrpc.CodeInvalidParams)
	if err != nil && strings.Contains(err.Error(), `"isError":true`) {
		return "reported as the error of a tool", nil // many servers return a tool error here
	}
	return detail, err
}

func (v *survey) unknownMethod(ctx context.Context) (string, error) {
	return v.refused(ctx, "no/such/method", "{}", jsonrpc.CodeMethodNotFound)
}

// unoffered requests the lists that the server did not declare. The server may return an empty list
// or refuse the request.
func (v *survey) unoffered(ctx context.Context) (string, error) {
	asked := 0
	for _, l := range [][2]string{{"resources", mcp.MethodListResources}, {"resources", mcp.MethodListTemplates}, {"prompts", mcp.MethodListPrompts}} {
		if v.c.Offers(l[0]) {
			continue
		}
		asked++
		_, err := v.call(ctx, l[1], "{}")
		var refused *jsonrpc.Error
		if err != nil && (!errors.As(err, &refused) || refused.Code != jsonrpc.CodeMethodNotFound) {
			return "", fmt.Errorf("%s: %w", l[1], err)
		}
	}
	return fmt.Sprintf("%d lists, empty or refused", asked), nil
}
