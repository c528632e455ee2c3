//go:build linux

package try

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"golang.org/x/sys/unix"
)

// These variables make a process the machine on which the containers run, and a container.
const (
	envMachine   = "DRAGOMAN_TRY_MACHINE"
	envContainer = "DRAGOMAN_TRY_CONTAINER"
)

// The addresses of the machine and of its container. Both exist only in namespaces of this test.
const machineIP, containerIP = "172.31.0.1", "172.31.0.2"

// container is what `docker run` would be told, and what the image says.
type container struct {
	Root     string            // the files of the image; the container can't write to them
	Volumes  map[string]string // folders and files of the machine, by their path in the container
	UID, GID int
	Dir      string
	Env      []string
	Command  []string
}

func init() {
	if text := os.Getenv(envContainer); text != "" {
		var c container
		err := json.Unmarshal([]byte(text), &c)
		if err == nil {
			err = c.become()
		}
		fmt.Fprintln(os.Stderr, "cannot start the container:", err)
		os.Exit(125)
	}
}

// become turns this process, which is the first of new namespaces, into that of the container: with
// `--read-only --tmpfs /tmp --cap-drop ALL --security-opt no-new-privileges`.
func (c *container) become() error {
	runtime.LockOSThread()                                   // capabilities belong to a thread
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil { // the end says that the network is ready
		return err
	}
	at := func(path string) string { return filepath.Join(c.Root, path) }
	err := errors.Join(
		unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""),
		unix.Mount(c.Root, c.Root, "", unix.MS_BIND, ""),
		unix.Mount("proc", at("proc"), "proc", 0, ""),
		unix.Mount("tmpfs", at("tmp"), "tmpfs", 0, "mode=1777"),
		unix.Mount("tmpfs", at("dev"), "tmpfs", 0, "mode=755"),
		os.WriteFile(at("dev/null"), nil, 0o666),
		unix.Mount("/dev/null", at("dev/null"), "", unix.MS_BIND, ""),
	)
	for to, from := range c.Volumes {
		err = errors.Join(err, unix.Mount(from, at(to), "", unix.MS_BIND, ""))
	}
	if err = errors.Join(err, unix.Mount("", c.Root, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, ""), os.Chdir(c.Root)); err != nil {
		return err
	}
	if err := errors.Join(unix.PivotRoot(".", "."), unix.Unmount(".", unix.MNT_DETACH), os.Chdir(c.Dir)); err != nil {
		return err
	}
	null, err := os.OpenFile("/dev/null", os.O_RDWR, 0)
	if err != nil {
		return err
	}
	for capability := range uintptr(unix.CAP_LAST_CAP + 1) {
		err = errors.Join(err, unix.Prctl(unix.PR_CAPBSET_DROP, capability, 0, 0, 0))
	}
	err = errors.Join(err, unix.Dup2(int(null.Fd()), 0), unix.Setgroups(nil), unix.Setresgid(c.GID, c.GID, c.GID), unix.Setresuid(c.UID, c.UID, c.UID),
		unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
	if err != nil {
		return err
	}
	return unix.Exec(c.Command[0], c.Command, c.Env)
}

