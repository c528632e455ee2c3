package cluster

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/work"
	"github.com/dragoman-mcp/dragoman/internal/transport/httplink"
)

// What replicas ask each other, besides requests that they pass on.
const (
	pingPath = "/cluster/ping" // answers with our incarnation
	backPath = "/cluster/back" // calls back whoever asks, at the address in the row
)

// newCertificate makes the key of a process, in the only form that TLS knows, and its fingerprint.
func newCertificate() (tls.Certificate, []byte, error) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return tls.Certificate{}, nil, err
	}
	// Nobody looks at the certificate, but at the fingerprint of its key.
	raw, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{SerialNumber: big.NewInt(1)}, &x509.Certificate{SerialNumber: big.NewInt(1)}, public, private)
	if err != nil {
		return tls.Certificate{}, nil, err
	}
	leaf, err := x509.ParseCertificate(raw)
	if err != nil {
		return tls.Certificate{}, nil, err
	}
	return tls.Certificate{Certificate: [][]byte{raw}, PrivateKey: private, Leaf: leaf}, fingerprintOf(leaf), nil
}

func fingerprintOf(cert *x509.Certificate) []byte {
	sum := sha256.Sum256(cert.RawSubjectPublicKeyInfo)
	return sum[:]
}

var errStranger = errors.New("this is no replica that lives")

// serverTLS lets in the replicas that live, and nobody else.
func (c *Cluster) serverTLS() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{c.cert}, ClientAuth: tls.RequireAnyClientCert, NextProtos: []string{"http/1.1"},
		SessionTicketsDisabled: true, // each connection shows a key
		VerifyConnection: func(s tls.ConnectionState) error {
			if c.caller(&s) == nil {
				return errStranger
			}
			return nil
		},
	}
}

// caller returns the replica at the other end of a connection, or nil if it's none that lives. Somebody who has just
// started isn't in our view yet.
func (c *Cluster) caller(s *tls.ConnectionState) *Member {
	if s == nil || len(s.PeerCertificates) == 0 {
		return nil
	}
	print := fingerprintOf(s.PeerCertificates[0])
	for again := range 2 {
		if again > 0 {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			c.lookAgain(ctx)
		}
		all := c.view.Load().members
		for i := len(all) - 1; i >= 0; i-- {
			if all[i].Lives() && bytes.Equal(all[i].Fingerprint, print) {
				return &all[i]
			}
		}
	}
	return nil
}

// clientTLS shows who we are to a replica, and talks to no other one.
func (c *Cluster) clientTLS(m *Member) *tls.Config {
	print := m.Fingerprint
	return &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{c.cert}, NextProtos: []string{"http/1.1"},
		InsecureSkipVerify: true, // no issuer is trusted; VerifyConnection asks for the one key
		VerifyConnection: func(s tls.ConnectionState) error {
			if len(s.PeerCertificates) == 0 || !bytes.Equal(fingerprintOf(s.PeerCertificates[0]), print) {
				return errStranger
			}
			return nil
		},
	}
}

// link is how we reach one incarnation of a replica.
type link struct {
	to     *Member
	origin *httplink.Origin
	ctx    context.Context // ends when the replica does
	end    context.CancelFunc
	known  atomic.Bool // it has let us in
}

// dialWithin is how long a replica has to accept a connection, and then to show who it is.
const dialWithin = time.Second

func (c *Cluster) newLink(m *Member) *link {
	dialer := &net.Dialer{Timeout: dialWithin, KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 3 * time.Second, Interval: time.Second, Count: 5}}
	with := c.clientTLS(m)
	l := &link{to: m, origin: httplink.NewOrigin(m.Address, func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dialer.DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		ctx, cancel := context.WithTimeout(ctx, dialWithin)
		defer cancel()
		sealed := tls.Client(conn, with)
		if err := sealed.HandshakeContext(ctx); err != nil {
			_ = conn.Close()
			return nil, err
		}
		return sealed, nil
	})}
	l.ctx, l.end = context.WithCancel(context.Background())
	return l
}

func (l *link) close() {
	l.end()
	l.origin.CloseIdleConnections()
}

// linkTo returns the link to a replica that lives, or nil.
func (c *Cluster) linkTo(ctx context.Context, incarnation string) *link {
	m := c.member(ctx, incarnation)
	if m == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.links[incarnation]
	if l == nil {
		l = c.newLink(m)
		c.links[incarnation] = l
	}
	return l
}

// call finds out whether a replica answers. It doesn't use a connection that there is already: those may outlive the
// listener.
func (c *Cluster) call(ctx context.Context, m *Member) finding {
	l := c.newLink(m)
	defer l.close()
	return l.ask(ctx, pingPath)
}

// ask sends a request of our own.
func (l *link) ask(ctx context.Context, path string) finding {
	switch status, err := l.get(ctx, path); {
	case errors.Is(err, syscall.ECONNREFUSED):
		return refused
	case status != http.StatusOK:
		return silent
	}
	return answered
}

// get returns the status of an answer, or an error.
func (l *link) get(ctx context.Context, path string) (status int, err error) {
	ctx, cancel := context.WithTimeout(ctx, 3*dialWithin)
	defer cancel()
	r := &http.Request{Method: http.MethodGet, URL: &url.URL{Path: path}, Host: l.to.Address}
	resp, _, err := l.origin.Exchange(r.WithContext(ctx), nil)
	if err != nil {
		return 0, err
	}
	defer func() { _ = resp.Body.Close() }()
	if _, err = io.Copy(io.Discard, io.LimitReader(resp.Body, 1<<10)); err != nil {
		return 0, err
	}
	return resp.StatusCode, nil
}

// askStore asks a replica whether it reaches the database.
func (c *Cluster) askStore(ctx context.Context, m *Member) word {
	l := c.linkTo(ctx, m.Incarnation)
	if l == nil {
		return nobody
	}
	switch status, err := l.get(ctx, storePath); {
	case keptOut(err):
		return reaches
	case errors.Is(err, syscall.ECONNREFUSED):
		return nobody
	case err != nil:
		return noAnswer
	case status == http.StatusServiceUnavailable:
		return away
	}
	return reaches
}

// ask lets the others call us back, once, and reports if they can't: requests for what this replica has would fail then.
func (c *Cluster) ask(ctx context.Context) {
	if work.Sleep(ctx, lookEvery) != nil {
		return
	}
	me, asked := c.me.Load().Incarnation, 0
	for _, m := range c.Members() {
		if m.Incarnation == me || !m.Lives() || asked == 3 {
			continue
		}
		asked++
		l := c.newLink(&m)
		if l.ask(ctx, pingPath) != answered {
			c.log.Warn("another replica cannot be reached at its address", "replica", m.Name, "address", m.Address)
		} else if l.ask(ctx, backPath) != answered {
			c.log.Warn("another replica cannot reach this one; set dragoman.cluster.advertise to the address where it can", "replica", m.Name, "address", c.address)
		}
		l.close()
	}
}

// door answers other replicas.
func (c *Cluster) door(next http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+pingPath, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, c.me.Load().Incarnation) })
	mux.HandleFunc("GET "+storePath, func(w http.ResponseWriter, _ *http.Request) {
		if !c.reachesStore() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	mux.HandleFunc("GET "+backPath, func(w http.ResponseWriter, r *http.Request) {
		if m := c.caller(r.TLS); m == nil || c.call(r.Context(), m) != answered {
			http.Error(w, errUnreachable.Error(), http.StatusBadGateway)
		}
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { c.receive(w, r, next) })
	return mux
}
