//lint:file-ignore SA1019 this server plays an older revision, in which logging is not deprecated

package demo

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/dragoman-mcp/dragoman/internal/base/work"
	protocol "github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

const (
	clockURI  = "demo://clock"
	notesURI  = "demo://notes"
	echoURI   = "demo://echo/"
	clockTick = 5 * time.Second
	maxNotes  = 20

	legacyWords = "A small legacy server: it starts with initialize and has a session. " +
		"Try remember and then recall to see the state of the session, count to see progress and cancellation, " +
		"and ask_name to answer a question while the call runs. Subscribe to demo://clock to get an update every five seconds."
)

var haikuTopics = []string{"autumn", "bridges", "code", "mountains", "rain", "tea"}

// legacy is the demo server that supports the legacy revisions.
type legacy struct {
	*mcp.Server

	mu    sync.Mutex
	notes []string
}

func newLegacy(version string) *legacy {
	s := &legacy{Server: mcp.NewServer(&mcp.Implementation{Name: "demo-legacy", Title: "Demo: a legacy server", Version: version}, &mcp.ServerOptions{
		Instructions: legacyWords,
		Capabilities: &mcp.ServerCapabilities{
			Tools: &mcp.ToolCapabilities{}, Prompts: &mcp.PromptCapabilities{}, Logging: &mcp.LoggingCapabilities{},
			Resources: &mcp.ResourceCapabilities{Subscribe: true, ListChanged: true}, Completions: &mcp.CompletionCapabilities{},
		},
		SubscribeHandler: func(_ context.Context, req *mcp.SubscribeRequest) error {
			if req.Params.URI != clockURI {
				return mcp.ResourceNotFoundError(req.Params.URI)
			}
			return nil
		},
		UnsubscribeHandler:        func(context.Context, *mcp.UnsubscribeRequest) error { return nil },
		CompletionHandler:         complete,
		SupportedProtocolVersions: protocol.Dates(protocol.Revisions(protocol.Handshake)),
	})}
	s.addTools()
	s.AddResource(&mcp.Resource{URI: clockURI, Name: "clock", Description: "The current time of this machine. Clients can subscribe to it.", MIMEType: "text/plain"},
		read(func(string) (string, bool) { return time.Now().UTC().Format(time.RFC3339), true }))
	s.AddResourceTemplate(&mcp.ResourceTemplate{URITemplate: echoURI + "{text}", Name: "echo", Description: "Returns the text in its URI.", MIMEType: "text/plain"},
		read(func(uri string) (string, bool) {
			echoed, err := url.PathUnescape(strings.TrimPrefix(uri, echoURI))
			return echoed, err == nil && echoed != ""
		}))
	s.AddPrompt(&mcp.Prompt{Name: "haiku", Description: "Asks for a haiku.", Arguments: []*mcp.PromptArgument{{Name: "topic", Description: "Subject of the haiku", Required: true}}}, haiku)
	return s
}

func (s *legacy) addTools() {
	type none struct{}
	type name struct {
		Name string `json:"name" jsonschema:"Name of the person"`
	}
	add(s.Server, about{name: "greet", title: "Greet", text: "Greets a person.", restrict: texts},
		func(ctx context.Context, req *mcp.CallToolRequest, in name) (*mcp.CallToolResult, error) {
			s.log(ctx, req, "debug", "a greeting was sent")
			return text("Hello, " + in.Name + "! This server speaks " + req.ProtocolVersion() + "."), nil
		})
	type count struct {
		To    int `json:"to"`
		Delay int `json:"delayMs,omitempty" jsonschema:"Pause before each step, in milliseconds"`
	}
	add(s.Server, about{
		name: "count", title: "Count", text: "Counts to a number with a pause before each step, and reports progress. You can cancel the call.",
		restrict: func(p map[string]*jsonschema.Schema) {
			integer(p["to"], 1, 1000, "")
			integer(p["delayMs"], 0, 10000, "200")
		},
	}, func(ctx context.Context, req *mcp.CallToolRequest, in count) (*mcp.CallToolResult, error) {
		err := steps(ctx, req, in.To, time.Duration(in.Delay)*time.Millisecond, "")
		return text(fmt.Sprintf("Counted to %d.", in.To)), err
	})
	type note struct {
		Note string `json:"note"`
	}
	add(s.Server, about{name: "remember", title: "Remember", text: "Saves a note until the session ends.", writes: true, restrict: texts},
		func(ctx context.Context, req *mcp.CallToolRequest, in note) (*mcp.CallToolResult, error) {
			return s.remember(ctx, req, in.Note)
		})
	add(s.Server, about{name: "recall", title: "Recall", text: "Returns the notes that were saved in this session."},
		func(context.Context, *mcp.CallToolRequest, none) (*mcp.CallToolResult, error) {
			if all, ok := s.all("\n- "); ok {
				return text("- " + all), nil
			}
			return text("This session has no notes yet. Call remember to save one."), nil
		})
	add(s.Server, about{name: "ask_name", title: "Ask for a name", text: "Asks the user for a name while the call runs, and then greets the user."},
		func(ctx context.Context, req *mcp.CallToolRequest, _ none) (*mcp.CallToolResult, error) {
			return askName(ctx, req)
		})
}

