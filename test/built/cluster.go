//go:build unix

package built

import (
	"bytes"
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	mathrand "math/rand/v2"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	_ "github.com/dragoman-mcp/dragoman/internal/team/sqldb" // the driver for PostgreSQL
	"github.com/dragoman-mcp/dragoman/internal/testkit/fronttest"
	"github.com/dragoman-mcp/dragoman/internal/testkit/logtest"
)

// EnvPostgres has the URL of a PostgreSQL in which a [Cluster] creates its database. .ci/postgres sets it for a command.
const EnvPostgres = "DRAGOMAN_TEST_POSTGRES"

// Database is a database of its own in the PostgreSQL of [EnvPostgres].
type Database struct{ URL, name string }

// NewDatabase creates a database. The caller must call Drop.
func NewDatabase(ctx context.Context) (*Database, error) {
	at, err := url.Parse(os.Getenv(EnvPostgres))
	if err != nil || at.Host == "" {
		return nil, fmt.Errorf("%s isn't the URL of a PostgreSQL: run the command with .ci/postgres", EnvPostgres)
	}
	d := &Database{name: "cluster_" + strings.ToLower(rand.Text())}
	at.Path = "/" + d.name
	d.URL = at.String()
	if err := execute(ctx, "CREATE DATABASE "+d.name); err != nil {
		return nil, err
	}
	return d, nil
}

// Drop removes the database, with the connections that there still are.
func (d *Database) Drop() error {
	return execute(context.Background(), "DROP DATABASE "+d.name+" WITH (FORCE)")
}

func execute(ctx context.Context, statement string) error {
	db, err := sql.Open("pgx", os.Getenv(EnvPostgres))
	if err != nil {
		return err
	}
	_, err = db.ExecContext(ctx, statement)
	return errors.Join(err, db.Close())
}

// A Cluster is three replicas of a `dragoman serve`, each a process, that share a PostgreSQL database of their own, or only
// keys.
type Cluster struct {
	Replicas []*Replica
	Database *Database // nil if they share only keys
	turns    atomic.Uint64
	spread   http.Handler
	stop     context.CancelFunc // of watch
	watching sync.WaitGroup
}

// ClusterOptions are the options of [StartCluster]. Program, Folder and Servers are required.
type ClusterOptions struct {
	Program string // `dragoman`
	Folder  string // for the files of the replicas
	Servers string // a YAML text with the member mcpServers
	// Settings are further members of the section dragoman.
	Settings map[string]any
	Args     []string // of serve
	Env      []string
	// OnlyKeys is for replicas without a database, which need no PostgreSQL: they share a file of sealing keys.
	OnlyKeys bool
	// Through returns where the replicas reach the database with a URL. It may be nil.
	Through func(url string) (string, error)
}

// A Replica is a process of a [Cluster]. It keeps its address when it's started again.
type Replica struct {
	Name, Address string
	command       func() *exec.Cmd
	cmd           *exec.Cmd
	ready         atomic.Bool   // what watch has found
	ended         chan struct{} // closed when err is set
	err           error
	log           logtest.Buffer
}

// StartCluster starts three replicas, and waits until they accept connections. The caller must call Close, unless there
// is an error.
func StartCluster(ctx context.Context, o ClusterOptions) (*Cluster, error) {
	c := &Cluster{}
	settings, err := c.settings(ctx, &o)
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	maps.Copy(settings, o.Settings)
	text, err := json.Marshal(settings) // every JSON document is also YAML
	file := filepath.Join(o.Folder, "cluster.yaml")
	if err == nil {
		err = os.WriteFile(file, []byte(o.Servers+"\ndragoman: "+string(text)+"\n"), 0o600)
	}
	for i := range 3 {
		if err == nil {
			err = c.add(ctx, fmt.Sprint("r", i+1), file, &o)
		}
	}
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	c.spread = c.balance()
	ctx, c.stop = context.WithCancel(context.WithoutCancel(ctx))
	c.watching.Go(func() { c.watch(ctx) })
	return c, nil
}

// settings returns what makes processes replicas.
func (c *Cluster) settings(ctx context.Context, o *ClusterOptions) (_ map[string]any, err error) {
	if o.OnlyKeys {
		file := filepath.Join(o.Folder, "seal.keys")
		return map[string]any{"sealKeys": file}, os.WriteFile(file, []byte(vaultKey+"\n"), 0o600)
	}
	if c.Database, err = NewDatabase(ctx); err != nil {
		return nil, err
	}
	at := c.Database.URL
	if o.Through != nil {
		at, err = o.Through(at)
	}
	return map[string]any{
		"database": at,
		"vault":    map[string]string{"key": "env:DRAGOMAN_VAULT_KEY"},
		"cluster":  map[string]string{"name": "${REPLICA}", "listen": "127.0.0.1:0"},
	}, err
}

// vaultKey is the same for all clusters, since each has a database of its own.
const vaultKey = "BwAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAE="

