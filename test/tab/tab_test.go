package tab

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestMain(m *testing.M) {
	Main()
	os.Exit(m.Run())
}

// site answers with pages of a sign-in: a redirect, a login, a consent with two buttons, a redirect
// to another site, and the end. It records the requests.
func site(t *testing.T) (base string, log *[]string) {
	log = new([]string)
	mux := http.NewServeMux()
	page := func(w http.ResponseWriter, body string) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		fmt.Fprint(w, "<!doctype html><title>x</title>", body)
	}
	mux.HandleFunc("GET /start", func(w http.ResponseWriter, r *http.Request) {
		http.SetCookie(w, &http.Cookie{Name: "strict", Value: "1", Path: "/", SameSite: http.SameSiteStrictMode})
		http.SetCookie(w, &http.Cookie{Name: "lax", Value: "1", Path: "/", SameSite: http.SameSiteLaxMode})
		http.Redirect(w, r, "/login", http.StatusFound)
	})
	mux.HandleFunc("GET /login", func(w http.ResponseWriter, r *http.Request) {
		page(w, `<a href="/help">Help</a><form method=post action="/login?to=1"><input name=user><input type=password name=password>
			<input type=hidden name=token value="a&amp;b"><input type=checkbox name=off><select name=lang><option value=de>x<option selected>en</select><button>Sign in</button></form>`)
	})
	mux.HandleFunc("POST /login", func(w http.ResponseWriter, r *http.Request) {
		page(w, `<meta http-equiv=refresh content="0; URL='/consent'">`)
	})
	mux.HandleFunc("GET /consent", func(w http.ResponseWriter, r *http.Request) {
		page(w, `<form method=post action=/answer><button name=ok value=no>Refuse</button><button name=ok value=yes>Allow it</button></form>`)
	})
	mux.HandleFunc("POST /answer", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, strings.Replace(base, "127.0.0.1", "localhost", 1)+"/away", http.StatusSeeOther)
	})
	mux.HandleFunc("GET /away", func(w http.ResponseWriter, r *http.Request) {
		http.SetCookie(w, &http.Cookie{Name: "away", Value: "1"})
		http.Redirect(w, r, base+"/done", http.StatusFound)
	})
	mux.HandleFunc("GET /done", func(w http.ResponseWriter, r *http.Request) { page(w, "done") })
	mux.HandleFunc("GET /out", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://example.com/", http.StatusFound)
	})
	mux.HandleFunc("GET /round", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/round", http.StatusFound) })
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = r.ParseForm()
		var cookies []string
		for _, c := range r.Cookies() {
			cookies = append(cookies, c.Name)
		}
		*log = append(*log, strings.TrimSpace(fmt.Sprintf("%s %s %s %v %s %s", r.Method, r.URL.Path, r.Header.Get("Sec-Fetch-Site"), cookies, r.PostForm.Encode(), strings.Replace(r.Header.Get("Origin"), base, "base", 1))))
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	base = s.URL
	return base, log
}

func TestOpen(t *testing.T) {
	base, log := site(t)
	page, err := Open(t.Context(), base+"/start", Script{Fill: map[string]string{"user": "ann", "password": "p", "nobody": "x"}, Press: []string{"Allow"}})
	if err != nil {
		t.Fatal(err)
	}
	if page.URL.Path != "/done" || page.Status != 200 || !strings.Contains(page.Body, "done") || len(page.Seen) != 7 {
		t.Errorf("the last page is %s, %d, after %q", page.URL, page.Status, page.Seen)
	}
	want := []string{
		"GET /start none []",
		"GET /login none [strict lax]",
		"POST /login same-origin [strict lax] lang=en&password=p&token=a%26b&user=ann base",
		"GET /consent same-origin [strict lax]",
		"POST /answer same-origin [strict lax] ok=yes base",
		"GET /away cross-site []",
		"GET /done cross-site [lax]",
	}
	if got := strings.Join(*log, "\n"); got != strings.Join(want, "\n") {
		t.Errorf("requests:\n%s\nwant:\n%s", got, strings.Join(want, "\n"))
	}
}

func TestOpenStops(t *testing.T) {
	base, _ := site(t)
	for path, want := range map[string]string{"/out": "not on this machine", "/round": "no end"} {
		if _, err := Open(t.Context(), base+path, Script{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want an error with %q", path, err, want)
		}
	}
}

// TestMainIsABrowser starts this binary as another program would.
func TestMainIsABrowser(t *testing.T) {
	base, log := site(t)
	file := filepath.Join(t.TempDir(), "links")
	for path, fails := range map[string]bool{"/start": false, "/nowhere": true} {
		env := Environ(Script{Log: file})
		cmd := exec.Command(strings.TrimPrefix(env[0], "BROWSER="), base+path)
		cmd.Env = append(os.Environ(), env...)
		if out, err := cmd.CombinedOutput(); (err != nil) != fails {
			t.Errorf("%s: %v\n%s", path, err, out)
		}
	}
	if b, _ := os.ReadFile(file); !strings.Contains(string(b), base+"/start\n") || len(*log) < 7 {
		t.Errorf("links: %q, requests: %q", b, *log)
	}
}
