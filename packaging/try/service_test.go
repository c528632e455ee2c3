//go:build linux

package try

import (
	"bytes"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// boot makes a machine of this one: its files with a layer on top, in which the deb is installed, and
// systemd as the first process. The exit code 77 means that this machine doesn't allow that.
const boot = `
dir=$1 deb=$2
mkdir "$dir/top" &&
mount --make-rprivate / && mount -t tmpfs tmpfs "$dir/top" && mkdir "$dir/top/upper" "$dir/top/work" "$dir/top/root" &&
mount -t overlay overlay -o "lowerdir=/,upperdir=$dir/top/upper,workdir=$dir/top/work" "$dir/top/root" || exit 77
cp "$deb" "$dir/top/root/root/dragoman.deb" && cd "$dir/top/root" &&
mount -t proc proc proc && mount -t sysfs sysfs sys && mount -t cgroup2 cgroup2 sys/fs/cgroup &&
mount -t tmpfs tmpfs run && mount -t tmpfs tmpfs tmp && mount -t tmpfs -o mode=755 tmpfs dev &&
mkdir dev/pts dev/shm old && mount -t devpts -o newinstance,ptmxmode=666 devpts dev/pts && ln -s pts/ptmx dev/ptmx || exit 77
for device in null zero full random urandom tty; do
	touch "dev/$device" && mount --bind "/dev/$device" "dev/$device" || exit 77
done
pivot_root . old && umount -l old && cd / || exit 77
set -e
dpkg --no-triggers -i /root/dragoman.deb
test ! -e /etc/systemd/system/multi-user.target.wants/dragoman.service # it isn't started on installation
cat >/etc/systemd/system/try.target <<end
[Unit]
Requires=basic.target
After=basic.target
end
for unit in systemd-udevd.service systemd-udev-trigger.service systemd-udevd-control.socket systemd-udevd-kernel.socket; do
	ln -sf /dev/null /etc/systemd/system/$unit
done
exec env -i container=other PATH=/usr/sbin:/usr/bin:/sbin:/bin "$3" --system --unit=try.target --log-target=journal
`

// configuration has a server that needs a secret, and that looks at what it may write.
const configuration = `mcpServers:
  own:
    command: sh
    args: [-c, 'test "$API_TOKEN" = s3cret || exit 1; touch "$HOME/mine" /tmp/mine /srv/open/mine /home/ada/mine 2>/dev/null; node -p 1+1 >"$HOME/node" 2>&1; exec dragoman fake strict-2025-11-25']
    env: {API_TOKEN: "${API_TOKEN}"}
`

// TestService installs the deb and runs its service under a real systemd, with everything that the unit
// forbids, and does what docs/deployment.md and docs/console.md say about it.
func TestService(t *testing.T) {
	m := newMachine(t, result(t, "dragoman_*_"+runtime.GOARCH+".deb"))
	m.write("/etc/dragoman/dragoman.yaml", configuration)
	m.run("sh", "-c", "install -m 600 /dev/null /etc/dragoman/environment && echo API_TOKEN=s3cret >/etc/dragoman/environment")
	m.run("install", "-d", "-m", "777", "/srv/open", "/home/ada")
	m.run("systemctl", "enable", "--now", "dragoman")
	m.until("serve", func() bool {
		_, err := m.try("dragoman", "healthcheck")
		return err == nil
	})
	if got := m.run("dragoman", "call", "http://127.0.0.1:7300/mcp", "own__echo", "text=hello from a service"); !strings.Contains(got, "hello from a service") {
		t.Errorf("the call: %s", got)
	}
	if got := m.run("ls", "/var/lib/dragoman/mine"); got == "" {
		t.Error("a server can't write in its home")
	}
	if got := m.run("sh", "-c", "ls /tmp/mine /srv/open/mine /home/ada/mine 2>/dev/null || true"); got != "" {
		t.Errorf("a server could write %s", got)
	}
	if _, err := m.try("sh", "-c", "PATH=/usr/local/bin:/usr/bin; command -v node"); err == nil {
		if got := m.run("cat", "/var/lib/dragoman/node"); got != "2\n" {
			t.Errorf("Node in the service: %s", got)
		}
	}
	if link := m.run("runuser", "-u", "dragoman", "--", "env", "HOME=/var/lib/dragoman", "dragoman", "console"); !strings.HasPrefix(link, "http://127.0.0.1:7300/console/?link=") {
		t.Errorf("the link of the service's user: %s", link)
	}

	before := m.run("systemctl", "show", "--value", "-p", "MainPID", "dragoman")
	m.write("/etc/dragoman/dragoman.yaml", configuration+"  second: {command: dragoman, args: [fake, strict-2026-07-28]}\n")
	m.run("systemctl", "reload", "dragoman")
	m.until("the second server", func() bool {
		got, err := m.try("dragoman", "call", "http://127.0.0.1:7300/mcp", "second__echo", "text=x")
		return err == nil && strings.Contains(got, "x")
	})
	if after := m.run("systemctl", "show", "--value", "-p", "MainPID", "dragoman"); after != before {
		t.Errorf("systemctl reload has started another process: %s, %s", before, after)
	}
	m.run("systemctl", "kill", "--kill-whom=main", "-s", "KILL", "dragoman")
	m.until("the service to be restarted", func() bool {
		got, err := m.try("sh", "-c", "systemctl is-active dragoman && dragoman healthcheck && systemctl show --value -p MainPID dragoman")
		return err == nil && !strings.Contains(got, before)
	})

	m.run("systemctl", "stop", "dragoman")
	if got := m.run("systemctl", "show", "-p", "Result", "-p", "ExecMainStatus", "dragoman"); !strings.Contains(got, "Result=success\n") || !strings.Contains(got, "ExecMainStatus=0\n") {
		t.Errorf("after systemctl stop:\n%s", got)
	}
	m.run("systemctl", "start", "dragoman")
	m.run("dpkg", "--no-triggers", "--purge", "dragoman")
	if got, err := m.try("sh", "-c", "pgrep -x dragoman; ls -d /var/lib/dragoman /etc/systemd/system/*/dragoman.service"); err == nil {
		t.Errorf("after the removal there is %s", got)
	}
}

// machine is a systemd in namespaces of its own.
type machine struct {
	t   *testing.T
	pid string
}

func newMachine(t *testing.T, deb string) *machine {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED: only root can create the namespaces")
	}
	systemd := "/lib/systemd/systemd"
	for _, tool := range []string{"dpkg", "nsenter", "systemctl", systemd} {
		need(t, tool)
	}
	var said bytes.Buffer
	cmd := exec.Command("sh", "-c", boot, "boot", t.TempDir(), deb, systemd)
	cmd.Stdout, cmd.Stderr = &said, &said
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET |
		syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS | syscall.CLONE_NEWCGROUP}
	if err := cmd.Start(); err != nil {
		t.Skipf("SKIPPED: this machine has no such namespaces: %v", err)
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(ended)
	}()
	m := &machine{t, ""}
	t.Cleanup(func() {
		if t.Failed() && m.pid != "" {
			log, _ := m.try("journalctl", "--no-pager", "-u", "dragoman")
			t.Logf("the journal:\n%s", log)
		}
		_ = cmd.Process.Kill() // with it ends all that runs in its namespaces
		<-ended
	})
	m.pid = strconv.Itoa(cmd.Process.Pid)
	m.until("systemd", func() bool {
		select {
		case <-ended:
			m.pid = ""
			if cmd.ProcessState.ExitCode() == 77 {
				t.Skipf("SKIPPED: this machine allows no such mounts: %s", said.String())
			}
			t.Fatalf("%s\n%s", cmd.ProcessState, said.String())
		default:
		}
		got, _ := m.try("systemctl", "is-active", "try.target")
		return got == "active\n"
	})
	return m
}

// try runs a command in the machine and returns all that it prints.
func (m *machine) try(args ...string) (string, error) {
	c := exec.CommandContext(m.t.Context(), "nsenter", append([]string{"-t", m.pid, "-a", "--"}, args...)...)
	c.Env = []string{"PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "HOME=/root"}
	out, err := c.CombinedOutput()
	return string(out), err
}

// run runs a command in the machine, which must succeed.
func (m *machine) run(args ...string) string {
	m.t.Helper()
	out, err := m.try(args...)
	if err != nil {
		m.t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

func (m *machine) write(path, text string) {
	m.t.Helper()
	m.run("sh", "-c", `printf %s "$1" >"$0"`, path, text)
}

func (m *machine) until(what string, ok func() bool) {
	m.t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(end) {
			m.t.Fatalf("waited in vain for %s", what)
		}
	}
}