// add adds a replica and starts it.
func (c *Cluster) add(ctx context.Context, name, file string, o *ClusterOptions) error {
	address, err := freeAddress()
	if err != nil {
		return err
	}
	folder := filepath.Join(o.Folder, name)
	if err := os.Mkdir(folder, 0o700); err != nil {
		return err
	}
	env := append(os.Environ(), "REPLICA="+name, "DRAGOMAN_VAULT_KEY="+vaultKey, "HOME="+folder)
	for _, x := range []string{"XDG_RUNTIME_DIR", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"} {
		env = append(env, x+"="+folder)
	}
	env = append(env, o.Env...)
	r := &Replica{Name: name, Address: address, command: func() *exec.Cmd {
		cmd := exec.Command(o.Program, append([]string{"serve", "-c", file, "--listen", address}, o.Args...)...)
		cmd.Env = env
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		return cmd
	}}
	c.Replicas = append(c.Replicas, r)
	return r.Start(ctx)
}

// freeAddress returns an address at which nobody listens. Its port is none of those that systems give to clients, of
// which another one could have it when a replica is started again.
func freeAddress() (string, error) {
	for range 100 {
		l, err := net.Listen("tcp", fmt.Sprint("127.0.0.1:", 20000+mathrand.IntN(12000)))
		if err == nil {
			return l.Addr().String(), l.Close()
		}
	}
	return "", errors.New("no port is free")
}

// Start starts the replica, and waits until it accepts connections.
func (r *Replica) Start(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	r.cmd, r.ended = r.command(), make(chan struct{})
	r.cmd.Stderr = &r.log
	if err := r.cmd.Start(); err != nil {
		r.cmd = nil
		return err
	}
	cmd, ended := r.cmd, r.ended
	go func() { // stop waits for it
		r.err = cmd.Wait()
		close(ended)
	}()
	for {
		if conn, err := net.Dial("tcp", r.Address); err == nil {
			return conn.Close()
		}
		select {
		case <-r.ended:
			return fmt.Errorf("%s has ended: %w\n%s", r.Name, r.err, r.Log())
		case <-ctx.Done():
			return fmt.Errorf("%s doesn't listen\n%s", r.Name, r.Log())
		case <-time.After(20 * time.Millisecond): // it's a separate process, so poll
		}
	}
}

// URL returns the base URL of the replica.
func (r *Replica) URL() string { return "http://" + r.Address }

// Log returns what the replica has logged since it was first started.
func (r *Replica) Log() string { return r.log.String() }

// Kill ends the replica as a crash of its machine would.
func (r *Replica) Kill() {
	_ = r.cmd.Process.Kill()
	<-r.ended
	_ = syscall.Kill(-r.cmd.Process.Pid, syscall.SIGKILL) // its servers on stdio
}

// Stop asks the replica to end, and waits for that. The error says how it has ended otherwise.
func (r *Replica) Stop() error {
	select {
	case <-r.ended:
		return nil // it was stopped or killed before
	default:
	}
	_ = r.cmd.Process.Signal(syscall.SIGTERM)
	late := time.AfterFunc(time.Minute, func() { _ = r.cmd.Process.Signal(syscall.SIGQUIT) }) // prints its stacks
	defer late.Stop()
	<-r.ended
	if r.err != nil {
		return fmt.Errorf("%s has ended with %w\n%s", r.Name, r.err, r.Log())
	}
	return nil
}

// Close stops the replicas and removes the database.
func (c *Cluster) Close() error {
	if c.stop != nil {
		c.stop()
		c.watching.Wait()
	}
	all := make([]error, len(c.Replicas))
	var stopping sync.WaitGroup
	for i, r := range c.Replicas {
		if r.cmd != nil {
			stopping.Go(func() { all[i] = r.Stop() })
		}
	}
	stopping.Wait()
	if c.Database != nil {
		all = append(all, c.Database.Drop())
	}
	return errors.Join(all...)
}

// watch asks the replicas whether they are ready.
func (c *Cluster) watch(ctx context.Context) {
	client := &http.Client{Timeout: time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	for ctx.Err() == nil {
		for _, r := range c.Replicas {
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.URL()+"/readyz", nil)
			if err != nil {
				return
			}
			resp, err := client.Do(req)
			if err == nil {
				_ = resp.Body.Close()
			}
			r.ready.Store(err == nil && resp.StatusCode == http.StatusOK)
		}
		select {
		case <-ctx.Done():
		case <-time.After(500 * time.Millisecond):
		}
	}
}

// ServeHTTP sends each request to the next replica that's ready and accepts a connection, like a balancer that knows
// nothing else. It sends none twice. If none is ready, each is tried.
func (c *Cluster) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	// An answer that's there before the end of the body would cost the client its connection.
	b, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(b))
	c.spread.ServeHTTP(w, r)
}

func (c *Cluster) balance() http.Handler {
	// Each request has a connection of its own, so choosing where to dial is choosing the replica.
	transport := &http.Transport{DisableKeepAlives: true, DisableCompression: true, DialContext: func(ctx context.Context, network, _ string) (conn net.Conn, err error) {
		for try := range 2 * len(c.Replicas) {
			next := c.Replicas[c.turns.Add(1)%uint64(len(c.Replicas))]
			if try < len(c.Replicas) && !next.ready.Load() {
				continue
			}
			if conn, err = new(net.Dialer).DialContext(ctx, network, next.Address); err == nil {
				return conn, nil
			}
		}
		return nil, err
	}}
	return fronttest.ProxyBy(transport, func(r *httputil.ProxyRequest) {
		r.Out.URL.Scheme, r.Out.URL.Host, r.Out.Host = "http", "replicas", r.In.Host
	})
}
