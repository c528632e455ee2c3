package demo

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"strings"
	"sync/atomic"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	protocol "github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

const (
	aboutURI = "demo://about"

	// listsLast is how long clients may cache lists that never change.
	listsLast = time.Hour

	modernWords = "A small modern server: it has no handshake and no session. " +
		"Try add to see a structured result, weather to see an argument that is also sent in a header, " +
		"confirm to answer a question before the tool runs, and slow to see progress. demo://about changes with every tool call."
)

// modern is the demo server that supports the modern revisions.
type modern struct {
	*mcp.Server
	calls atomic.Int64 // tool calls so far
}

func newModern(version string) *modern {
	s := &modern{}
	s.Server = mcp.NewServer(&mcp.Implementation{Name: "demo-modern", Title: "Demo: a modern server", Version: version}, &mcp.ServerOptions{
		Instructions:              modernWords,
		Capabilities:              &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{}, Resources: &mcp.ResourceCapabilities{Subscribe: true}},
		SubscribeHandler:          func(context.Context, *mcp.SubscribeRequest) error { return nil },
		UnsubscribeHandler:        func(context.Context, *mcp.UnsubscribeRequest) error { return nil },
		SupportedProtocolVersions: protocol.Dates(protocol.Revisions(protocol.PerRequestMeta)),
		SetCacheable: func(_ context.Context, req mcp.Request, c *mcp.Cacheable) {
			if _, reads := req.GetParams().(*mcp.ReadResourceParams); !reads {
				c.TTLMs, c.CacheScope = int(listsLast.Milliseconds()), "public"
			}
		},
	})
	s.AddReceivingMiddleware(s.count)
	s.addTools()
	s.AddResource(&mcp.Resource{URI: aboutURI, Name: "about", Title: "About this server", Description: "What this server has done so far.", MIMEType: "text/plain"},
		read(func(string) (string, bool) {
			return fmt.Sprintf("This server uses %s and has no sessions. Tool calls so far: %d.", protocol.Latest, s.calls.Load()), true
		}))
	return s
}

// count counts the tool calls. Each of them changes the resource about.
func (s *modern) count(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		res, err := next(ctx, method, req)
		if method == protocol.MethodCallTool {
			s.calls.Add(1)
			_ = s.ResourceUpdated(ctx, &mcp.ResourceUpdatedNotificationParams{URI: aboutURI})
		}
		return res, err
	}
}

func (s *modern) addTools() {
	type numbers struct {
		A float64 `json:"a"`
		B float64 `json:"b"`
	}
	type sum struct {
		Sum float64 `json:"sum"`
	}
	no := false
	reads := &mcp.ToolAnnotations{ReadOnlyHint: true, OpenWorldHint: &no}
	mcp.AddTool(s.Server, &mcp.Tool{Name: "add", Title: "Add", Description: "Adds two numbers.", Annotations: reads},
		func(_ context.Context, _ *mcp.CallToolRequest, in numbers) (*mcp.CallToolResult, sum, error) {
			if math.IsInf(in.A+in.B, 0) {
				return nil, sum{}, errors.New("the sum is too large for a 64-bit floating-point number")
			}
			return nil, sum{in.A + in.B}, nil
		})
	type city struct {
		City string `json:"city"`
	}
	add(s.Server, about{
		name: "weather", title: "Weather", text: "Returns invented weather for a city. The result is always the same for the same city.",
		restrict: func(p map[string]*jsonschema.Schema) {
			texts(p)
			p["city"].Extra = map[string]any{"x-mcp-header": "City"}
		},
	}, func(_ context.Context, _ *mcp.CallToolRequest, in city) (*mcp.CallToolResult, error) {
		now := weatherOf(in.City)
		return text(fmt.Sprintf("%s: %s, %d °C. (This weather is invented.)", in.City, now.Sky, now.Celsius)), nil
	})
	mcp.AddTool(s.Server, &mcp.Tool{
		Name: "forecast", Title: "Forecast", Annotations: reads,
		Description: "Returns invented weather for a city for three days, as a list. Older revisions do not support lists in structuredContent, so their clients get only the text.",
	}, func(_ context.Context, _ *mcp.CallToolRequest, in city) (*mcp.CallToolResult, []weather, error) {
		return forecast(in.City)
	})
	type action struct {
		Action string `json:"action" jsonschema:"The action, for example: paint the shed blue"`
	}
	add(s.Server, about{name: "confirm", title: "Confirm", text: "Asks the user to confirm an action. The tool does not perform the action.", restrict: texts},
		func(_ context.Context, req *mcp.CallToolRequest, in action) (*mcp.CallToolResult, error) {
			return confirm(req, in.Action)
		})
	type seconds struct {
		Seconds int `json:"seconds,omitempty"`
	}
	add(s.Server, about{
		name: "slow", title: "Slow", text: "Runs for several seconds and reports progress every second. You can cancel the call.",
		restrict: func(p map[string]*jsonschema.Schema) { integer(p["seconds"], 1, 60, "5") },
	}, func(ctx context.Context, req *mcp.CallToolRequest, in seconds) (*mcp.CallToolResult, error) {
		return text("Done."), steps(ctx, req, in.Seconds, time.Second, " seconds")
	})
}

