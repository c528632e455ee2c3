package daemon

import (
	"cmp"
	"context"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"net/http"
	"os"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/base/work"
	"github.com/dragoman-mcp/dragoman/internal/relay/bridge"
	"github.com/dragoman-mcp/dragoman/internal/relay/upstream"
	"github.com/dragoman-mcp/dragoman/internal/team/cluster"
	"github.com/dragoman-mcp/dragoman/internal/team/vault"
	"github.com/dragoman-mcp/dragoman/internal/transport"
	"github.com/dragoman-mcp/dragoman/internal/transport/httpdoor"
)

// replicas is this process among those of dragoman.cluster, and the key that they share unless dragoman.sealKeys names
// others. A nil *replicas is that of a process alone.
type replicas struct {
	*cluster.Cluster
	roots   bridge.Roots
	aliases []byte // the key for the aliases of principals

	giving work.Group // gives away the sessions when the process stops
	given  context.CancelFunc
}

// sealName is the value of the house from which the replicas of a store derive their keys.
const sealName = "cluster.seal"

// joinReplicas makes the process a replica, if the configuration says so. What has sealed the shared key is the vault's
// key, so whoever has another one has been refused before.
func joinReplicas(ctx context.Context, o *ServeOptions) (*replicas, error) {
	c := o.Config.Cluster
	if c.Listen == "" {
		return nil, nil
	}
	r := &replicas{}
	secret, ok, err := o.safe.OfHouse(ctx, sealName)
	if err == nil && !ok {
		var fresh [32]byte
		_, _ = rand.Read(fresh[:]) // never fails since Go 1.24
		if err = o.safe.Begin(ctx, "dragoman", sealName, fresh[:]); err == nil {
			secret, _, err = o.safe.OfHouse(ctx, sealName)
		}
	}
	if err != nil {
		return nil, err
	}
	key, err := vault.Sealing([]byte(secret.Reveal()))
	if err != nil {
		return nil, err
	}
	r.roots.Set([]bridge.Root{{ID: key.ID, Secret: key.Secret}})
	code, err := rowsKey(secret.Reveal())
	if err != nil {
		return nil, err
	}
	if r.aliases, err = hkdf.Key(sha256.New, []byte(secret.Reveal()), nil, "dragoman cluster aliases", sha256.Size); err != nil {
		return nil, err
	}
	host, _ := os.Hostname()
	r.Cluster, err = cluster.Join(ctx, cluster.Options{
		Database: o.Config.Database, Schema: o.clusterSchema(), Name: cmp.Or(c.Name, cluster.NameOf(host)), Listen: c.Listen, Advertise: c.Advertise, Version: o.Version, Protocol: o.protocol, Secret: code, Log: o.Log,
	})
	if err != nil {
		return nil, err
	}
	return r, nil
}

// rowsKey returns the key for the codes in the rows of replicas.
func rowsKey(secret string) ([]byte, error) {
	return hkdf.Key(sha256.New, []byte(secret), nil, "dragoman cluster rows", sha256.Size)
}

func (o *ServeOptions) clusterSchema() string {
	if o.schema == "" {
		return ""
	}
	return o.schema + "_cluster"
}

func (r *replicas) close() {
	if r != nil {
		r.Close()
	}
}

// serve answers the other replicas.
func (r *replicas) serve(d *daemon) {
	if r != nil {
		r.Serve(d.runtime.Endpoints().Context(), d.hops())
	}
}

// away returns what reports whether the replicas' database can't be reached now, or nil.
func (r *replicas) away() func() bool {
	if r == nil {
		return nil
	}
	return func() bool { return r.Problem() != nil }
}

// unfit returns what says why clients should turn to other replicas now, or nil.
func (r *replicas) unfit() func() string {
	if r == nil {
		return nil
	}
	return func() string {
		switch {
		case r.Fenced():
			return "this replica can't reach the database of the replicas, and others may"
		case r.CutOff():
			return "this replica can't reach most of the others, while others can"
		}
		return ""
	}
}

// aliasKey returns the key for the aliases of principals, or nil if each process has its own.
func (r *replicas) aliasKey() []byte {
	if r == nil {
		return nil
	}
	return r.aliases
}

func (r *replicas) forwarder() httpdoor.Forwarder {
	if r == nil {
		return nil
	}
	return r.Cluster
}

// upstreams returns what says which replica has which sessions with legacy servers, or nil.
func (r *replicas) upstreams() upstream.Seats {
	if r == nil {
		return nil
	}
	return r.Cluster
}

