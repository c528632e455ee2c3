package stdio

import (
	"errors"
	"strings"
)

// isBatch reports whether Windows runs a file with cmd.exe. npm, npx and most programs from npm are such
// files there.
func isBatch(path string) bool {
	ext := strings.ToLower(path[max(0, len(path)-4):])
	return ext == ".cmd" || ext == ".bat"
}

var errBatchArgument = errors.New("a batch file cannot get an argument with a line break or a zero byte")

// batchLine returns the command line with which cmd.exe runs a batch file. The usual quoting isn't enough:
// cmd.exe would split https://x/?a=1&b=2 at the "&" and start b=2, replace %PATH%, and take \" for the end
// of a quotation (CVE-2024-24576 is this in other languages). The batch file hands its arguments on as %*,
// so its program must understand them too.
//
// /d leaves out the commands of the registry's AutoRun, /v:off keeps "!", and /e:on is needed for "%".
func batchLine(path string, args []string) (string, error) {
	var b strings.Builder
	b.WriteString(`cmd.exe /e:on /v:off /d /c ""` + path + `"`)
	for _, arg := range args {
		if strings.ContainsAny(arg, "\r\n\x00") {
			return "", errBatchArgument
		}
		b.WriteByte(' ')
		writeBatchArgument(&b, arg)
	}
	b.WriteByte('"') // cmd.exe removes the first and the last quotation mark
	return b.String(), nil
}

// writeBatchArgument writes an argument that cmd.exe and the rules of C compilers for arguments split in
// the same way.
func writeBatchArgument(b *strings.Builder, arg string) {
	quote := arg == "" || strings.HasSuffix(arg, `\`) || strings.ContainsFunc(arg, func(r rune) bool {
		plain := r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' || strings.ContainsRune(`#$*+-./:?@\_`, r)
		return r < 0xa0 && !plain
	})
	if quote {
		b.WriteByte('"')
	}
	backslashes := 0 // those just written: before a quotation mark they count double
	for i := range len(arg) {
		switch c := arg[i]; c {
		case '\\':
			backslashes++
		case '"':
			b.WriteString(strings.Repeat(`\`, backslashes) + `"`) // two marks are one, and don't end the quotation
			backslashes = 0
		case '%':
			b.WriteString("%%cd:~,") // with the next "%", an empty part of a variable: what remains is "%"
			backslashes = 0
		default:
			backslashes = 0
		}
		b.WriteByte(arg[i])
	}
	if quote {
		b.WriteString(strings.Repeat(`\`, backslashes) + `"`)
	}
}
