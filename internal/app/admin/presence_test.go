package admin

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// TestPresence checks that what a process announces can be read until the process removes it, and
// that it contains no key.
func TestPresence(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "dragoman")
	folders := []string{folder}
	remove, err := Announce(folders, Presence{Address: "127.0.0.1:7300", Config: "/x.yaml", Flagged: true}, "the-key")
	if err != nil {
		t.Fatal(err)
	}
	all := Presences(folders)
	if len(all) != 1 || all[0].PID != os.Getpid() || all[0].Config != "/x.yaml" || !all[0].Flagged || !all[0].Alive() {
		t.Fatalf("%+v", all)
	}
	path := filepath.Join(folder, "serve-127.0.0.1-7300.json")
	if b, err := os.ReadFile(path); err != nil || strings.Contains(string(b), "the-key") {
		t.Errorf("%s %v", b, err)
	}
	if st, err := os.Stat(path); err != nil || runtime.GOOS != "windows" && st.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", st.Mode(), err)
	}
	// A process that has replaced the file keeps it.
	again, err := Announce(folders, Presence{Address: "127.0.0.1:7300"}, "newer")
	if err != nil {
		t.Fatal(err)
	}
	if remove(); len(Presences(folders)) != 1 {
		t.Error("removing a file removed that of another process")
	}
	again()
	if left, _ := os.ReadDir(folder); len(left) != 0 {
		t.Errorf("%v is left", left)
	}
}

// TestForgedPresence checks that a file does not count if its process could never prove that it is the
// user's: without a key, or under the name of another address.
func TestForgedPresence(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "dragoman")
	remove, err := Announce([]string{folder}, Presence{Address: "127.0.0.1:7300"}, "the-key")
	if err != nil {
		t.Fatal(err)
	}
	defer remove()
	const text = `{"pid":1,"started":"2999-01-01T00:00:00Z","address":"127.0.0.1:%d"}`
	for name, port := range map[string]int{"serve-127.0.0.1-1": 1, "serve-127.0.0.1-2": 7300, "serve-x": 3} {
		if err := os.WriteFile(filepath.Join(folder, name+presenceTail), fmt.Appendf(nil, text, port), 0o600); err != nil {
			t.Fatal(err)
		}
		if name != "serve-127.0.0.1-1" {
			if err := os.WriteFile(filepath.Join(folder, name+keyTail), []byte("forged"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	if all := Presences([]string{folder}); len(all) != 1 || all[0].PID != os.Getpid() {
		t.Errorf("%+v", all)
	}
}

// TestSweep checks that the files of killed processes go with the next start, but not those of other
// machines or of processes that may have just started.
func TestSweep(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "dragoman")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	host, _ := os.Hostname()
	write := func(port string, p Presence, age time.Duration) {
		p.Address = "127.0.0.1:" + port
		b, _ := json.Marshal(p)
		for _, tail := range []string{".json", ".key"} {
			path := filepath.Join(folder, "serve-127.0.0.1-"+port+tail)
			if err := os.WriteFile(path, b, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Chtimes(path, time.Time{}, time.Now().Add(-age)); err != nil {
				t.Fatal(err)
			}
		}
	}
	const nobody = 1 << 30 // larger than any PID
	write("1", Presence{PID: nobody, Host: host}, time.Hour)
	write("2", Presence{PID: nobody, Host: host}, time.Second)
	write("3", Presence{PID: nobody, Host: "elsewhere"}, time.Hour)
	write("4", Presence{PID: os.Getpid(), Host: host}, time.Hour)
	remove, err := Announce([]string{folder}, Presence{Address: "127.0.0.1:5"}, "key")
	if err != nil {
		t.Fatal(err)
	}
	remove()
	left, _ := filepath.Glob(filepath.Join(folder, "*"))
	if got := strings.ReplaceAll(strings.Join(left, " "), folder+string(filepath.Separator)+"serve-127.0.0.1-", ""); got != "2.json 2.key 3.json 3.key 4.json 4.key" {
		t.Error(got)
	}
}

// TestSharedFolder checks that a folder to which other users can write is not used: they could make
// commands believe that their program is a serve of the user.
func TestSharedFolder(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no modes")
	}
	folder := filepath.Join(t.TempDir(), "dragoman")
	remove, err := Announce([]string{folder}, Presence{Address: "127.0.0.1:7300"}, "the-key")
	if err != nil {
		t.Fatal(err)
	}
	defer remove()
	if err := os.Chmod(folder, 0o777); err != nil {
		t.Fatal(err)
	}
	if all := Presences([]string{folder}); len(all) > 0 {
		t.Errorf("%+v", all)
	}
	if keys, _ := ReadKeys([]string{folder}, "127.0.0.1:7300"); len(keys) > 0 {
		t.Errorf("%q", keys)
	}
	if _, err := Announce([]string{folder}, Presence{Address: "127.0.0.1:7301"}, "k"); err == nil {
		t.Error("a key was written")
	}
}

// TestProof checks that a process proves that it has a key, and only for the address at which it was
// asked.
func TestProof(t *testing.T) {
	api := New(Options{Local: true})
	mux := http.NewServeMux()
	api.Routes(mux)
	web := httptest.NewServer(mux)
	defer web.Close()
	ask := func(challenge string) string {
		r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, web.URL+"/healthz", nil)
		if challenge != "" {
			r.Header.Set(ChallengeHeader, challenge)
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		return resp.Header.Get(ProofHeader)
	}
	defer http.DefaultClient.CloseIdleConnections()
	key, at := api.Access().Key(), strings.TrimPrefix(web.URL, "http://")
	proof := ask("abc")
	if Proves([]string{"other", "", key}, at, "abc", proof) != key {
		t.Errorf("%q is not the proof", proof)
	}
	for _, wrong := range []string{
		Proves([]string{"other", ""}, at, "abc", proof), Proves([]string{key}, at, "abd", proof), Proves([]string{key}, "127.0.0.1:1", "abc", proof),
		Proves([]string{key}, "nonsense", "abc", ""), Proves([]string{""}, at, "abc", Proof("", at, "abc")), ask(""), ask(strings.Repeat("x", maxChallenge+1)),
	} {
		if wrong != "" {
			t.Errorf("%q was accepted or sent", wrong)
		}
	}
}

// TestReachable checks the addresses at which this machine reaches a listener.
func TestReachable(t *testing.T) {
	for address, want := range map[string]string{
		"127.0.0.1:7300": "127.0.0.1:7300", "[::1]:7300": "[::1]:7300", "0.0.0.0:80": "127.0.0.1:80", "[::]:80": "127.0.0.1:80 [::1]:80", "nonsense": "", "": "",
	} {
		if got := strings.Join((&Presence{Address: address}).Reachable(), " "); got != want {
			t.Errorf("%s: %s, want %s", address, got, want)
		}
	}
}
