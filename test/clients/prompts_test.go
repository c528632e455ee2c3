//go:build unix

package clients

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// TestInstructions makes prompts active with the command line, and connects clients of both eras: each gets what
// the prompt says, and "" when it has been put off. When nobody can read the database any more, they get what it
// said last, and a prompt still answers. The Go SDK, which stays connected, hears of each change of the list.
func TestInstructions(t *testing.T) {
	if os.Getenv("DRAGOMAN_CLIENTS") == "" {
		t.Skip("set DRAGOMAN_CLIENTS=1 (or make clients) to run clients from npm")
	}
	r, folder := prepare(t), t.TempDir()
	database := filepath.Join(folder, "dragoman.db")
	settings := fmt.Sprintf("dragoman: {database: %q, server: {instructions: {join: own-only}}}\n", database)
	file := filepath.Join(folder, "dragoman.yaml")
	if err := os.WriteFile(file, []byte(settings), 0o600); err != nil {
		t.Fatal(err)
	}
	base := r.serve(t, settings)
	prompts := func(stdin string, args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), r.dragoman, append(append([]string{"prompts"}, args...), "-c", file)...)
		cmd.Env = append(os.Environ(), "HOME="+folder, "XDG_RUNTIME_DIR="+folder)
		cmd.Stdin = strings.NewReader(stdin)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("prompts %v: %v %s", args, err, out)
		}
	}
	prompts("Prices are in cents.\n", "add", "style", "--description", "How we write")
	changed := make(chan struct{}, 100)
	connect := func() (*mcp.ClientSession, error) {
		o := &mcp.ClientOptions{PromptListChangedHandler: func(context.Context, *mcp.PromptListChangedRequest) { changed <- struct{}{} }}
		return mcp.NewClient(&mcp.Implementation{Name: "go", Version: "1"}, o).Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: base + "/mcp"}, nil)
	}
	innocent, err := connect()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = innocent.Close() }()
	has := func() bool {
		list, err := innocent.ListPrompts(t.Context(), nil)
		return err == nil && slices.ContainsFunc(list.Prompts, func(p *mcp.Prompt) bool { return p.Name == "style" })
	}
	const says = "How we write\n\nPrices are in cents."
	hears := func(there bool) {
		t.Helper()
		select {
		case <-changed:
		case <-time.After(10 * time.Second):
			t.Fatal("the Go SDK heard of no change")
		}
		if has() != there {
			t.Errorf("the prompt is in the list: %t", !there)
		}
	}
	// get connects all clients, and expects these instructions of each.
	get := func(want string) {
		t.Helper()
		for end := time.Now().Add(10 * time.Second); ; time.Sleep(50 * time.Millisecond) { // another process made the change
			session, err := connect()
			if err == nil {
				if got := session.InitializeResult().Instructions; got != want {
					err = fmt.Errorf("got the instructions %q", got)
				}
				err = errors.Join(err, session.Close())
			}
			if err == nil {
				break
			}
			if time.Now().After(end) {
				t.Fatalf("the Go SDK: %v", err)
			}
		}
		for _, c := range clients {
			if slices.Contains([]string{"sdk1.mjs", "sdk2.mjs", "inspector.mjs"}, c.script) {
				o := r.run(t, c, map[string]any{"server": latest, "url": base + "/mcp", "only": []string{"instructions"}, "instructions": want})
				if o.Steps["instructions"] != "works" {
					t.Errorf("%s: %s", c.name, o.Steps["instructions"])
				}
			}
		}
	}
	prompts("", "publish", "style")
	hears(true)
	prompts("", "activate", "style")
	get(says)
	prompts("", "off", "style")
	hears(false)
	get("")
	prompts("", "publish", "style")
	hears(true)
	prompts("", "activate", "style")
	get(says)
	for _, suffix := range []string{"", "-wal"} {
		if err := os.WriteFile(database+suffix, bytes.Repeat([]byte("broken"), 10_000), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	get(says)
	if got, err := innocent.GetPrompt(t.Context(), &mcp.GetPromptParams{Name: "style"}); err != nil || len(got.Messages) != 1 {
		t.Errorf("%+v, %v", got, err)
	}
}
