package streamhttp

import (
	"context"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/transport"
)

// TestCountsMove checks that each counter changes. A counter that no code increments would
// always be exported as 0.
func TestCountsMove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, _ := openPipes(t, &hall{serve: func(_ context.Context, in transport.Incoming, r transport.Responder) {
			switch in.Msg.Method {
			case "prompts/get":
				panic("boom")
			case "resources/read": // answers with an event stream
				_ = r.Event([]byte(`{"jsonrpc":"2.0","method":"notifications/progress","params":{}}`))
			}
			finish(in, r)
		}}, func(o *Options) {
			o.MaxSessions = 4
			o.AllowInitialize = func(context.Context, transport.Newcomer) (time.Duration, bool) { return time.Millisecond, true } // changes Delayed
			o.Stream.Events, o.Stream.Bytes = 2, 1<<10
		})
		body, h := modernCall("1")
		d.post(body, h...)                                                                                                               // changes ModernRequests
		session := d.initialize("2025-11-25")                                                                                            // changes LegacyRequests and SessionsOpened
		d.post(note2(), session)                                                                                                         // changes OneWay
		d.post("{")                                                                                                                      // changes Refused
		d.post(note2())                                                                                                                  // changes Dropped
		d.post(call("3"), session)                                                                                                       //
		d.post(strings.Replace(call("4"), "tools/call", "prompts/get", 1), session)                                                      // changes Panics
		f := readEvents(t, d.send(context.Background(), "POST", strings.Replace(call("5"), "tools/call", "resources/read", 1), session)) // changes Streams
		id := f.next().ID
		for range 2 {
			f.next()
		}
		f.ends()
		f.close()
		back := d.get(context.Background(), session, "Last-Event-ID: "+string(id)) // changes Resumed
		back.next()
		back.close()
		stuck := d.get(context.Background(), session)
		synctest.Wait()
		g := d.hall.guests()[1]
		for range 200 { // changes SlowReaders
			_ = g.out.Send([]byte(`{"jsonrpc":"2.0","method":"notifications/x","params":{"a":"` + strings.Repeat("x", 1<<16) + `"}}`))
		}
		stuck.close()
		for range 6 { // changes Limited; the initialize after the next Sleep changes Evicted
			d.post(strings.ReplaceAll(initializeBody, "%s", "2025-11-25"))
		}
		time.Sleep(abandonable + time.Second)
		d.initialize("2025-11-25")
		time.Sleep(31 * time.Minute) // changes Expired and SessionsEnded
		d.initialize("2025-11-25")
		c := reflect.ValueOf(d.server.Counts())
		for i := range c.NumField() {
			if name := c.Type().Field(i).Name; name != "InFlight" && c.Field(i).Int() == 0 {
				t.Errorf("%s has not changed: %+v", name, c)
			}
		}
	})
}

func note2() string { return `{"jsonrpc":"2.0","method":"notifications/foo"}` }
