package streamhttp

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/transport/httpdoor"
)

func (d *door) untouched() {
	d.t.Helper()
	if calls := d.hall.called(); len(calls) != 0 {
		d.t.Errorf("a refused request reached a conversation: %q", calls)
	}
	d.callModern()
}

func TestH01_GetAndDeleteWithoutSession(t *testing.T) {
	d := open(t, &hall{}, nil)
	for _, method := range []string{"GET", "DELETE"} {
		for _, h := range [][]string{nil, {"MCP-Protocol-Version: 2026-07-28", "Mcp-Session-Id: whatever"}, {"MCP-Protocol-Version: 2024-11-05"}} {
			r := d.do(method, "", h...)
			if r.status != 405 || r.header.Get("Allow") != "POST" {
				t.Errorf("%s %q got %d with Allow %q", method, h, r.status, r.header.Get("Allow"))
			}
		}
	}
	d.untouched()
}

func TestH02_OtherMethods(t *testing.T) {
	d := open(t, &hall{}, nil)
	for _, method := range []string{"PUT", "PATCH", "TRACE", "OPTIONS", "HEAD", "FROB"} {
		r := d.do(method, "")
		if r.status != 405 || r.header.Get("Allow") == "" || r.header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s: %d %v", method, r.status, r.header)
		}
	}
	r := d.do("OPTIONS", "", "Origin: https://evil.example", "Access-Control-Request-Method: POST")
	if r.status != 403 || r.header.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("the preflight request got %d %v", r.status, r.header)
	}
	d.untouched()
}

func TestH03_TM02_ForeignOrigin(t *testing.T) {
	d := open(t, &hall{}, nil)
	for _, method := range []string{"POST", "GET", "DELETE", "PUT"} {
		for _, origin := range []string{"https://evil.example", "http://127.0.0.1.evil.example", "http://localhost:1", "http://localhost", "file://", "http://"} {
			r := d.do(method, call("1"), "Origin: "+origin)
			if r.status != 403 || strings.Contains(r.body, `"id"`) {
				t.Errorf("%s %s: %d %s", method, origin, r.status, r.body)
			}
		}
	}
	d.untouched()
}

func TestH04_NullAndTwoOrigins(t *testing.T) {
	d := open(t, &hall{}, nil)
	own := "Origin: " + strings.TrimSuffix(d.url, "/mcp")
	d.post(call("1"), "Origin: null").want(t, 403, -32600)
	d.post(call("1"), own, own).want(t, 403, -32600)
	d.post(call("1"), own, "Origin: https://evil.example").want(t, 403, -32600)
	d.untouched()
	body, h := modernCall("1")
	d.post(body, append(h, own)...).want(t, 200, 0)
	_, port, _ := strings.Cut(strings.TrimPrefix(d.url, "http://"), ":")
	port, _, _ = strings.Cut(port, "/")
	d.post(body, append(h, "Origin: http://localhost:"+port)...).want(t, 200, 0)
}

func TestH04_ConfiguredHostsAndOrigins(t *testing.T) {
	d := open(t, &hall{}, func(o *Options) {
		o.Guard = httpdoor.NewGuard([]string{"MCP.example.com", "other.example:8443"}, []string{"https://app.example"}, nil)
	})
	body, h := modernCall("1")
	for host, want := range map[string]int{
		"mcp.example.com": 200, "mcp.example.com:99": 200, "MCP.EXAMPLE.COM": 200, "localhost": 200, "[::1]:80": 200,
		"other.example:8443": 200, "other.example": 403, "example.com": 403, "mcp.example.com.": 403, "x.mcp.example.com": 403,
	} {
		if r := d.post(body, append(h, "Host: "+host)...); r.status != want {
			t.Errorf("Host %s: %d, want %d", host, r.status, want)
		}
	}
	for origin, want := range map[string]int{
		"https://app.example": 200, "https://app.example:443": 403, "http://app.example": 403, "https://APP.example": 403,
		// A page from localhost must not call a server under a public name.
		"http://localhost": 403,
	} {
		if r := d.post(body, append(h, "Host: mcp.example.com", "Origin: "+origin)...); r.status != want {
			t.Errorf("Origin %s: %d, want %d", origin, r.status, want)
		}
	}
}

func TestH05_TM01_ForeignHost(t *testing.T) {
	d := open(t, &hall{}, nil)
	for _, host := range []string{"evil.example", "localhost.evil.example", "127.0.0.1.nip.io", "0.0.0.0", "169.254.1.1"} {
		for _, method := range []string{"POST", "GET", "DELETE"} {
			if r := d.do(method, call("1"), "Host: "+host); r.status != 403 {
				t.Errorf("%s with Host %s: %d", method, host, r.status)
			}
		}
	}
	d.untouched()
}

