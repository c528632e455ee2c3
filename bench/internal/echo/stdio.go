package echo

import (
	"bytes"
	"errors"
	"io"

	"github.com/dragoman-mcp/dragoman/bench/internal/words"
)

const (
	maxLine  = 16 << 20 // the maximum number of bytes in one message
	flushAt  = 64 << 10 // Stdio writes the buffered answers as soon as they have this many bytes
	readSize = 64 << 10
)

var errLine = errors.New("echo: the line is too long")

// Stdio answers the messages on in, one per line, until in ends. It reads all available lines and
// writes their answers together, as a fast server would.
func Stdio(era words.Era, in io.Reader, out io.Writer) error {
	buf := make([]byte, readSize)
	held, searched := 0, 0 // buf[:held] has been read; buf[:searched] has no newline
	var answers []byte
	for {
		if held == len(buf) {
			if held >= maxLine {
				return errLine
			}
			buf = append(buf, make([]byte, len(buf))...)
		}
		n, err := in.Read(buf[held:])
		held += n
		from := 0
		for {
			end := bytes.IndexByte(buf[searched:held], '\n')
			if end < 0 {
				break
			}
			line := bytes.TrimSpace(buf[from : searched+end])
			searched += end + 1
			from = searched
			if len(line) == 0 {
				continue
			}
			if a := reply(answers, era, parse(line)); a.body != nil {
				answers = append(a.body, '\n')
			}
			if len(answers) >= flushAt {
				if _, err := out.Write(answers); err != nil {
					return err
				}
				answers = answers[:0]
			}
		}
		if len(answers) > 0 {
			if _, err := out.Write(answers); err != nil {
				return err
			}
			answers = answers[:0]
		}
		copy(buf, buf[from:held])
		held -= from
		searched = held
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
