//go:build linux

package try

import (
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
)

// TestDeb checks that the deb has the right files in the right places, that its scripts are
// valid, and that the program in it starts a server for a client.
func TestDeb(t *testing.T) {
	dpkg := need(t, "dpkg-deb")
	file := result(t, "dragoman_*_"+runtime.GOARCH+".deb")
	info := run(t, "", nil, dpkg, "--info", file)
	for _, want := range []string{"Package: dragoman\n", "Architecture: " + runtime.GOARCH + "\n", "Pre-Depends: passwd\n", "Section: net\n"} {
		if !strings.Contains(info, want) {
			t.Errorf("the deb lacks %q:\n%s", want, info)
		}
	}
	list := run(t, "", nil, dpkg, "--contents", file)
	for _, want := range []string{
		`-rwxr-xr-x root/root .* \./usr/bin/dragoman`, `-rw-r----- root/dragoman .* \./etc/dragoman/dragoman\.yaml`,
		`-rw-r--r-- root/root .* \./usr/lib/systemd/system/dragoman\.service`, `-rw-r--r-- root/root .* \./usr/share/man/man1/dragoman-serve\.1\.gz`,
		`.* \./usr/share/bash-completion/completions/dragoman`, `.* \./usr/share/zsh/vendor-completions/_dragoman`, `.* \./usr/share/doc/dragoman/copyright`,
	} {
		if !regexp.MustCompile(`(?m)^` + want + `$`).MatchString(list) {
			t.Errorf("the deb lacks %s:\n%s", want, list)
		}
	}
	dir := t.TempDir()
	run(t, "", nil, dpkg, "--raw-extract", file, dir)
	conffiles, err := os.ReadFile(filepath.Join(dir, "DEBIAN", "conffiles"))
	if err != nil || strings.TrimSpace(string(conffiles)) != "/etc/dragoman/dragoman.yaml" {
		t.Errorf("conffiles: %q, %v", conffiles, err)
	}
	for _, script := range []string{"preinst", "postinst", "prerm", "postrm"} {
		run(t, "", nil, "sh", "-n", filepath.Join(dir, "DEBIAN", script))
	}
	program := filepath.Join(dir, "usr", "bin", "dragoman")
	run(t, "", []string{}, program, "config", "check", "-c", filepath.Join(dir, "etc", "dragoman", "dragoman.yaml"))
	home := t.TempDir()
	wantServer(t, []string{"HOME=" + home, "PATH=" + folder(t, "sh")}, program, program, "run")
}

// TestUnit checks that systemd accepts the unit and gives it a good security rating.
func TestUnit(t *testing.T) {
	analyze := need(t, "systemd-analyze")
	b, err := os.ReadFile(filepath.Join("..", "files", "dragoman.service"))
	if err != nil {
		t.Fatal(err)
	}
	unit := string(b)
	for _, want := range []string{"NoNewPrivileges=yes", "ProtectSystem=strict", "StateDirectory=dragoman", "User=dragoman", "Environment=HOME=/var/lib/dragoman"} {
		if !strings.Contains(unit, "\n"+want+"\n") {
			t.Errorf("the unit lacks %s", want)
		}
	}
	if strings.Contains(unit, "\nMemoryDenyWriteExecute=yes") {
		t.Error("Node cannot run in the service")
	}
	// systemd-analyze verify looks for the program at its installed path, so replace that
	// path.
	here := filepath.Join(t.TempDir(), "dragoman.service")
	if err := os.WriteFile(here, []byte(strings.ReplaceAll(unit, "/usr/bin/dragoman", "/bin/true")), 0o644); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(analyze, "verify", "--man=no", here).CombinedOutput()
	if err != nil || strings.Contains(string(out), here) || strings.Contains(string(out), "dragoman.service:") {
		t.Errorf("%v: %s", err, out)
	}
}

// TestRPM checks the size and the first bytes of the rpm. If rpm is installed, it also checks the
// list of files.
func TestRPM(t *testing.T) {
	file := result(t, "dragoman-*.rpm")
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if len(b) < 1<<20 || binary.BigEndian.Uint32(b) != 0xedabeedb {
		t.Fatalf("%d bytes beginning with %x", len(b), b[:min(4, len(b))])
	}
	list := run(t, "", nil, need(t, "rpm"), "-qp", "--nosignature", "--qf", "[%{FILEMODES:perms} %{FILEUSERNAME}/%{FILEGROUPNAME} %{FILEFLAGS:fflags} %{FILENAMES}\n]", file)
	for _, want := range []string{`-rwxr-xr-x root/root  /usr/bin/dragoman`, `-rw-r----- root/dragoman cn /etc/dragoman/dragoman.yaml`, `/usr/share/zsh/site-functions/_dragoman`} {
		if !strings.Contains(list, want+"\n") {
			t.Errorf("the rpm lacks %s:\n%s", want, list)
		}
	}
}
