package admin

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/server/demo"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
)

// parsed returns a configuration with secrets that all have a value.
func parsed(t *testing.T, text string) *config.Snapshot {
	t.Helper()
	s, problems := config.ParseWith("dragoman.yaml", []byte(text), nil, func(_, _ string) (config.Secret, bool, error) { return config.NewSecret("value"), true, nil })
	if s == nil {
		t.Fatal(problems)
	}
	return s
}

// TestInstructionsWith asks what clients would get if a prompt were active: as the configuration says it, with the part
// of a server only when that is known, and in one entry for all revisions that get the same.
func TestInstructionsWith(t *testing.T) {
	t.Parallel()
	v := &PromptVersion{Description: "How we write", Text: "Prices are in cents {{revision}}."}
	r := servingSnapshot(t, parsed(t, "mcpServers: {}\ndragoman: {server: {instructions: {text: \"Be kind, {{client.name}}.\"}}}\n"))
	all, unread := r.api.InstructionsWith(t.Context(), v)
	if want := "Be kind, unknown.\n\nHow we write\n\nPrices are in cents {{revision}}."; len(all) != 1 || len(unread) != 0 || all[0].Text != want || !slices.Equal(all[0].Revisions, mcp.Dates(mcp.Revisions())) || all[0].Tokens == 0 {
		t.Errorf("got %+v %q", all, unread)
	}

	r = servingSnapshot(t, parsed(t, "mcpServers:\n  old: {command: "+os.Args[0]+", env: {"+asServer+": "+demo.Legacy+"}}\n  lazy: {command: x}\n"+
		"dragoman: {servers: {lazy: {lazy: true}}, server: {instructions: {text: \"For {{revision}}.\", join: upstreams-first}}}\n"))
	r.ready("old")
	all, unread = r.api.InstructionsWith(t.Context(), v)
	if len(all) != len(mcp.Revisions()) || !slices.Equal(unread, []string{"lazy"}) {
		t.Fatalf("got %d %q", len(all), unread)
	}
	for _, x := range all {
		if len(x.Revisions) != 1 || !strings.HasSuffix(x.Text, "For "+x.Revisions[0]+".\n\nHow we write\n\nPrices are in cents {{revision}}.") {
			t.Errorf("%v: %s", x.Revisions, x.Text)
		}
	}
}

// TestUsesOfSecrets lists secrets with what the configuration that's in use does with them.
func TestUsesOfSecrets(t *testing.T) {
	t.Parallel()
	r := servingSnapshot(t, parsed(t, "mcpServers:\n  web: {url: \"http://127.0.0.1:1/mcp\", headers: {Authorization: \"Bearer ${secret:gh}\"}}\n"))
	r.tell("PUT", "/secrets/gh", `{"value":"v"}`, 200, &KeptSecret{})
	r.tell("PUT", "/secrets/other", `{"value":"v"}`, 200, &KeptSecret{})
	var all Secrets
	if r.tell("GET", "/secrets", "", 200, &all); len(all.Secrets) != 2 || !slices.Equal(all.Secrets[0].Servers, []string{"web"}) || all.Secrets[1].Servers != nil {
		t.Errorf("got %+v", all)
	}
}