type weather struct {
	Day     int    `json:"day"`
	Sky     string `json:"sky"`
	Celsius int    `json:"celsius"`
}

// weatherOf returns weather that is always the same for the same place.
func weatherOf(place string) weather {
	h := fnv.New32a()
	_, _ = h.Write([]byte(strings.ToLower(place)))
	n := h.Sum32()
	skies := [...]string{"clear", "a few clouds", "overcast", "light rain", "fog in the morning", "unexpected snow"}
	return weather{Sky: skies[n%uint32(len(skies))], Celsius: int(n>>8%35) - 5}
}

// forecast returns a list as structured content, which 2026-07-28 allows (§Tools, "Structured
// Content").
func forecast(city string) (*mcp.CallToolResult, []weather, error) {
	var days []weather
	var summary []string
	for day := 1; day <= 3; day++ {
		w := weatherOf(fmt.Sprintf("%s %d", city, day))
		w.Day = day
		days = append(days, w)
		summary = append(summary, fmt.Sprintf("day %d %s, %d °C", day, w.Sky, w.Celsius))
	}
	return text(city + ": " + strings.Join(summary, "; ") + "."), days, nil
}

// confirm answers a tool call with a question to the user. When the client sends the call again with
// the user's answer, confirm returns the result. The retry contains everything that confirm needs
// (2026-07-28 §MRTR).
func confirm(req *mcp.CallToolRequest, action string) (*mcp.CallToolResult, error) {
	if !showsForms(req.ClientCapabilities()) {
		// The error for a missing capability: 2026-07-28 §Base, "Per-request protocol fields".
		return nil, &jsonrpc.Error{
			Code: protocol.CodeMissingCapability, Message: "confirm needs a client that supports forms (elicitation)",
			Data: []byte(`{"requiredCapabilities":{"elicitation":{"form":{}}}}`),
		}
	}
	// The state needs no protection (2026-07-28 §MRTR, "Server Requirements"), because a client with a
	// forged state can only confirm an action that does nothing.
	asked := "asked: " + action
	answer, ok := req.Params.InputResponses["go_ahead"].(*mcp.ElicitResult)
	switch state := req.Params.RequestState; {
	case state != "" && state != asked:
		return nil, invalid("params.requestState does not belong to this question")
	case !ok || state == "": // without requestState, the client does not answer a question of this server
		return &mcp.CallToolResult{
			InputRequests: mcp.InputRequestMap{"go_ahead": ask("Shall I really do this: "+action+"?", "sure", map[string]any{"type": "boolean", "title": "I am sure"})},
			RequestState:  asked,
		}, nil
	case answer.Action == "accept" && answer.Content["sure"] == true:
		return text("Confirmed: " + action + ". (This is a demo: nothing was done.)"), nil
	}
	return text("Not confirmed, so nothing was done."), nil
}
