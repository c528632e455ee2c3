//go:build linux

package remote

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func init() { ways["ssh"] = throughSSH }

const sshdConfig = `
Port 22
ListenAddress 127.0.0.1
HostKey /etc/ssh/host
AuthorizedKeysFile /etc/ssh/authorized
PasswordAuthentication no
UsePAM no
PidFile none
`

// throughSSH opens the console as docs/console.md says: with a link from the other machine, in which the
// port is that of `ssh -L`.
func throughSSH(t *testing.T) {
	key := filepath.Join(t.TempDir(), "key")
	if err := os.MkdirAll("/etc/ssh", 0o755); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"/etc/ssh/host", key} {
		_ = os.Remove(file)
		run(t, exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", file))
	}
	public, err := os.ReadFile(key + ".pub")
	if err != nil {
		t.Fatal(err)
	}
	write(t, "/etc/ssh/authorized", string(public))
	write(t, "/etc/ssh/sshd_config", sshdConfig)
	write(t, "/etc/passwd", "root:x:0:0::/:/bin/sh\nsshd:x:65533:65533::/run/sshd:/bin/false\nada:x:65534:65534::/tmp:/bin/sh\n")
	for name, mode := range map[string]os.FileMode{"/etc/passwd": 0o644, "/etc/ssh/authorized": 0o644} {
		if err := os.Chmod(name, mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir("/run/sshd", 0o755); err != nil {
		t.Fatal(err)
	}
	link := serve(t, "mcpServers: {}\n")
	start(t, "127.0.0.1:22", exec.Command(program(t, "sshd"), "-D", "-e", "-f", "/etc/ssh/sshd_config"))
	start(t, "127.0.0.1:8080", exec.Command("ssh", "-N", "-F", "none", "-i", key, "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null",
		"-o", "ExitOnForwardFailure=yes", "-L", "8080:127.0.0.1:7300", "ada@127.0.0.1"))
	if c, err := net.Dial("tcp", "[::1]:8080"); err != nil {
		t.Errorf("ssh leaves the other loopback address to other programs: %v", err)
	} else {
		_ = c.Close()
	}

	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	browser := &http.Client{Jar: jar, Transport: &http.Transport{
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			_, port, _ := net.SplitHostPort(address) // a browser resolves the names below localhost itself
			return new(net.Dialer).DialContext(ctx, network, "127.0.0.1:"+port)
		},
	}}
	t.Cleanup(browser.CloseIdleConnections)
	get := func(url string) *http.Response {
		req, err := http.NewRequestWithContext(soon(t), http.MethodGet, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("User-Agent", "Mozilla/5.0 Firefox/150.0")
		resp, err := browser.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = resp.Body.Close() })
		return resp
	}
	forwarded := strings.Replace(link(), ":7300/", ":8080/", 1)
	page := get(forwarded)
	b, _ := io.ReadAll(page.Body)
	at := page.Request.URL.String()
	if page.StatusCode != http.StatusOK || !regexp.MustCompile(`^http://dragoman-\w+\.localhost:8080/console/$`).MatchString(at) || !strings.Contains(string(b), "<nav") {
		t.Fatalf("%s leads to %s, %s:\n%s", forwarded, at, page.Status, b)
	}
	live := get(at + "events?page=/console/")
	if line, err := bufio.NewReader(live.Body).ReadString('\n'); live.StatusCode != http.StatusOK || err != nil {
		t.Errorf("the live values: %s, %q, %v", live.Status, line, err)
	}
}