// leaveLimit is how long calls may take that run, or wait for their clients, when a replica stops and there are others.
const leaveLimit = 10 * time.Minute

// leaving returns what the admin API asks whether this replica is about to stop.
func (r *replicas) leaving() func() bool {
	if r == nil {
		return nil
	}
	return func() bool { return r.Cluster.Self().State != cluster.Ready }
}

// part returns what a process does first when it stops. A replica among others still serves everybody until the balancer
// has noticed, and then begins to give its sessions away. One that is alone stops like any process.
func (d *daemon) part() func() time.Duration {
	r := d.opts.replicas
	if r == nil {
		return nil
	}
	return func() time.Duration {
		r.Drain(context.Background())
		if !r.HasHeirs() {
			return 0
		}
		_ = work.Sleep(context.Background(), d.opts.Config.Cluster.DrainGrace)
		r.GiveAway()
		ctx, cancel := context.WithCancel(context.Background())
		r.given = cancel
		r.giving.Go(func() { d.runtime.Endpoints().HandOver(ctx) })
		r.giving.Go(func() { r.HandOver(ctx) })
		return cmp.Or(d.opts.Drain, leaveLimit)
	}
}

// settle returns what waits for the requests that other replicas have passed on, for the sessions that are given away when
// their calls end, and for the calls that wait for their clients.
func (d *daemon) settle() func(context.Context) {
	r := d.opts.replicas
	if r == nil {
		return nil
	}
	return func(ctx context.Context) {
		if r.given == nil {
			return
		}
		// The answers to calls that wait come by way of others. If they stop, too, none will come.
		waits := func() bool {
			return d.runtime.Endpoints().Busy() > 0 || d.runtime.Parked() > 0 && r.HasHeirs()
		}
		for waits() && work.Sleep(ctx, 50*time.Millisecond) == nil {
		}
		// A request that comes now looks again where it goes. If we took it, it could be one of a session that was at rest
		// for a moment only, and would end with us.
		d.runtime.Endpoints().Refuse()
		for d.runtime.Endpoints().Busy() > 0 && work.Sleep(ctx, 10*time.Millisecond) == nil {
		}
		// What is left can be given at once, or nobody takes it.
		last := time.AfterFunc(time.Second, r.given)
		defer last.Stop()
		r.giving.Wait()
		r.given()
	}
}

// list returns what the admin API says of the replicas.
func (r *replicas) list() func() []admin.Replica {
	if r == nil {
		return nil
	}
	return func() (out []admin.Replica) {
		self := r.Cluster.Self()
		for _, m := range r.Members() {
			if m.Lives() {
				m.Name = r.Label(&m)
			}
			x := admin.Replica{Name: m.Name, Incarnation: m.Incarnation, Address: m.Address, Version: m.Version, State: string(m.State), Started: m.Started.UTC(), SilentSeconds: int64(m.Silence.Seconds())}
			if x.Self = m.Incarnation == self.Incarnation; x.Self {
				x.State = string(self.State)
				if err := r.Problem(); err != nil {
					x.Problem = "it can't reach the database: " + err.Error()
				} else if r.CutOff() {
					x.Problem = "it can't reach most of the others"
				}
			}
			out = append(out, x)
		}
		return out
	}
}

// fleet returns how the admin API reaches the other replicas, or nil.
func (r *replicas) fleet() admin.Fleet {
	if r == nil {
		return nil
	}
	return r
}

// Self implements admin.Fleet.
func (r *replicas) Self() string {
	me := r.Cluster.Self()
	return r.Label(&me)
}

// Others implements admin.Fleet.
func (r *replicas) Others(asked *http.Request) (all []admin.Other) {
	if cluster.Passed(asked.Context()) {
		return nil
	}
	for _, m := range r.Cluster.Others() {
		all = append(all, admin.Other{Name: r.Label(&m), Home: m.Incarnation})
	}
	return all
}

// Ask implements admin.Fleet.
func (r *replicas) Ask(asked *http.Request, who *identity.Principal, body []byte, to admin.Other) (*http.Response, error) {
	return r.Cluster.Ask(asked, who, body, to.Home)
}

// shared returns the keys that this process has in common with others, or nil if there are none.
func (o *ServeOptions) shared() *bridge.Roots {
	if o.seals == nil && o.replicas != nil {
		return &o.replicas.roots
	}
	return o.seals.shared()
}

// places returns how this process marks what only it has, or nil if it's alone.
func (o *ServeOptions) places() transport.Places {
	if o.replicas != nil {
		return o.replicas.Cluster
	}
	return o.seals.places()
}
