package audit

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/policy"
	"github.com/dragoman-mcp/dragoman/internal/team/store"
	"github.com/dragoman-mcp/dragoman/internal/testkit/peertest"
)

func TestMain(m *testing.M) { peertest.Main(m, peer.run) }

// peer records calls, and says how many it has recorded each time that they're in the file.
type peer struct{ Database, Folder string }

func (p peer) run(ctx context.Context) error {
	s, err := store.Open(ctx, store.Options{Database: p.Database})
	if err != nil {
		return err
	}
	t := New(Options{Folder: p.Folder, Store: s, Settings: func() Settings { return Settings{Level: Names, Size: 20_000, Files: 1000} }})
	for n := 1; ; n++ {
		t.End(ctx, &policy.Call{Who: ada, Name: fmt.Sprint(n), Request: request(ada)}, &policy.Answer{Outcome: "ok", Took: time.Millisecond})
		if n%50 == 0 {
			if err := t.Flush(ctx); err != nil {
				return err
			}
			fmt.Println(n)
		}
	}
}

// TestKill kills processes while they write. What is in the files is as it was written, but for a torn last line, and
// nothing is missing of what was written.
func TestKill(t *testing.T) {
	const kills = 30
	database, folder := t.TempDir()+"/db", t.TempDir()
	s := newStore(t, database, "")
	if err := set(t, s, "x"); err != nil {
		t.Fatal(err)
	}
	written := int64(0)
	for round := range kills {
		c, out := peertest.Start(t, peer{database, folder})
		last := int64(0)
		for lines := 0; out.Scan(); {
			_, _ = fmt.Sscan(out.Text(), &last)
			if lines++; lines > round%5 {
				time.Sleep(time.Duration(round) * 100 * time.Microsecond)
				_ = c.Process.Kill()
			}
		}
		_ = c.Wait()
		written += last
	}
	r := newRig(t, s, Settings{Level: Names, Size: 1 << 20, Files: 1000})
	r.o.Folder = folder
	r.again()
	v, lines, torn := r.verify(), int64(0), 0
	for _, x := range v.Chains {
		if lines += x.Lines; x.Broken != "" || x.Ended {
			t.Errorf("%+v", x)
		}
		if x.Torn {
			torn++
		}
	}
	if v.Acts.Broken != "" || len(v.Chains) != kills || lines < written || written == 0 {
		t.Errorf("%d chains, %d lines of %d: %s", len(v.Chains), lines, written, v.Acts.Broken)
	}
	t.Logf("%d lines survived %d kills, of which %d left a torn line", lines, kills, torn)
}

// request is a request of somebody.
func request(who *identity.Principal) *mcp.Call {
	return &mcp.Call{Msg: &jsonrpc.Message{Method: mcp.MethodCallTool}, Client: &mcp.ClientInfo{Who: who, Remote: "192.0.2.7:4711"}}
}
