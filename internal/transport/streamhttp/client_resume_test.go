package streamhttp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/transport"
)

// script is a server that answers each request with the next step, and records the time of each
// request.
type script struct {
	t     *testing.T
	start time.Time
	steps []func(*http.Request) (*http.Response, error)
	log   []string
}

func (s *script) RoundTrip(r *http.Request) (*http.Response, error) {
	s.log = append(s.log, fmt.Sprintf("%v %s %s", time.Since(s.start), r.Method, r.Header.Get("Last-Event-ID")))
	if len(s.log) > len(s.steps) {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	return s.steps[len(s.log)-1](r)
}

func sse(body string) func(*http.Request) (*http.Response, error) {
	return status(200, "text/event-stream", body)
}

func status(code int, media, body string) func(*http.Request) (*http.Response, error) {
	return func(*http.Request) (*http.Response, error) { return respond(code, media, body), nil }
}

func fail(*http.Request) (*http.Response, error) { return nil, errors.New("connection refused") }

func scripted(t *testing.T, steps ...func(*http.Request) (*http.Response, error)) (*Client, *script) {
	s := &script{t: t, start: time.Now(), steps: steps}
	c, err := NewClient("http://fake/mcp", ClientOptions{HTTP: s})
	if err != nil {
		t.Fatal(err)
	}
	return c, s
}

func (s *script) want(log ...string) {
	s.t.Helper()
	if strings.Join(s.log, "; ") != strings.Join(log, "; ") {
		s.t.Errorf("got %q, want %q", s.log, log)
	}
}

func TestE07_ReconnectAfterExactlyTheServersTime(t *testing.T) {
	for retry, want := range map[string]string{
		"":                     "1s",
		"retry: 700\n":         "700ms",
		"retry: 0\n":           "500ms",
		"retry: 99999999999\n": "1m0s",
		"retry: soon\n":        "1s",
	} {
		synctest.Test(t, func(t *testing.T) {
			c, s := scripted(t, sse("id: 1\n"+retry+"data: \n\n"), sse("id: 2\ndata: "+msgReply+"\n\n"))
			if _, err := c.Do(t.Context(), outgoing(legacyRules), nil); err != nil {
				t.Error(err)
			}
			s.want("0s POST ", want+" GET 1")
		})
	}
}

func TestE07_BadEventIDsAreNeverEchoed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := scripted(t,
			sse("id: 1\ndata: \n\nid: a\x00b\ndata: \n\nid: \x7f\ndata: \n\nid: "+strings.Repeat("x", 2000)+"\ndata: \n\n"),
			sse("data: "+msgReply+"\n\n"))
		if _, err := c.Do(t.Context(), outgoing(legacyRules), nil); err != nil {
			t.Error(err)
		}
		s.want("0s POST ", "1s GET 1")
	})
}

func TestResumeUntilTheAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b inbox
		c, s := scripted(t,
			sse("id: 1\nretry: 600\ndata:\n\n"+events(msgNotice)),
			fail,
			status(503, "text/plain", "busy"),
			sse("id: 2\ndata: "+msgAsking+"\n\n"),
			sse("id: 3\ndata: "+msgNotice+"\n\ndata: {"),
			sse("data: "+msgReply+"\n\n"))
		if _, err := c.Do(t.Context(), outgoing(legacyRules), b.take); err != nil {
			t.Error(err)
		}
		if len(s.log) != 6 || !strings.HasPrefix(s.log[1], "600ms GET 1") || !strings.HasSuffix(s.log[4], "GET 2") || !strings.HasSuffix(s.log[5], "GET 3") {
			t.Errorf("%q", s.log)
		}
		if fmt.Sprint(b.got) != "[notifications/progress elicitation/create notifications/progress]" {
			t.Errorf("%q", b.got)
		}
	})
}

func TestE03_ResumeGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		prime := sse("id: 1\ndata:\n\n")
		for name, steps := range map[string][]func(*http.Request) (*http.Response, error){
			"refused":     {prime, status(405, "", "")},
			"forgotten":   {prime, status(404, "", "")},
			"no stream":   {prime, status(200, "application/json", msgReply)},
			"unreachable": {prime, fail, fail, fail, fail, fail},
			"barren":      {prime, sse(""), sse(":\n"), sse(""), sse(""), sse("")},
			"no id":       {sse(events(msgNotice))},
			"id reset":    {sse("id: 1\ndata:\n\nid\ndata:\n\n")},
		} {
			c, s := scripted(t, steps...)
			_, err := c.Do(t.Context(), outgoing(legacyRules), nil)
			if !errors.Is(err, ErrNoAnswer) || len(s.log) != len(steps) {
				t.Errorf("%s: %v after %q", name, err, s.log)
			}
			if name == "forgotten" {
				var se *transport.StatusError
				if !errors.As(err, &se) || se.Status != 404 {
					t.Errorf("%s: %v", name, err)
				}
			}
		}
	})
}

