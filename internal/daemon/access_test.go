//go:build unix

package daemon

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/admin"
)

// TestKeyOfServe checks that serve keeps its key for the commands of the same user while it
// runs, and that the API accepts it.
func TestKeyOfServe(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "dragoman")
	r := serve(t, snapshot(), func(o *ServeOptions) { o.KeyFolders = []string{folder} })
	keys, err := admin.ReadKeys([]string{folder}, strings.TrimPrefix(r.base, "http://"))
	if err != nil || len(keys) != 1 {
		t.Fatal(keys, err)
	}
	if a := r.post("/api/v1/console/link", "", "Authorization", "Bearer "+keys[0]); a.status != 200 || !strings.Contains(a.body, r.base+"/console/?link=") {
		t.Errorf("%d %s", a.status, a.body)
	}
	if a := r.post("/api/v1/console/link", ""); a.status != 401 {
		t.Errorf("without the key: %d %s", a.status, a.body)
	}
	if strings.Contains(r.log.String(), keys[0]) {
		t.Error("the log has the key")
	}
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	if left, _ := os.ReadDir(folder); len(left) != 0 {
		t.Errorf("%v is left", left)
	}
}