func TestH08_TM02_ContentType(t *testing.T) {
	d := open(t, &hall{}, nil)
	for _, ct := range []string{"Content-Type:", "Content-Type: text/plain", "Content-Type: multipart/form-data; boundary=x", "Content-Type: application/jsonp", "Content-Type: application/json, text/plain"} {
		d.post(call("1"), ct).want(t, 415, -32600)
	}
	d.post(call("1"), "Content-Encoding: gzip").want(t, 415, -32600)
	d.untouched()
	body, h := modernCall("1")
	d.post(body, append(h, `Content-Type: Application/JSON ; Charset="UTF-8"`)...).want(t, 200, 0)
}

func TestH09_Charset(t *testing.T) {
	d := open(t, &hall{}, nil)
	d.post("\xff\xfe{\x00}\x00", "Content-Type: application/json; charset=utf-16").want(t, 415, -32600)
	d.post("\xff\xfe{\x00}\x00").want(t, 400, -32700)
	d.untouched()
}

func TestH10_Accept(t *testing.T) {
	d := open(t, &hall{}, nil)
	body, h := modernCall("1")
	for accept, want := range map[string]int{
		"": 406, "application/json": 406, "text/event-stream": 406, "text/html": 406, "application/json, text/event-stream;q=0": 406,
		"garbage;;;,,": 406,
		"*/*":          200, "text/event-stream,application/json;q=0.5": 200, "application/*, text/*": 200,
		"TEXT/EVENT-STREAM , Application/Json": 200,
	} {
		header := "Accept: " + accept
		if accept == "" {
			header = "Accept:"
		}
		if r := d.post(body, append(h, header)...); r.status != want {
			t.Errorf("Accept %q: %d, want %d", accept, r.status, want)
		}
	}
	req, _ := http.NewRequest("POST", d.url, strings.NewReader(body))
	req.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json", "text/event-stream"}}
	for _, line := range h {
		k, v, _ := strings.Cut(line, ": ")
		req.Header.Set(k, v)
	}
	resp, err := d.client.Do(req)
	if err != nil || resp.StatusCode != 200 {
		t.Errorf("with two Accept lines: %v %v", resp, err)
	}
	if err == nil {
		resp.Body.Close()
	}
}

func TestH11_BodyTooLarge(t *testing.T) {
	d := open(t, &hall{}, nil)
	big := strings.Repeat(" ", 4<<20+1)
	c, rd := d.raw("POST /mcp HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\nContent-Type: application/json\r\nContent-Length: 4194305\r\n\r\n")
	resp, err := http.ReadResponse(rd, nil)
	if err != nil || resp.StatusCode != 413 || !resp.Close {
		t.Errorf("with a length: %v %v", resp, err)
	}
	c.Close()
	resp, err = http.Post(d.url, "application/json", nil)
	if err == nil {
		resp.Body.Close()
	}
	req, _ := http.NewRequest("POST", d.url, io.MultiReader(strings.NewReader(big)))
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "*/*")
	resp, err = d.client.Do(req)
	if err != nil || resp.StatusCode != 413 {
		t.Errorf("with chunks: %v %v", resp, err)
	}
	if err == nil {
		resp.Body.Close()
	}
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	d.untouched()
	// The body has the maximum size. It is sent with a Content-Length, and then again in chunks.
	body, h := modernCall("1")
	body += strings.Repeat(" ", 4<<20-len(body))
	d.post(body, h...).want(t, 200, 0)
	req, _ = http.NewRequest("POST", d.url, io.MultiReader(strings.NewReader(body)))
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "*/*")
	for _, line := range h {
		k, v, _ := strings.Cut(line, ": ")
		req.Header.Set(k, v)
	}
	resp, err = d.client.Do(req)
	if err != nil || resp.StatusCode != 200 {
		t.Errorf("4 MiB in chunks: %v %v", resp, err)
	}
	if err == nil {
		resp.Body.Close()
	}
}