// TestContainer runs the release image as docs/deployment.md says, without a container engine: its
// process is the first of its own namespaces, with its own network, and the root can't be written.
func TestContainer(t *testing.T) {
	file := result(t, "dragoman_*_linux_"+runtime.GOARCH+".oci.tar")
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED: only root can create the namespaces")
	}
	need(t, "ip")
	need(t, "nsenter")
	if os.Getenv(envMachine) == "" {
		self, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		c := exec.CommandContext(t.Context(), self, "-test.run=^TestContainer$", "-test.v", "-test.timeout=3m")
		c.Env = append(os.Environ(), envMachine+"=1")
		c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
		if out, err := c.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	img, err := tarball.ImageFromPath(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	extract(t, img, root)
	for _, dir := range []string{"proc", "dev"} { // an engine adds them
		if err := os.Mkdir(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, x := range []struct {
		name   string
		uid    int
		volume bool // of the data folder
	}{{"as in the documents", 65532, true}, {"as another user", 1000, true}, {"without a volume", 65532, false}} {
		t.Run(x.name, func(t *testing.T) {
			data := t.TempDir()
			if err := errors.Join(os.Chown(data, x.uid, x.uid), os.Chmod(data, 0o750)); err != nil {
				t.Fatal(err)
			}
			c := newContainer(t, img, root, data)
			c.UID, c.GID = x.uid, x.uid
			if !x.volume {
				delete(c.Volumes, "/var/lib/dragoman")
			}
			try(t, img, c)
			kept := run(t, data, nil, "find", ".", "-type", "f", "-printf", "%U %m %p\n")
			if x.volume && !regexp.MustCompile(fmt.Sprintf(`^(%d 600 .*\n)+$`, x.uid)).MatchString(kept) || strings.Contains(kept, ".key") {
				t.Errorf("the volume has\n%s", kept)
			}
		})
	}
}

// newContainer returns what the command of docs/deployment.md would start. Its configuration has a server
// on the machine.
func newContainer(t *testing.T, img v1.Image, root, data string) *container {
	t.Helper()
	config, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join("..", "..", "docs", "deployment.md"))
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`(?m)^docker run ((?:.*\\\n)+) +(serve .*)\n`).FindStringSubmatch(string(b))
	if m == nil || !strings.Contains(m[1], " --read-only --tmpfs /tmp --cap-drop ALL --security-opt no-new-privileges ") {
		t.Fatalf("docs/deployment.md has no such docker run: %q", m)
	}
	file := filepath.Join(t.TempDir(), "dragoman.yaml")
	if err := os.WriteFile(file, []byte("mcpServers: {there: {url: http://"+machineIP+":7401/mcp}}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	here := map[string]string{"./dragoman.yaml": file, "dragoman": data}
	c := &container{
		Root: root, Volumes: map[string]string{}, Dir: config.Config.WorkingDir, Env: append(config.Config.Env, "GITHUB_TOKEN=x"),
		Command: append(config.Config.Entrypoint, strings.Fields(m[2])...),
	}
	for _, v := range regexp.MustCompile(`--volume ([^ :]+):([^ :]+)`).FindAllStringSubmatch(m[1], -1) {
		c.Volumes[v[2]] = here[v[1]]
	}
	return c
}

// try starts a container, looks at its health, calls a tool and stops it.
func try(t *testing.T, img v1.Image, c *container) {
	config, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = []string{envContainer + "=" + string(text)}
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET | syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS,
		Pdeathsig:  syscall.SIGKILL,
	}
	ready, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	runtime.LockOSThread() // Pdeathsig is about this thread
	defer runtime.UnlockOSThread()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	stopped := false
	defer func() {
		if !stopped {
			_ = cmd.Process.Kill()
			<-ended
		}
		if t.Failed() {
			t.Logf("the container says:\n%s", said.String())
		}
	}()
	pid := fmt.Sprint(cmd.Process.Pid)
	plug(t, pid)
	serveThere(t, c.Root)
	_ = ready.Close()

	// Like the port that an engine publishes: the client's Host stays as it is.
	client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, containerIP+":7300")
	}}}
	defer client.CloseIdleConnections()
	await(t, "http://127.0.0.1:7300/readyz", client, ended)
	user := []string{"-t", pid, "-m", "-p", "-n", "-i", "-u", "-r", "-w", "-S", fmt.Sprint(c.UID), "-G", fmt.Sprint(c.GID)}
	run(t, "", c.Env, need(t, "nsenter"), append(user, config.Config.Healthcheck.Test[1:]...)...)
	if got := call(t, client, "there__echo", `{"text":"hello from a container"}`); !strings.Contains(got, `"hello from a container"`) {
		t.Errorf("the call: %s", got)
	}

	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil { // config.Config.StopSignal
		t.Fatal(err)
	}
	select {
	case err := <-ended:
		stopped = true
		if err != nil {
			t.Errorf("the container ended with %v", err)
		}
	case <-time.After(45 * time.Second): // what the documents tell an engine to wait
		t.Error("the container doesn't stop")
	}
	for line := range strings.Lines(said.String()) {
		fine := strings.Contains(line, "code=open_to_network") || c.Volumes["/var/lib/dragoman"] == "" && strings.HasSuffix(line, "_not_kept\n")
		if strings.Contains(line, "level=ERROR") || strings.Contains(line, "level=WARN") && !fine {
			t.Errorf("the log has: %s", line)
		}
	}
}

// plug connects the container to the network of the machine.
func plug(t *testing.T, pid string) {
	t.Helper()
	ip := need(t, "ip")
	t.Cleanup(func() { _ = exec.Command(ip, "link", "del", "host0").Run() }) // gone by itself, but not at once
	for _, line := range []string{
		"link set lo up", "link add host0 type veth peer name eth0 netns " + pid, "addr add " + machineIP + "/24 dev host0", "link set host0 up",
	} {
		run(t, "", nil, ip, strings.Fields(line)...)
	}
	for _, line := range []string{"link set lo up", "addr add " + containerIP + "/24 dev eth0", "link set eth0 up"} {
		run(t, "", nil, need(t, "nsenter"), append([]string{"-t", pid, "-n", ip}, strings.Fields(line)...)...)
	}
}

// serveThere starts a server on the machine.
func serveThere(t *testing.T, root string) {
	t.Helper()
	c := exec.Command(filepath.Join(root, "usr/bin/dragoman"), "fake", "strict-2025-11-25", "--listen", machineIP+":7401", "--allow-unauthenticated-network-access")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Process.Signal(syscall.SIGTERM)
		_ = c.Wait()
	})
}

// await waits until a URL answers with 200.
func await(t *testing.T, url string, client *http.Client, ended chan error) {
	t.Helper()
	last := ""
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		select {
		case err := <-ended:
			ended <- err
			t.Fatalf("the container has ended: %v", err)
		default:
		}
		resp, err := client.Get(url)
		if err != nil {
			last = err.Error()
			continue
		}
		b, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if resp.StatusCode == http.StatusOK {
			return
		}
		last = resp.Status + " " + string(b)
	}
	t.Fatalf("%s isn't ready: %s", url, last)
}

// call calls a tool as a client of 2026-07-28, and returns the answer.
func call(t *testing.T, client *http.Client, tool, arguments string) string {
	t.Helper()
	body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"` + tool + `","arguments":` + arguments +
		`,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"try","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://127.0.0.1:7300/mcp", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{
		"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
		"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": tool,
	} {
		req.Header.Set(name, value)
	}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.Status + " " + string(b)
}
