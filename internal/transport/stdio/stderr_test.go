package stdio

import (
	"errors"
	"strings"
	"testing"
	"testing/iotest"
)

func TestPrintable(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"plain ünï 世界\ttext  ", "plain ünï 世界\ttext"},
		{"\x1b[31;1mred\x1b[0m", "red"},
		{"\x1b]0;title\x07a\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "alink"},
		{"\x1bPdcs\x1b\\x\x1b(By\x1bcz\x1b", "xyz"},
		{"\x1b]never ends", ""},
		{"\x1b[", ""},
		{"10%\r50%\r100%\r", "100%"},
		{"bell\x07 nul\x00 del\x7f c1\u009b31m", `bell\a nul\x00 del\x7f c1\u009b31m`},
		{"bidi\u202e zero\u200b tag\U000e0041", `bidi\u202e zero\u200b tag\U000e0041`},
		{"bad\xff\xfe", `bad\xff\xfe`},
		{"no-break\u00a0space", "no-break space"},
		{strings.Repeat("a", maxLine+9), strings.Repeat("a", maxLine) + "…"},
	} {
		if got := Printable([]byte(c.in)); got != c.want {
			t.Errorf("%q shows as %q, want %q", c.in, got, c.want)
		}
	}
}

func FuzzPrintable(f *testing.F) {
	f.Add([]byte("\x1b[31mred\x1b]0;t\x07\xff\r\u202e"))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, r := range Printable(b) {
			if r < ' ' && r != '\t' || r >= 0x7f && r < 0xa0 {
				t.Fatalf("%q shows %q", b, r)
			}
		}
	})
}

func TestRingKeepsTheLastBytes(t *testing.T) {
	const all = "abcdefghijklmnopqrstuvwxyz"
	for step := 1; step <= len(all); step++ {
		r := ring{size: 7}
		for i := 0; i < len(all); i += step {
			r.write([]byte(all[i:min(i+step, len(all))]))
			seen := all[:min(i+step, len(all))]
			if got, want := string(r.bytes()), seen[max(0, len(seen)-7):]; got != want {
				t.Fatalf("in steps of %d: kept %q, want %q", step, got, want)
			}
		}
	}
}

func TestTail(t *testing.T) {
	wantLines(t, tail([]byte("one\n\ntwo\r\n  \nthree"), 2), "two", "three")
	wantLines(t, tail([]byte("\n\n"), 2))
	wantLines(t, tail([]byte("one\n"), 5), "one")
}

func TestDrainSplitsLines(t *testing.T) {
	var got []string
	long := strings.Repeat("x", 2*maxLine)
	in := strings.NewReader("one\r\n\ntwo\n" + long + "\nend")
	r := ring{size: 4}
	if err := drain(iotest.OneByteReader(in), &r, func(b []byte) { got = append(got, string(b)) }); err != nil {
		t.Error(err)
	}
	wantLines(t, got, "one", "", "two", long[:maxLine], "end")
	if string(r.bytes()) != "\nend" {
		t.Errorf("kept %q", r.bytes())
	}
	if err := drain(iotest.ErrReader(errors.ErrUnsupported), &r, nil); err != errors.ErrUnsupported {
		t.Errorf("got %v", err)
	}
}

func TestEnvironment(t *testing.T) {
	ours := []string{"PATH=/bin", "HOME=/h", "LC_ALL=C", "TOKEN=t", "Path=odd", "LANG=() { :; }", "=C:=C:\\", "bare", "TZ="}
	wantLines(t, filterEnv(ours, false, nil), "PATH=/bin", "HOME=/h", "LC_ALL=C", "TZ=")
	tokens := func(name string) bool { return strings.HasSuffix(name, "TOKEN") }
	wantLines(t, filterEnv(ours, false, tokens), "PATH=/bin", "HOME=/h", "LC_ALL=C", "TOKEN=t", "TZ=")
	all := func(string) bool { return true }
	wantLines(t, filterEnv(ours, false, all), "PATH=/bin", "HOME=/h", "LC_ALL=C", "TOKEN=t", "Path=odd", "LANG=() { :; }", "=C:=C:\\", "TZ=")
	proxies := []string{"https_proxy=http://p", "SSL_CERT_FILE=/ca", "ftp_proxy=http://q"}
	wantLines(t, filterEnv(proxies, false, nil), "https_proxy=http://p", "SSL_CERT_FILE=/ca")
	wantLines(t, filterEnv(proxies, true, nil), "https_proxy=http://p", "SSL_CERT_FILE=/ca")
	theirs := []string{"Path=C:\\", "SystemRoot=C:\\W", "=C:=C:\\", "ProgramFiles(x86)=P", "GITHUB_TOKEN=t", "HOME=/h"}
	wantLines(t, filterEnv(theirs, true, nil), "Path=C:\\", "SystemRoot=C:\\W", "ProgramFiles(x86)=P")
	wantLines(t, mergeEnv([]string{"B=1", "A=1"}, map[string]string{"B": "2=3", "b": "4"}, false), "A=1", "B=2=3", "b=4")
	wantLines(t, mergeEnv([]string{"=D:=1", "=C:=2"}, nil, true), "=C:=2", "=D:=1")
	wantLines(t, mergeEnv([]string{"Path=1"}, map[string]string{"PATH": "2"}, true), "PATH=2")
	if v, ok := lookupEnv([]string{"A=1", "a=2", "A=3"}, "A", false); v != "3" || !ok {
		t.Errorf("got %q", v)
	}
	if v, ok := lookupEnv([]string{"A=1", "a=2"}, "A", true); v != "2" || !ok {
		t.Errorf("got %q", v)
	}
}
