package config

import (
	"net"
	"net/netip"
	"regexp"
	"strings"
	"time"
)

// drainGrace is the default of cluster.drainGrace: some more than the two times that balancers ask after two seconds.
const drainGrace = 5 * time.Second

// readCluster reads how replicas reach each other. Only whoever listens knows whether the addresses are usable.
func (c *compiler) readCluster(o *object, database string) (x Cluster) {
	if o == nil {
		return x
	}
	defer o.done()
	x.DrainGrace = drainGrace
	o.duration("drainGrace", &x.DrainGrace, 0, 5*time.Minute)
	n, advertise, name := o.text("listen", &x.Listen), o.text("advertise", &x.Advertise), o.text("name", &x.Name)
	if n == nil {
		c.problem(o.n, o.path, "listen is missing", "write {listen: 0.0.0.0:7301, advertise: ADDRESS:7301}, with the address where the other replicas reach this one")
		return x
	}
	if err := CheckAddress(x.Listen); err != nil {
		c.problem(n, o.at("listen"), err.Text, err.Hint)
		return x
	}
	if advertise == nil {
		x.Advertise = x.Listen
		if anywhere(x.Listen) {
			c.problem(o.n, o.path, "advertise is missing", "write the address where the other replicas reach this one, such as 10.1.2.3:7301 or ${POD_IP}:7301")
		}
	} else if err := CheckAddress(x.Advertise); err != nil || anywhere(x.Advertise) {
		c.problem(advertise, o.at("advertise"), "is not an address that others can reach", "write a host and a port, such as 10.1.2.3:7301")
	}
	if name != nil && !replicaName.MatchString(x.Name) {
		c.problem(name, o.at("name"), "has to consist of 1 to 32 small letters, digits and hyphens between them", "write a name such as r1, or remove it to use that of the machine")
	}
	if !strings.HasPrefix(database, "postgres://") && !strings.HasPrefix(database, "postgresql://") {
		c.problem(o.n, o.path, "needs a database that all replicas share", "set dragoman.database to a postgres:// URL; replicas without a database need only dragoman.sealKeys")
	}
	return x
}

// replicaName matches the names of replicas, which stand before the ids of sessions.
var replicaName = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?$`)

// anywhere reports whether an address is that of all interfaces, where nobody can be reached.
func anywhere(address string) bool {
	host, _, _ := net.SplitHostPort(address)
	ip, err := netip.ParseAddr(host)
	return host == "" || err == nil && ip.IsUnspecified()
}