func (s *legacy) log(ctx context.Context, req *mcp.CallToolRequest, level mcp.LoggingLevel, words string) {
	_ = req.Session.Log(ctx, &mcp.LoggingMessageParams{Level: level, Logger: "demo", Data: words})
}

func (s *legacy) remember(ctx context.Context, req *mcp.CallToolRequest, note string) (*mcp.CallToolResult, error) {
	s.mu.Lock()
	n := len(s.notes)
	if n < maxNotes {
		s.notes = append(s.notes, note)
	}
	s.mu.Unlock()
	switch n {
	case maxNotes:
		return failed(fmt.Sprintf("The session already has the maximum of %d notes.", maxNotes)), nil
	case 0:
		s.AddResource(&mcp.Resource{URI: notesURI, Name: "notes", Description: "The notes of this session.", MIMEType: "text/plain"},
			read(func(string) (string, bool) { return s.all("\n") }))
	}
	s.log(ctx, req, "info", "a note was kept")
	return text(fmt.Sprintf("Saved. Notes in this session: %d.", n+1)), nil
}

// all returns all notes, and whether there are any.
func (s *legacy) all(between string) (string, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.notes, between), len(s.notes) > 0
}

func askName(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	if !revision(req).Can(protocol.Elicitation) || !showsForms(req.ClientCapabilities()) {
		return failed("This tool asks for a name, but this client does not support forms (elicitation). Call greet instead."), nil
	}
	answer, err := req.Session.Elicit(ctx, ask("What is your name?", "name", map[string]any{"type": "string", "title": "Name", "minLength": 1, "maxLength": 100}))
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		return failed("The server asked for a name, and the client did not answer as it should: " + err.Error()), nil
	case answer.Action == "decline":
		return text("You did not give a name. Nice to meet you anyway."), nil
	case answer.Action == "cancel":
		return text("You closed the question without an answer. Call the tool again to see it again."), nil
	}
	return text(fmt.Sprintf("It is nice to meet you, %s.", answer.Content["name"])), nil
}

// showsForms reports whether client capabilities include form elicitation. An empty object means form
// elicitation only (2025-11-25 §Elicitation, "Capabilities").
func showsForms(caps *mcp.ClientCapabilities) bool {
	return caps != nil && caps.Elicitation != nil && (caps.Elicitation.Form != nil || caps.Elicitation.URL == nil)
}

// tick notifies subscribers of the clock until ctx ends.
func (s *legacy) tick(ctx context.Context) {
	for work.Sleep(ctx, clockTick) == nil {
		_ = s.ResourceUpdated(ctx, &mcp.ResourceUpdatedNotificationParams{URI: clockURI})
	}
}

func haiku(_ context.Context, req *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
	topic := req.Params.Arguments["topic"]
	if topic == "" {
		return nil, invalid("the prompt haiku needs the argument topic")
	}
	return &mcp.GetPromptResult{Description: "A haiku", Messages: []*mcp.PromptMessage{{Role: "user", Content: &mcp.TextContent{
		Text: "Write a haiku about " + topic + ": three lines of five, seven and five syllables, and a season in one of them.",
	}}}}, nil
}

func complete(_ context.Context, req *mcp.CompleteRequest) (*mcp.CompleteResult, error) {
	ref, argument := req.Params.Ref, req.Params.Argument
	if ref == nil || ref.Type != "ref/prompt" || ref.Name != "haiku" || argument.Name != "topic" {
		return nil, invalid("params.ref and params.argument do not name an argument that this server can complete")
	}
	found := []string{}
	for _, t := range haikuTopics {
		if strings.HasPrefix(t, strings.ToLower(argument.Value)) {
			found = append(found, t)
		}
	}
	return &mcp.CompleteResult{Completion: mcp.CompletionResultDetails{Values: found, Total: len(found)}}, nil
}

func invalid(why string) error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: why}
}
