package stdio

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/transport"
)

const (
	ping  = `{"jsonrpc":"2.0","id":1,"method":"ping"}`
	pong  = `{"jsonrpc":"2.0","id":1,"result":{}}`
	hello = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
)

// reading returns a Pipe that reads from r and discards what is written to it.
func reading(r io.Reader, o Options) *Pipe { return NewPipe(r, discard{}, o) }

type discard struct{}

func (discard) Write(b []byte) (int, error) { return len(b), nil }
func (discard) Close() error                { return nil }

// transcript reads p to its end and describes the result of each Read in one line.
func transcript(p *Pipe) []string {
	var got []string
	for {
		m, err := p.Read()
		var bad *BadLine
		var batch *transport.Batch
		switch {
		case err == nil:
			got = append(got, string(m.Raw))
		case errors.As(err, &batch):
			got = append(got, "batch "+string(batch.Raw))
		case errors.Is(err, transport.ErrTooLarge):
			got = append(got, "too large")
		case errors.As(err, &bad):
			s := fmt.Sprintf("bad %d", bad.Err.Code)
			if errors.Is(err, io.ErrUnexpectedEOF) {
				s += " cut"
			}
			got = append(got, s)
		default:
			if err != io.EOF {
				got = append(got, err.Error())
			}
			return got
		}
	}
}

func wantLines(t *testing.T, got []string, want ...string) {
	t.Helper()
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestS01_AnyCutGivesTheSameMessages(t *testing.T) {
	stream := ping + "\n" + hello + "\n" + pong + "\n"
	wantLines(t, transcript(reading(iotest.OneByteReader(strings.NewReader(stream)), Options{})), ping, hello, pong)
	wantLines(t, transcript(reading(strings.NewReader(stream), Options{})), ping, hello, pong)
}

func TestS02_LineEndsAreTakenLeniently(t *testing.T) {
	stream := "\r\n\n" + ping + "\r\n  \t\r\n" + hello + " \t \n\n  " + pong + "\n"
	wantLines(t, transcript(reading(strings.NewReader(stream), Options{})), ping, hello, "  "+pong)
}

func TestS03_LongLinesWork(t *testing.T) {
	for _, size := range []int{64 << 10, 3 << 20} {
		long := `{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":"` + strings.Repeat("a", size) + `"}}`
		wantLines(t, transcript(reading(strings.NewReader(long+"\n"+ping+"\n"), Options{})), long, ping)
	}
}

func TestS04_TooLongALineIsNotKept(t *testing.T) {
	const total = 64 << 20
	r := io.MultiReader(io.LimitReader(endless('x'), total), strings.NewReader("\n"+ping+"\n"))
	p := reading(r, Options{})
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := p.Read()
	if !errors.Is(err, transport.ErrTooLarge) {
		t.Fatalf("got %v, want transport.ErrTooLarge", err)
	}
	var refused *jsonrpc.Error
	if !errors.As(err, &refused) || refused.Code != jsonrpc.CodeInvalidRequest {
		t.Errorf("got %v, want an error that can be sent to the peer", err)
	}
	wantLines(t, transcript(p), ping)
	runtime.ReadMemStats(&after)
	// Growing the buffer to the limit allocates a few times the limit. It never allocates as much
	// as the length of the line.
	if n := after.TotalAlloc - before.TotalAlloc; n > 8*MaxFromClient {
		t.Errorf("reading allocated %d bytes", n)
	}
}

func TestS04_LimitIsExact(t *testing.T) {
	for _, tail := range []string{"\n", "\r\n", "  \r\n", strings.Repeat(" ", 2*readBuffer) + "\n", ""} {
		fits, over := len(ping), len(ping)-1
		o := Options{Limits: jsonrpc.Limits{Bytes: fits}}
		wantLines(t, transcript(reading(strings.NewReader(ping+tail), o)), ping)
		o.Limits.Bytes = over
		wantLines(t, transcript(reading(strings.NewReader(ping+tail), o)), "too large")
	}
}

// TestS04_IsReportedAtOnce checks that the pipe reports an endless line as soon as the line is
// too long.
func TestS04_IsReportedAtOnce(t *testing.T) {
	r, w := io.Pipe()
	defer w.Close()
	var wg sync.WaitGroup
	defer wg.Wait()
	defer r.Close()
	wg.Go(func() { _, _ = w.Write(bytes.Repeat([]byte("x"), readBuffer)) })
	if _, err := reading(r, Options{Limits: jsonrpc.Limits{Bytes: 100}}).Read(); !errors.Is(err, transport.ErrTooLarge) {
		t.Errorf("got %v, want transport.ErrTooLarge", err)
	}
}

func TestS05_PrettyPrintedJSONIsRefusedLineByLine(t *testing.T) {
	stream := "{\n  \"jsonrpc\": \"2.0\",\n  \"id\": 1, \"method\": \"ping\"\n}\n" + ping + "\n"
	wantLines(t, transcript(reading(strings.NewReader(stream), Options{})),
		"bad -32700", "bad -32700", "bad -32700", "bad -32700", ping)
}

func TestS06_HalfAMessageIsNeverDelivered(t *testing.T) {
	for n := 1; n < len(ping); n++ {
		wantLines(t, transcript(reading(strings.NewReader(hello+"\n"+ping[:n]), Options{})), hello, "bad -32700 cut")
	}
	wantLines(t, transcript(reading(strings.NewReader("["+ping), Options{})), "bad -32700 cut")
	broken := iotest.TimeoutReader(iotest.OneByteReader(strings.NewReader("{}\n")))
	wantLines(t, transcript(reading(broken, Options{})), iotest.ErrTimeout.Error())
}

func TestS07_LastMessageNeedsNoNewline(t *testing.T) {
	wantLines(t, transcript(reading(strings.NewReader(hello+"\n"+ping), Options{})), hello, ping)
	wantLines(t, transcript(reading(strings.NewReader("["+ping+"]"), Options{})), "batch ["+ping+"]")
}

func TestS13_BannerIsReportedAndShown(t *testing.T) {
	banner := "Server started on stdio " + strings.Repeat("!", 300)
	p := reading(strings.NewReader(banner+"\n"+pong+"\n"), Options{})
	_, err := p.Read()
	var bad *BadLine
	if !errors.As(err, &bad) || string(bad.Line) != banner[:shownBytes] {
		t.Fatalf("got %v, want the banner's beginning", err)
	}
	wantLines(t, transcript(p), pong)
}

func TestBatchIsHandedOver(t *testing.T) {
	batch := "[" + ping + "," + hello + "]"
	p := reading(strings.NewReader(" "+batch+"\n"+ping+"\n"), Options{})
	_, err := p.Read()
	var refused *jsonrpc.Error
	if !errors.As(err, &refused) || refused.Code != jsonrpc.CodeInvalidRequest {
		t.Errorf("got %v, want an error for callers without batches", err)
	}
	var whole *transport.Batch
	if !errors.As(err, &whole) {
		t.Fatalf("got %v, want a batch", err)
	}
	if items, err := jsonrpc.ScanBatch(whole.Raw, jsonrpc.Limits{}); err != nil || len(items) != 2 {
		t.Errorf("got %d items, %v", len(items), err)
	}
	wantLines(t, transcript(p), ping)
}

// TestU12_PauseWithinALine checks that a line is read correctly if there is a pause of a minute in
// its middle.
func TestU12_PauseWithinALine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, w := io.Pipe()
		var wg sync.WaitGroup
		wg.Go(func() {
			_, _ = io.WriteString(w, ping[:10])
			time.Sleep(time.Minute)
			_, _ = io.WriteString(w, ping[10:]+"\n")
			_ = w.Close()
		})
		wantLines(t, transcript(reading(r, Options{})), ping)
		wg.Wait()
	})
}

