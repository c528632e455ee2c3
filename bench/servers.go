package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dragoman-mcp/dragoman/bench/internal/echo"
	"github.com/dragoman-mcp/dragoman/bench/internal/words"
)

// serveProxy runs the proxy with which Dragoman is compared. It is a plain httputil.ReverseProxy.
func serveProxy(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("bench proxy", flag.ContinueOnError)
	addr := flags.String("listen", "127.0.0.1:0", "listen on `ADDR`")
	to := flags.String("to", "", "forward to `URL` (its scheme and host)")
	untilEOF := flags.Bool("until-eof", false, "exit when stdin ends")
	if err := parse(flags, args); err != nil {
		return err
	}
	target, err := url.Parse(*to)
	if err != nil || target.Host == "" {
		return usageError{fmt.Errorf("-to must be a URL with a host, but is %q", *to)}
	}
	return serve(endWithStdin(ctx, *untilEOF), *addr, proxyTo(func(r *httputil.ProxyRequest) { r.SetURL(target) }))
}

func proxyTo(rewrite func(*httputil.ProxyRequest)) http.Handler {
	proxy := &httputil.ReverseProxy{
		Rewrite: rewrite,
		// The default Transport keeps only two idle connections per host, so calls would often
		// have to open a new connection.
		Transport: &http.Transport{
			MaxIdleConnsPerHost: 1024,
			IdleConnTimeout:     90 * time.Second,
			DisableCompression:  true,
		},
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// An upstream may start to answer before it has read the whole request. Without full
		// duplex, net/http then stops reading the request, and large answers are truncated.
		if err := http.NewResponseController(w).EnableFullDuplex(); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		proxy.ServeHTTP(w, r)
	})
}

// serveBare runs a net/http server that answers calls itself, and does only what a client needs. It
// shows what a call, and an idle connection, cost in any Go server.
func serveBare(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("bench bare", flag.ContinueOnError)
	addr := flags.String("listen", "127.0.0.1:0", "listen on `ADDR`")
	name := flags.String("era", "legacy", "speak `ERA`: modern or legacy")
	untilEOF := flags.Bool("until-eof", false, "end when stdin does")
	if err := parse(flags, args); err != nil {
		return err
	}
	era, _ := words.ParseEra(*name)
	var sessions atomic.Uint64
	var pool sync.Pool
	type buffers struct {
		request bytes.Buffer
		answer  []byte
	}
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.Method {
		case http.MethodGet:
			w.Header().Set("Content-Type", "text/event-stream")
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		case http.MethodPost:
			b, _ := pool.Get().(*buffers)
			if b == nil {
				b = &buffers{}
			}
			defer pool.Put(b)
			b.request.Reset()
			if _, err := b.request.ReadFrom(r.Body); err != nil {
				return
			}
			answer := echo.Reply(b.answer[:0], era, b.request.Bytes())
			if answer == nil {
				w.WriteHeader(http.StatusAccepted)
				return
			}
			w.Header().Set("Content-Type", "application/json")
			if era == words.Legacy && r.Header.Get("Mcp-Session-Id") == "" {
				w.Header().Set("Mcp-Session-Id", fmt.Sprintf("bare-%016x", sessions.Add(1)))
			}
			b.answer = answer
			_, _ = w.Write(answer)
		case http.MethodDelete:
		default:
			w.WriteHeader(http.StatusMethodNotAllowed)
		}
	})
	return serve(endWithStdin(ctx, *untilEOF), *addr, handler)
}

func serve(ctx context.Context, addr string, handler http.Handler) error {
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	s := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	stop := context.AfterFunc(ctx, func() { _ = s.Close() })
	defer stop()
	if err := s.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
