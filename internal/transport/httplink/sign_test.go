package httplink

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/transport"
)

// pen signs with its functions.
type pen struct {
	sign    func(n int, method, url string) ([]transport.HeaderField, error) // n counts from 1
	refused func(n uint64, challenges []string) (bool, error)
	n       int
	marks   []uint64 // those of the refusals
}

func (p *pen) Sign(_ context.Context, method, url string) ([]transport.HeaderField, Mark, error) {
	p.n++
	f, err := p.sign(p.n, method, url)
	return f, Mark{Generation: uint64(p.n)}, err
}

func (p *pen) Refused(_ context.Context, m Mark, challenges []string) (bool, error) {
	p.marks = append(p.marks, m.Generation)
	return p.refused(m.Generation, challenges)
}

func numbered(n int, _, _ string) ([]transport.HeaderField, error) {
	return []transport.HeaderField{{Name: "authorization", Value: strconv.Itoa(n)}}, nil
}

func again(uint64, []string) (bool, error) { return true, nil }

// TestRefusedRequestIsSentAgain sends a request to a server that accepts the nth signature. The whole
// request arrives each time, with one signature and the configured fields.
func TestRefusedRequestIsSentAgain(t *testing.T) {
	for _, method := range []string{"POST", "GET", "DELETE"} {
		for accepts := 1; accepts <= 4; accepts++ {
			var got []string
			address := serve(t, func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				got = append(got, r.Method+" "+string(body)+" "+r.Header.Get("Authorization")+" "+r.Header.Get("X-Once")+" "+r.Header.Get("X-Own")+" "+r.Header.Get("X-Caller"))
				if r.Header.Get("Authorization") != strconv.Itoa(accepts) {
					w.WriteHeader(401)
				}
			})
			p := &pen{refused: again, sign: func(n int, method, url string) ([]transport.HeaderField, error) {
				f, _ := numbered(n, method, url)
				if n == 1 {
					f = append(f, transport.HeaderField{Name: "X-Once", Value: "once"}, transport.HeaderField{Name: "X-Own", Value: "theirs"})
				}
				return f, nil
			}}
			l := mustLink(t, address, Options{Header: []transport.HeaderField{{Name: "X-Own", Value: "ours"}}, Credentials: p})
			h := l.NewHeader(1)
			h["X-Caller"] = []string{"c"}
			var body []byte
			if method == "POST" {
				body = []byte("{}")
			}
			resp, err := l.Send(t.Context(), method, h, body)
			if err != nil {
				t.Fatal(err)
			}
			status := 200
			want := []string{method + " " + string(body) + " 1 once theirs c"}
			for n := 2; n <= accepts && n <= 3; n++ {
				want = append(want, method+" "+string(body)+" "+strconv.Itoa(n)+"  ours c")
			}
			if accepts == 4 {
				status = 401 // the request was sent three times, and the third refusal was reported too
			}
			if !slices.Equal(got, want) || resp.StatusCode != status || len(p.marks) != accepts-1 {
				t.Errorf("accepts %d: %d, refusals %v, requests %q", accepts, resp.StatusCode, p.marks, got)
			}
			if e := resp.Refused(); !e.Signed {
				t.Error("the error does not say that the request was signed")
			}
		}
	}
}

// TestUnsignedIsNotSent checks that nothing is sent if Sign fails, or returns fields that cannot be
// sent.
func TestUnsignedIsNotSent(t *testing.T) {
	boom := errors.New("boom")
	for _, f := range []transport.HeaderField{{}, {Name: "Authorization", Value: "secret\r\nA: b"}} {
		p := &pen{sign: func(int, string, string) ([]transport.HeaderField, error) {
			if f.Name == "" {
				return []transport.HeaderField{{Name: "Authorization", Value: "ignored"}}, boom
			}
			return []transport.HeaderField{f}, nil
		}}
		l := mustLink(t, "http://h", Options{Credentials: p, HTTP: roundTrip(func(*http.Request) (*http.Response, error) {
			t.Error("a request was sent")
			return nil, io.EOF
		})})
		_, err := l.Send(t.Context(), "POST", l.NewHeader(0), []byte("{}"))
		if !errors.Is(err, transport.ErrNotSent) || !errors.Is(err, transport.ErrCredentials) || f.Name == "" != errors.Is(err, boom) {
			t.Error(err)
		}
	}
}

// TestRefusalWithoutRenewal checks the two outcomes of a refusal that is final: the response of the
// server, or the error of the signer together with the status.
func TestRefusalWithoutRenewal(t *testing.T) {
	address := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("WWW-Authenticate", `Bearer error="x", Basic`)
		w.WriteHeader(401)
		io.WriteString(w, "go away")
	})
	boom := errors.New("boom")
	var heard []string
	for _, fails := range []error{nil, boom} {
		p := &pen{sign: numbered, refused: func(_ uint64, challenges []string) (bool, error) {
			heard = challenges
			return fails != nil, fails
		}}
		l := mustLink(t, address, Options{Credentials: p})
		resp, err := l.Send(t.Context(), "POST", l.NewHeader(0), []byte("{}"))
		var status *transport.StatusError
		if fails == nil {
			if err != nil {
				t.Fatal(err)
			}
			status = resp.Refused()
		} else if !errors.As(err, &status) || !errors.Is(err, boom) || !errors.Is(err, transport.ErrNotSent) || !errors.Is(err, transport.ErrCredentials) {
			t.Fatal(err)
		}
		if p.n != 1 || status.Status != 401 || string(status.Body) != "go away" || !slices.Equal(heard, []string{`Bearer error="x"`, "Basic"}) {
			t.Errorf("signed %d times, %+v, challenges %q", p.n, status, heard)
		}
	}
}

