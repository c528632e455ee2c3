package vault

import (
	"bytes"
	"encoding/base64"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// TestReadSealing checks what is said of each file that can't be used, and that no key is shown.
func TestReadSealing(t *testing.T) {
	key := func(n byte, size int) string {
		return base64.StdEncoding.EncodeToString(append(bytes.Repeat([]byte{n}, size-1), 'x'))
	}
	const malformed = "the file of sealing keys FILE is malformed: %; write one line of `openssl rand -base64 32` for each key, the newest first"
	for name, c := range map[string]struct {
		text, want string
		mode       os.FileMode
	}{
		"two keys": {"# new\n" + key(2, 32) + "\n" + key(1, 32) + "\n", "", 0o600},
		"missing":  {"", "the file of sealing keys FILE does not exist; make it with `(umask 077; openssl rand -base64 32 > FILE)`, and copy it to every replica", 0},
		"readable": {key(1, 32), "other users of this machine can read the file of sealing keys FILE; run `chmod 600 FILE`", 0o640},
		"short":    {key(2, 32) + "\n" + key(1, 16), strings.Replace(malformed, "%", "line 2 has a key of 16 bytes, and a key has 32", 1), 0o600},
		"twice":    {key(1, 32) + "\n\n" + key(1, 32), strings.Replace(malformed, "%", "line 3 has a key for the second time", 1), 0o600},
		"no key":   {"my-secret\n", strings.Replace(malformed, "%", "line 1 is not base64", 1), 0o600},
		"empty":    {"# none\n", strings.Replace(malformed, "%", "it has no key", 1), 0o600},
	} {
		path := filepath.Join(t.TempDir(), "FILE")
		if c.mode != 0 {
			if err := os.WriteFile(path, []byte(c.text), c.mode); err != nil {
				t.Fatal(err)
			}
		}
		keys, err := ReadSealing(path)
		if runtime.GOOS == "windows" && c.mode&0o077 != 0 {
			continue
		}
		got := ""
		var e *Error
		if errors.As(err, &e) {
			got = strings.ReplaceAll(e.Text+"; "+e.Next, path, "FILE")
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
		if c.want == "" && (len(keys) != 2 || keys[0].Secret[0] != 2 || keys[1].Secret[0] != 1 || keys[0].ID == keys[1].ID) {
			t.Errorf("%s: %v", name, keys)
		}
	}
}
