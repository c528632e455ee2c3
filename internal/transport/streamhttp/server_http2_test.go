package streamhttp

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/transport"
)

// TestHTTP2StreamOutlivesTheWriteTimeout checks that an HTTP/2 stream can stay open longer than
// the write timeout. net/http resets an HTTP/2 stream when its write deadline expires, even if no
// data is being written.
func TestHTTP2StreamOutlivesTheWriteTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, _ := openPipes(t, &hall{serve: func(ctx context.Context, in transport.Incoming, r transport.Responder) {
			switch in.Msg.ID {
			case "1":
				_ = r.Event(note(1))
				fallthrough
			case "2":
				select {
				case <-time.After(95 * time.Second):
				case <-ctx.Done():
				}
			case "3":
				<-ctx.Done()
				return
			}
			finish(in, r)
		}}, nil)
		tr := d.client.Transport.(*http.Transport)
		tr.Protocols = new(http.Protocols)
		tr.Protocols.SetUnencryptedHTTP2(true)
		for _, id := range []string{"1", "2"} {
			body, h := modernCall(id)
			resp := d.send(context.Background(), "POST", body, h...)
			b, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			if err != nil || resp.ProtoMajor != 2 || !strings.Contains(string(b), `"ok":true`) {
				t.Errorf("HTTP/%d %v %s", resp.ProtoMajor, err, b)
			}
		}
		session := d.initialize("2025-11-25")
		f := d.get(context.Background(), session)
		time.Sleep(40 * time.Second)
		_ = d.guest().out.Send(note(5))
		f.wantNote(5)
		f.close()
		body, h := modernCall("3")
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if resp, err := d.try(ctx, "POST", body, h...); err == nil {
			_, _ = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		}
		synctest.Wait()
		if n := d.server.flights.len(); n != 0 {
			t.Errorf("%d requests are in flight after the clients disconnected", n)
		}
		d.callModern()
	})
}