// prover is a pen that signs with the server's latest nonce.
type prover struct {
	pen
	nonce, at string
}

func (p *prover) Nonce(url, nonce string) { p.at, p.nonce = url, nonce }

// TestNonces has a server that gives each request the nonce of the next. The first request is refused for want
// of one, and none after it; a redirect has the nonce of where it leads to.
func TestNonces(t *testing.T) {
	var asked []string
	n := 0
	address := serve(t, func(w http.ResponseWriter, r *http.Request) {
		good := r.Header.Get("Authorization") == strconv.Itoa(n)
		asked = append(asked, r.URL.Path+" "+r.Header.Get("Authorization")+" "+strconv.FormatBool(good))
		n++
		w.Header().Set("DPoP-Nonce", strconv.Itoa(n))
		if !good {
			w.Header().Set("WWW-Authenticate", `DPoP error="use_dpop_nonce"`)
			w.WriteHeader(401)
		}
	})
	p := &prover{}
	p.refused = again
	p.sign = func(int, string, string) ([]transport.HeaderField, error) {
		return []transport.HeaderField{{Name: "Authorization", Value: p.nonce}}, nil
	}
	l := mustLink(t, address+"/a", Options{Credentials: p})
	for range 2 {
		resp, err := l.Send(t.Context(), "POST", l.NewHeader(0), []byte("{}"))
		if err != nil || resp.StatusCode != 200 {
			t.Fatal(resp, err)
		}
		resp.Discard()
	}
	if !slices.Equal(asked, []string{"/a  false", "/a 1 true", "/a 2 true"}) || p.at != address+"/a" {
		t.Errorf("asked %q, heard from %s", asked, p.at)
	}
}

// TestMissingScope checks that the signer hears of a 403 that asks for a scope, and of no other.
func TestMissingScope(t *testing.T) {
	for challenge, want := range map[string]string{
		`Bearer error="insufficient_scope", scope="x"`: "12", `Basic, Bearer error=insufficient_scope`: "12", `Bearer error="invalid_token"`: "1", "": "1",
	} {
		got := ""
		address := serve(t, func(w http.ResponseWriter, r *http.Request) {
			got += r.Header.Get("Authorization")
			if r.Header.Get("Authorization") == "1" {
				w.Header()["Www-Authenticate"] = []string{challenge}
				w.WriteHeader(403)
			}
		})
		l := mustLink(t, address, Options{Credentials: &pen{sign: numbered, refused: again}})
		resp, err := l.Send(t.Context(), "POST", l.NewHeader(0), []byte("{}"))
		if err != nil {
			t.Fatal(err)
		}
		if resp.Discard(); got != want {
			t.Errorf("%s: signed with %s, not %s", challenge, got, want)
		}
	}
}

// TestRedirectIsSigned checks that a redirect is signed for its own URL, and that a refusal there leads
// to the same URL again.
func TestRedirectIsSigned(t *testing.T) {
	var signed, asked []string
	refuse := true
	address := serve(t, func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.Path+" "+r.Header.Get("Authorization"))
		switch {
		case r.URL.Path == "/a":
			http.Redirect(w, r, "/b?q=1", 307)
		case refuse:
			refuse = false
			w.WriteHeader(401)
		}
	})
	p := &pen{refused: again, sign: func(n int, method, url string) ([]transport.HeaderField, error) {
		signed = append(signed, method+" "+url)
		return numbered(n, method, url)
	}}
	l := mustLink(t, address+"/a", Options{Credentials: p})
	resp, err := l.Send(t.Context(), "POST", l.NewHeader(0), []byte("{}"))
	if err != nil {
		t.Fatal(err)
	}
	resp.Discard()
	b := "POST " + address + "/b?q=1"
	if !slices.Equal(signed, []string{"POST " + address + "/a", b, b}) || !slices.Equal(asked, []string{"/a 1", "/b 2", "/b 3"}) {
		t.Errorf("signed %q, asked %q", signed, asked)
	}
}

// TestEndlessRefusal checks that the body of a 401, which may never end, does not hold up the request.
func TestEndlessRefusal(t *testing.T) {
	address := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "1" {
			return
		}
		w.WriteHeader(401)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	l := mustLink(t, address, Options{Credentials: &pen{sign: numbered, refused: again}})
	resp, err := l.Send(t.Context(), "GET", l.NewHeader(0), nil)
	if err != nil || resp.StatusCode != 200 {
		t.Fatal(err)
	}
	resp.Discard()
}

// TestBrokenAnswerIsNotSentAgain checks that only a 401 leads to a second attempt: a server that begins
// an answer, or breaks off before it, may have executed the request.
func TestBrokenAnswerIsNotSentAgain(t *testing.T) {
	for _, begin := range []bool{true, false} {
		var n atomic.Int32
		address := serve(t, func(w http.ResponseWriter, r *http.Request) {
			n.Add(1)
			io.Copy(io.Discard, r.Body)
			if begin {
				w.WriteHeader(200)
				w.(http.Flusher).Flush()
			}
			panic(http.ErrAbortHandler)
		})
		p := &pen{sign: numbered, refused: again}
		l := mustLink(t, address, Options{Credentials: p})
		resp, err := l.Send(t.Context(), "POST", l.NewHeader(0), []byte("{}"))
		if err == nil {
			_, err = resp.ReadAll(10)
			resp.Close()
		}
		if err == nil || errors.Is(err, transport.ErrNotSent) || n.Load() != 1 || len(p.marks) != 0 {
			t.Errorf("begin %t: sent %d times, %v", begin, n.Load(), err)
		}
	}
}
