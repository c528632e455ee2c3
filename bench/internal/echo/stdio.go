package echo

import (
	"bufio"
	"bytes"
	"errors"
	"io"

	"github.com/dragoman-mcp/dragoman/bench/internal/words"
)

// Stdio answers the messages on in, one per line, until in ends. It writes the answers to all lines that
// have arrived together, as a fast server would.
func Stdio(era words.Era, in io.Reader, out io.Writer) error {
	lines, answers := bufio.NewReaderSize(in, 64<<10), bufio.NewWriterSize(out, 64<<10)
	var line, body []byte
	for {
		var err error
		line, err = readLine(line[:0], lines)
		if len(bytes.TrimSpace(line)) > 0 {
			if a := reply(body[:0], era, parse(line)); a.body != nil {
				body = append(a.body, '\n')
				_, _ = answers.Write(body) // Flush returns the error
			}
		}
		if lines.Buffered() == 0 || err != nil {
			err = errors.Join(err, answers.Flush())
		}
		switch {
		case err == io.EOF || errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
	}
}

// readLine appends a line to dst, with its line end.
func readLine(dst []byte, lines *bufio.Reader) ([]byte, error) {
	for {
		part, err := lines.ReadSlice('\n')
		dst = append(dst, part...)
		if len(dst) > maxMessage {
			return dst, errors.New("a line is too long")
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return dst, err
		}
	}
}
