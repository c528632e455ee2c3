package load

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman/bench/internal/words"
	"github.com/dragoman-mcp/dragoman/internal/workbench/rawlink"
)

var errPipeEnded = errors.New("the process closed its stdout")

// Pipe is a connection on stdio that several Clients share, as one MCP client with several calls in
// flight would use it. Its Clients are opened one after another, and only the first shakes hands.
type Pipe struct {
	opened bool

	writing sync.Mutex // is held for a line on in
	in      io.Writer

	mu      sync.Mutex // not held while writing, because the process may not read until we do
	waiting map[string]chan []byte
	ended   chan struct{} // closed when out has ended
}

// NewPipe returns a Pipe to a process whose stdin is in and whose stdout is out. It reads until out
// ends.
func NewPipe(in io.Writer, out io.Reader) *Pipe {
	p := &Pipe{in: in, waiting: map[string]chan []byte{}, ended: make(chan struct{})}
	go p.receive(bufio.NewReaderSize(out, 64<<10))
	return p
}

// Dial returns a Client that uses p. See the function Dial for number.
func (p *Pipe) Dial(era words.Era, number int) *Client {
	return &Client{Tool: "echo", Name: "dragoman-bench", era: era, pipe: p, answers: make(chan []byte, 1), next: firstID(number)}
}

// receive gives each answer to the Client that waits for its id.
func (p *Pipe) receive(lines *bufio.Reader) {
	defer close(p.ended)
	for {
		line, err := rawlink.ReadLine(lines, maxMessage)
		if err != nil {
			return
		}
		// No text contains a quote, so the first match is the id of the answer. Notifications
		// have none.
		_, rest, _ := bytes.Cut(line, []byte(`"id":`))
		id := rest[:min(idDigits, len(rest))]
		p.mu.Lock()
		answers := p.waiting[string(id)]
		delete(p.waiting, string(id))
		p.mu.Unlock()
		if answers != nil {
			answers <- line
		}
	}
}

// ask sends a line, which ends with a newline. If it is a request with the given id, ask returns the
// answer.
func (p *Pipe) ask(line, id []byte, answers chan []byte) ([]byte, error) {
	if len(id) > 0 {
		p.mu.Lock()
		p.waiting[string(id)] = answers
		p.mu.Unlock()
	}
	p.writing.Lock()
	_, err := p.in.Write(line)
	p.writing.Unlock()
	if err != nil || len(id) == 0 {
		return nil, err
	}
	select {
	case answer := <-answers:
		return answer, nil
	case <-p.ended:
		return nil, errPipeEnded
	case <-time.After(answerTimeout):
		return nil, fmt.Errorf("no answer within %v", answerTimeout)
	}
}

// firstID returns the first id of the Client with the given number.
func firstID(number int) uint64 {
	return 100_000_000_000_000 + uint64(number)*100_000_000_000
}

func (c *Client) newID() string {
	c.next++
	return strconv.FormatUint(c.next-1, 10)
}
