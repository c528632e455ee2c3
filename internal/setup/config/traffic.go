package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/relay/limits"
	"github.com/dragoman-mcp/dragoman/internal/relay/policy"
)

// Bounds of what limits.traffic can say.
const (
	leastCalls, mostCalls = 0.01, 10_000
	mostBurst             = 100_000
	mostCallsInFlight     = 100_000
)

// readTraffic reads limits.traffic of a project, whose servers s has already.
func (c *compiler) readTraffic(n *node, s *Snapshot) {
	if n == nil {
		return
	}
	path := join(join(c.home, "limits"), "traffic")
	if n.kind != sequenceKind {
		c.problem(n, path, "must be a list, not "+n.kind.String(), "write a - before each limit")
		return
	}
	s.Limits.Traffic = []limits.Limit{} // those of default don't count for a project that has its own, or says that it has none
	for i, item := range n.items {
		at := path + "[" + strconv.Itoa(i) + "]"
		l := c.readLimit(c.object(item, at), s)
		if by := slices.IndexFunc(s.Limits.Traffic, func(x limits.Limit) bool { return shadows(&x, &l) }); by >= 0 {
			c.problem(item, at, "can never count, because "+path+"["+strconv.Itoa(by)+"] comes first and is for all of them", "move it up, or remove it")
		}
		s.Limits.Traffic = append(s.Limits.Traffic, l)
	}
}

func (c *compiler) readLimit(o *object, s *Snapshot) (l limits.Limit) {
	per := o.choice("per", limits.Scopes(), -1)
	if o.get("per") == nil {
		c.problem(o.n, o.at("per"), "is missing", "write per: "+oneOf(limits.Scopes()))
	}
	before := len(c.problems)
	l.Per = limits.Scope(max(per, 0))
	var who policy.Rule
	c.readWho(o, &who)
	l.Keys, l.People, l.Roles = who.Keys, who.People, who.Roles
	if n := o.get("who"); n != nil && per > int(limits.Person) {
		c.problem(n, o.at("who"), "is for per: key or person alone", "remove it; a "+l.Per.String()+" has the same limit for all who use it")
	}
	o.list("servers", true, func(n *node, path string, e expansion) {
		if !slices.ContainsFunc(s.Servers, func(x Server) bool { return policy.MayName(e.text+"/", x.Name) }) {
			c.warning(n, path, n.shown()+" matches no server that is configured", c.nearest(e.text, s))
		}
		l.Servers = append(l.Servers, e.text)
	})
	if n := o.get("servers"); n != nil && per >= 0 && l.Per != limits.Server {
		c.problem(n, o.at("servers"), "is for per: server alone", "remove it, or write per: server")
	}
	o.perSecond("callsPerSecond", &l.Calls)
	o.atLeastOne("burst", func() { o.count("burst", &l.Burst, 1, mostBurst) })
	o.atLeastOne("callsInFlight", func() { o.count("callsInFlight", &l.InFlight, 1, mostCallsInFlight) })
	o.atLeastOne("bytesPerMinute", func() { o.size("bytesPerMinute", &l.Bytes, leastSize, mostInFlight) })
	switch n := o.get("burst"); {
	case c.failedSince(before):
	case n != nil && l.Calls == 0:
		c.problem(n, o.at("burst"), "has no effect without callsPerSecond", "remove it, or write callsPerSecond")
	case l.Calls == 0 && l.InFlight == 0 && l.Bytes == 0:
		c.problem(o.n, o.path, "limits nothing", "write callsPerSecond, callsInFlight or bytesPerMinute")
	}
	if l.Calls > 0 && l.Burst == 0 {
		l.Burst = max(1, int(2*l.Calls))
	}
	o.done()
	return l
}

// perSecond reads a rate, which may be less than one.
func (o *object) perSecond(key string, dst *float64) {
	o.atLeastOne(key, func() {
		var text string
		n := o.text(key, &text)
		v, err := strconv.ParseFloat(text, 64)
		switch {
		case n == nil:
		case err != nil || strings.Trim(text, "0123456789.") != "" || v < leastCalls || v > mostCalls:
			o.c.problem(n, o.at(key), fmt.Sprintf("must be a number between %v and %v", leastCalls, mostCalls), "")
		default:
			*dst = v
		}
	})
}

// atLeastOne reads a limit with read, unless it's zero or less, which people write if they mean no limit at all, or
// nobody at all.
func (o *object) atLeastOne(key string, read func()) {
	n := o.get(key)
	if n != nil && n.kind == scalarKind {
		number := strings.TrimRight(n.text, "kKMGiB ")
		if v, err := strconv.ParseFloat(number, 64); err == nil && v <= 0 {
			o.c.problem(n, o.at(key), n.shown()+" would refuse every call", "remove it for no limit, write a larger number, or write a rule with do: deny")
			return
		}
	}
	read()
}

// shadows reports whether a limit is for all that another one behind it is for.
func shadows(x, l *limits.Limit) bool {
	switch {
	case x.Per != l.Per:
		return false
	case x.Everybody():
		return true
	case x.Named() || len(l.Servers) == 0:
		return false
	}
	return !slices.ContainsFunc(l.Servers, func(p string) bool {
		return !slices.ContainsFunc(x.Servers, func(q string) bool { return covers(q, p) })
	})
}

// traffic prints limits.traffic.
func (p *printer) traffic(all []limits.Limit) {
	switch {
	case all == nil:
		return
	case len(all) == 0:
		p.line(2, "traffic: []")
		return
	}
	p.line(2, "traffic:")
	for i := range all {
		l := &all[i]
		p.line(3, "-")
		p.text(4, "per", l.Per.String())
		p.who(4, l.Keys, l.People, l.Roles)
		if len(l.Servers) > 0 {
			p.list(4, "servers", l.Servers)
		}
		if l.Calls > 0 {
			p.line(4, "callsPerSecond: "+strconv.FormatFloat(l.Calls, 'f', -1, 64))
			p.line(4, "burst: "+strconv.Itoa(l.Burst))
		}
		if l.InFlight > 0 {
			p.line(4, "callsInFlight: "+strconv.Itoa(l.InFlight))
		}
		if l.Bytes > 0 {
			p.text(4, "bytesPerMinute", bytesText(l.Bytes))
		}
	}
}
