package sse

import (
	"context"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/testkit/pipetest"
	"github.com/dragoman-mcp/dragoman/internal/transport"
)

// TestCountsMove checks that each counter changes. A counter that no code increments would
// always be exported as 0.
func TestCountsMove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := pipetest.Listen()
		d := openDoor(t, &hall{}, l, l.Dial, func(o *Options) {
			o.MaxStreams = 4
			o.AllowStream = func(context.Context, transport.Newcomer) (time.Duration, bool) { return time.Millisecond, true } // changes Delayed
		})
		f := d.connect()                                                      // changes Opened and Streams
		f.callGood()                                                          // changes Requests
		f.post(202, `{"jsonrpc":"2.0","method":"notifications/initialized"}`) // changes OneWay
		f.post(400, "{")                                                      // changes Refused
		f.post(400, `{"jsonrpc":"2.0","method":"notifications/panic"}`)       // changes Panics
		stuck := d.connect()
		out := d.hall.last().out
		for range 500 { // changes SlowReaders
			_ = out.Send([]byte(`{"jsonrpc":"2.0","method":"notifications/x","params":{"a":"` + strings.Repeat("x", 1<<16) + `"}}`))
		}
		stuck.close()
		for range 5 { // changes Limited
			if status, _, _ := d.do("GET", "/x/sse", "", "Accept: application/json"); status != 406 {
				t.Errorf("status %d", status)
			}
		}
		more := d.connect()
		defer more.close()
		if status, _, _ := d.do("GET", "/x/sse", ""); status != 503 {
			t.Errorf("status %d", status)
		}
		c := reflect.ValueOf(d.server.Counts())
		for i := range c.NumField() {
			if c.Field(i).Int() == 0 {
				t.Errorf("%s has not changed: %+v", c.Type().Field(i).Name, c)
			}
		}
		f.close()
	})
}