func TestModernStreamsAreNotResumed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := scripted(t, sse("id: 1\ndata:\n\n"), sse(events(msgReply)))
		if _, err := c.Do(t.Context(), outgoing(modernRules), nil); !errors.Is(err, ErrNoAnswer) {
			t.Error(err)
		}
		s.want("0s POST ")
	})
}

func TestResumeEndsWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := scripted(t, sse("id: 1\nretry: 60000\ndata:\n\n"))
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if _, err := c.Do(ctx, outgoing(legacyRules), nil); err != context.DeadlineExceeded || time.Since(s.start) != 10*time.Second {
			t.Errorf("%v after %v", err, time.Since(s.start))
		}
	})
}

func TestListen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b inbox
		c, s := scripted(t,
			sse("id: 1\ndata: "+msgNotice+"\n\n"+events(msgReply)),
			sse("retry: 2000\n\ndata: "+msgAsking+"\n\n"),
			status(400, "", "what event?"),
			sse(events(msgNotice)))
		strays := 0
		c.dropped = func(string) { strays++ }
		c.SetSession("s")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, errors.New("enough"))
		defer cancel()
		if err := c.Listen(ctx, legacyRules, b.take); err == nil || err.Error() != "enough" {
			t.Error(err)
		}
		if fmt.Sprint(b.got) != "[notifications/progress  elicitation/create notifications/progress]" || strays != 1 {
			t.Errorf("the events are %q, and %d messages were dropped", b.got, strays)
		}
		if len(s.log) != 5 || s.log[1] != "1s GET 1" || s.log[2] != "3s GET 1" || !strings.HasSuffix(s.log[3], " GET ") {
			t.Errorf("%q", s.log)
		}
	})
}

func TestListenGivesUp(t *testing.T) {
	for _, tt := range []struct {
		code    int
		media   string
		session string
		want    error
	}{
		{405, "", "s", ErrNoListen},
		{404, "", "s", ErrSessionLost},
		{404, "", "", ErrNoListen},
		{400, "", "s", ErrNoListen},
		{501, "", "s", ErrNoListen},
		{200, "text/html", "s", ErrNoListen},
		{401, "", "s", nil},
		{403, "", "s", nil},
	} {
		c, _ := scripted(t, status(tt.code, tt.media, ""))
		c.SetSession(tt.session)
		err := c.Listen(t.Context(), legacyRules, nil)
		var se *transport.StatusError
		if tt.want != nil && !errors.Is(err, tt.want) || tt.want == nil && (!errors.As(err, &se) || se.Status != tt.code) {
			t.Errorf("%d: %v", tt.code, err)
		}
	}
}

// TestListenBacksOff checks that an unreachable server gets requests at increasing intervals, and
// never more than one request in half a second.
func TestListenBacksOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		c := fakeClient(t, func(*http.Request) (*http.Response, error) {
			switch asked++; asked % 4 {
			case 0:
				return respond(503, "", ""), nil
			case 1:
				return respond(200, "text/event-stream", ":\n\n"), nil
			}
			return nil, errors.New("connection refused")
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if err := c.Listen(ctx, legacyRules, nil); err != context.DeadlineExceeded {
			t.Error(err)
		}
		if asked < 60 || asked > 90 {
			t.Errorf("the server got %d requests in an hour", asked)
		}
	})
}

// TestListenToQuietStream checks a stream that a proxy closes after a long time without an event.
// The client does not treat such an end as a failure.
func TestListenToQuietStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		c := fakeClient(t, func(*http.Request) (*http.Response, error) {
			asked++
			pr, pw := io.Pipe()
			time.AfterFunc(5*time.Minute, func() { pw.Close() })
			r := respond(200, "text/event-stream", "")
			r.Body = pr
			return r, nil
		})
		ctx, cancel := context.WithTimeout(t.Context(), 5*(5*time.Minute+time.Second)-time.Second/2)
		defer cancel()
		c.Listen(ctx, legacyRules, nil)
		if asked != 5 {
			t.Errorf("the server got %d requests", asked)
		}
	})
}