func TestCloseUnblocksRead(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	p := NewPipe(r, discard{}, Options{})
	var wg sync.WaitGroup
	wg.Go(func() {
		if _, err := p.Read(); err != io.ErrClosedPipe {
			t.Errorf("got %v, want io.ErrClosedPipe", err)
		}
	})
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	wg.Wait()
}

// endless is a reader that repeats one byte without end.
type endless byte

func (e endless) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = byte(e)
	}
	return len(b), nil
}

// FuzzFramer passes arbitrary bytes to a Pipe in small pieces, with small limits. The Pipe must
// return the same messages and errors as the simple code here, which splits the bytes at newlines.
func FuzzFramer(f *testing.F) {
	for _, s := range []string{
		ping + "\n" + pong, "\r\n \n" + hello + "\r\n", "[" + ping + "]\n", "{\n}\n", "x", "",
		strings.Repeat("y", 90) + "\n" + ping + "\n", strings.Repeat(" ", 99) + "z\n", ping + strings.Repeat(" ", 99),
	} {
		f.Add([]byte(s), uint8(1), uint8(80))
		f.Add([]byte(s), uint8(7), uint8(16))
	}
	f.Fuzz(func(t *testing.T, stream []byte, step, limit uint8) {
		limits := jsonrpc.Limits{Bytes: int(limit) + 1}
		var want []string
		parts := bytes.Split(stream, []byte("\n"))
		for i, line := range parts {
			line = bytes.TrimRight(line, "\r\n \t")
			last := i == len(parts)-1
			switch {
			case len(line) == 0:
			case len(line) > limits.Bytes:
				want = append(want, "too large")
			case jsonrpc.IsBatch(line) && (!last || jsonrpc.Valid(line, limits) == nil):
				want = append(want, "batch "+string(line))
			default:
				_, err := jsonrpc.Scan(line, limits)
				var refused *jsonrpc.Error
				switch {
				case err == nil:
					want = append(want, string(line))
				case errors.As(err, &refused) && last:
					want = append(want, fmt.Sprintf("bad %d cut", refused.Code))
				case errors.As(err, &refused):
					want = append(want, fmt.Sprintf("bad %d", refused.Code))
				}
			}
		}
		for _, buffer := range []int{16, readBuffer} { // 16 bytes is the smallest buffer of bufio
			p := reading(nil, Options{Limits: limits})
			p.in.r = bufio.NewReaderSize(&cutter{stream, int(step) + 1}, buffer)
			wantLines(t, transcript(p), want...)
		}
	})
}

// cutter is a reader that returns at most step bytes at a time.
type cutter struct {
	b    []byte
	step int
}

func (c *cutter) Read(b []byte) (int, error) {
	if len(c.b) == 0 {
		return 0, io.EOF
	}
	n := copy(b[:min(len(b), c.step)], c.b)
	c.b = c.b[n:]
	return n, nil
}