func TestH13_SlowHeadersAndBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, l := openPipes(t, &hall{}, nil)
		// slowly sends head at once, and then one byte of text per second. It returns how long the server
		// accepted bytes, and the answer.
		slowly := func(head, text string) (took time.Duration, answer string) {
			c, err := l.Dial()
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			got := make(chan string, 1)
			go func() { // ends when the connection is closed
				b, _ := io.ReadAll(c)
				got <- string(b)
			}()
			start := time.Now()
			_, err = io.WriteString(c, head)
			for i := 0; err == nil && i < len(text); i++ {
				time.Sleep(time.Second)
				_, err = c.Write([]byte{text[i]})
			}
			took = time.Since(start)
			c.Close()
			return took, <-got
		}
		took, _ := slowly("", "POST /mcp HTTP/1.1\r\nHost: localhost\r\n\r\n")
		if took > 12*time.Second {
			t.Errorf("slow headers were read for %v", took)
		}
		took, answer := slowly("POST /mcp HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n", strings.Repeat(" ", 100))
		if took > 33*time.Second || took < 29*time.Second || !strings.HasPrefix(answer, "HTTP/1.1 408") {
			t.Errorf("a slow body was read for %v and answered %q", took, answer)
		}
		took, answer = slowly("POST /mcp HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n", strings.Repeat("1\r\nx\r\n", 60))
		if took > 33*time.Second || !strings.HasPrefix(answer, "HTTP/1.1 408") {
			t.Errorf("slow chunks were read for %v and answered %q", took, answer)
		}
		d.untouched()
	})
}

func TestH14_ManyHeaders(t *testing.T) {
	d := open(t, &hall{}, nil)
	for name, headers := range map[string]string{
		"large": "X-Big: " + strings.Repeat("x", 128<<10) + "\r\n",
		"many":  strings.Repeat("a: b\r\n", 2000),
		"different": func() (s string) {
			for i := range 300 {
				s += fmt.Sprintf("x-%d: b\r\n", i)
			}
			return s
		}(),
	} {
		c, rd := d.raw("GET /mcp HTTP/1.1\r\nHost: localhost\r\n")
		_, _ = io.WriteString(c, headers+"\r\n") // may fail, because the server may have answered already
		resp, err := http.ReadResponse(rd, nil)
		if err != nil || resp.StatusCode != 431 {
			t.Errorf("%s: %v %v", name, resp, err)
		}
		c.Close()
	}
	d.untouched()
}

func TestH25_Pipelined(t *testing.T) {
	d := open(t, &hall{}, nil)
	var all strings.Builder
	for i := range 10 {
		body, h := modernCall(fmt.Sprint(i))
		if i == 4 {
			body = "{" + strings.Repeat(" ", 40)
		}
		fmt.Fprintf(&all, "POST /mcp HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\nContent-Type: application/json\r\n%s\r\nContent-Length: %d\r\n\r\n%s", strings.Join(h, "\r\n"), len(body), body)
	}
	_, rd := d.raw(all.String())
	for i := range 10 {
		resp, err := http.ReadResponse(rd, nil)
		if err != nil {
			t.Fatal(err)
		}
		b, _ := io.ReadAll(resp.Body)
		if i == 4 && resp.StatusCode != 400 || i != 4 && !strings.Contains(string(b), fmt.Sprintf(`"id":%d,`, i)) {
			t.Errorf("answer %d: %d %s", i, resp.StatusCode, b)
		}
	}
}

func TestPrincipalIsAskedFirst(t *testing.T) {
	d := open(t, &hall{}, func(o *Options) {
		o.Principal = func(r *http.Request) (*identity.Principal, error) {
			switch r.Header.Get("Authorization") {
			case "":
				return nil, &httpdoor.Denied{Challenge: `Bearer realm="x"`}
			case "throttled":
				return nil, &httpdoor.Denied{Status: 429, RetryAfter: 1500 * time.Millisecond}
			case "bad":
				return nil, errors.New("secret reason")
			}
			return identity.Named(r.Header.Get("Authorization")), nil
		}
	})
	r := d.post("{")
	if r.status != 401 || r.header.Get("Www-Authenticate") == "" {
		t.Errorf("without credentials: %d %v", r.status, r.header)
	}
	if r = d.post("{", "Authorization: bad"); r.status != 401 || strings.Contains(r.body, "secret") {
		t.Errorf("with bad credentials: %d %s", r.status, r.body)
	}
	if r = d.post("{", "Authorization: throttled"); r.status != 429 || r.header.Get("Retry-After") != "2" {
		t.Errorf("with too many requests: %d %v", r.status, r.header)
	}
	body, h := modernCall("1")
	d.post(body, append(h, "Authorization: ann")...).want(t, 200, 0)
	if g := d.hall.guests(); len(g) != 1 || g[0].peer.Who.SeatKey() != "ann" || g[0].peer.Remote != "127.0.0.1" || g[0].peer.Transport != "http" || g[0].peer.Endpoint != "test" {
		t.Errorf("the peer is %+v", g)
	}
}
