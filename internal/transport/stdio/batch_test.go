package stdio

import (
	"errors"
	"testing"
)

func TestBatchLine(t *testing.T) {
	for _, c := range []struct{ path, arg, want string }{
		{`C:\n\npx.cmd`, `-y`, `-y`},
		{`C:\Program Files\nodejs\npx.cmd`, `@scope/server@1.2`, `@scope/server@1.2`},
		{`C:\n\npx.cmd`, ``, `""`},
		{`C:\n\npx.cmd`, `two words`, `"two words"`},
		{`C:\n\npx.cmd`, `https://x.example/mcp?a=1&b=2`, `"https://x.example/mcp?a=1&b=2"`},
		{`C:\n\npx.cmd`, `a|b>c<d^e(f)!g`, `"a|b>c<d^e(f)!g"`},
		{`C:\n\npx.cmd`, `a,b;c=d`, `"a,b;c=d"`}, // cmd.exe splits at these too
		{`C:\n\npx.cmd`, `say "hi"`, `"say ""hi"""`},
		{`C:\n\npx.cmd`, `" & calc & "`, `""" & calc & """`},
		{`C:\n\npx.cmd`, `\"`, `"\\"""`},
		{`C:\n\npx.cmd`, `C:\notes\`, `"C:\notes\\"`},
		{`C:\n\npx.cmd`, `C:\notes`, `C:\notes`},
		{`C:\n\npx.cmd`, `%PATH%`, `"%%cd:~,%PATH%%cd:~,%"`},
		{`C:\n\npx.cmd`, `{"a":"b"}`, `"{""a"":""b""}"`},
		{`C:\n\npx.cmd`, `größe`, `größe`},
	} {
		got, err := batchLine(c.path, []string{c.arg, "end"})
		if want := `cmd.exe /e:on /v:off /d /c ""` + c.path + `" ` + c.want + ` end"`; err != nil || got != want {
			t.Errorf("%s: %v\n got %s\nwant %s", c.arg, err, got, want)
		}
	}
	for _, arg := range []string{"a\nb", "a\rb", "a\x00b"} {
		if got, err := batchLine("x.cmd", []string{arg}); !errors.Is(err, errBatchArgument) {
			t.Errorf("%q: %s, %v", arg, got, err)
		}
	}
	for path, want := range map[string]bool{`C:\n\npx.cmd`: true, `C:\n\NPX.CMD`: true, `C:\n\x.bat`: true, `C:\n\node.exe`: false, `C:\n\cmd`: false, `cmd`: false, ``: false} {
		if got := isBatch(path); got != want {
			t.Errorf("%s: %t", path, got)
		}
	}
}
