package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/bench/internal/load"
	"github.com/dragoman-mcp/dragoman/bench/internal/proc"
	"github.com/dragoman-mcp/dragoman/bench/internal/report"
	"github.com/dragoman-mcp/dragoman/bench/internal/words"
	_ "github.com/dragoman-mcp/dragoman/internal/team/sqldb" // the driver for PostgreSQL
)

const (
	replicas = 3
	// envPostgres has the URL of a PostgreSQL in which we create databases.
	envPostgres = "DRAGOMAN_TEST_POSTGRES"
	// sessionTarget is what an idle session may cost in memory.
	sessionTarget = 45 << 10
)

// clustered is one run of "bench cluster".
type clustered struct {
	*stage
	homes     []string // the addresses of the replicas
	members   []*proc.Process
	databases []string
}

// way is one way of a client's calls, with the CPU time of all processes that take part, per call.
type way struct {
	name      string
	era       words.Era
	processes []*proc.Process
	dial      func(number int) *load.Client
	crowd     *load.Crowd
	cpu       []float64 // µs, in the order of the rounds
}

// cluster measures what a call costs with three replicas, next to one process and ReverseProxy in the same rounds, and the
// memory of idle sessions.
func cluster(ctx context.Context, args []string) error {
	c := &clustered{stage: &stage{options: options{paths: []string{report.Serve}}}}
	flags := flag.NewFlagSet("bench cluster", flag.ContinueOnError)
	flags.DurationVar(&c.slice, "time", 400*time.Millisecond, "length of one slice of load")
	flags.IntVar(&c.rounds, "rounds", 15, "slices of each kind")
	flags.IntVar(&c.idle, "idle", 29_900, "sessions in all, of which a replica takes 10,000, with some for newcomers; 0 for none")
	flags.DurationVar(&c.settle, "settle", 10*time.Second, "how long nothing happens before the memory of what is idle is read")
	clients := flags.Int("clients", 16, "clients of each process, each with one call in flight")
	flags.StringVar(&c.root, "root", "..", "where Dragoman's module is")
	flags.StringVar(&c.dragoman, "dragoman", "", "measure this binary instead of building one")
	if err := parse(flags, args); err != nil {
		return err
	}
	if c.slice <= 0 || c.rounds < 3 || c.idle != 0 && c.idle <= replicas*firstSessions || *clients < replicas {
		return usageError{fmt.Errorf("-time must be positive, -rounds at least 3, -clients at least %d, and -idle 0 or more than %d", replicas, replicas*firstSessions)}
	}
	defer c.close()
	if err := c.stage.open(ctx); err != nil {
		return err
	}
	if len(c.failures) > 0 {
		return errors.New(c.failures[0])
	}
	r := heading(c.options.with(*clients), append([]string{"cluster"}, args...))
	fmt.Printf("%s with %d clients, %d rounds of %v, %s, %d cores, %s, %s\n\n", r.Command, *clients, c.rounds, c.slice, r.CPU, r.Cores, r.Kernel, r.Go)
	before := c.account()
	if err := c.compare(ctx, *clients); err != nil {
		return err
	}
	fmt.Printf("\nOther processes used %.1f %% of the machine.\n", 100*c.account().foreign(before))
	if c.idle == 0 {
		return nil
	}
	return c.memory(ctx)
}

func (o options) with(clients int) options {
	o.clients = []int{clients}
	return o
}

// start starts n processes of serve in front of both eras' upstreams. They share a database of their own, and are replicas
// if there are several.
func (c *clustered) start(ctx context.Context, n int, more ...string) (all []*proc.Process, addresses []string, err error) {
	database, err := c.database(ctx)
	if err != nil {
		return nil, nil, err
	}
	settings := "  record: off\n  limits: {initializePerSecond: 10000}\n  database: '" + database + "'\n  vault: {key: 'env:VAULT'}\n"
	if n > 1 {
		settings += "  cluster: {name: '${REPLICA}', listen: '127.0.0.1:0'}\n"
	}
	servers := ""
	for _, era := range []words.Era{words.Modern, words.Legacy} {
		servers += fmt.Sprintf("  %s: {url: 'http://%s/mcp'}\n", era, c.upstreams[era])
	}
	for i := range n {
		env, file, err := c.configure(servers, settings)
		if err != nil {
			return nil, nil, err
		}
		env = append(append(env, fmt.Sprint("REPLICA=r", i+1), "VAULT=BwAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAE="), more...)
		p, addr, err := c.launch(env, c.dragoman, func(addr string) []string { return []string{"serve", "-c", file, "--no-console", "--listen", addr} })
		if p != nil {
			c.processes = append(c.processes, p)
		}
		if err != nil {
			return nil, nil, err
		}
		all, addresses = append(all, p), append(addresses, addr)
	}
	return all, addresses, nil
}

// database creates a database, and returns its URL.
func (c *clustered) database(ctx context.Context) (string, error) {
	at, err := url.Parse(os.Getenv(envPostgres))
	if err != nil || at.Host == "" {
		return "", usageError{fmt.Errorf("%s isn't the URL of a PostgreSQL: run the command with .ci/postgres", envPostgres)}
	}
	name := "bench_" + strings.ToLower(rand.Text())
	if err := execute(ctx, "CREATE DATABASE "+name); err != nil {
		return "", err
	}
	c.databases = append(c.databases, name)
	at.Path = "/" + name
	return at.String(), nil
}

func execute(ctx context.Context, statement string) error {
	db, err := sql.Open("pgx", os.Getenv(envPostgres))
	if err != nil {
		return err
	}
	_, err = db.ExecContext(ctx, statement)
	return errors.Join(err, db.Close())
}

// close stops all processes, and removes what is left of them.
func (c *clustered) close() {
	c.strike()
	for _, name := range c.databases {
		if err := execute(context.Background(), "DROP DATABASE "+name+" WITH (FORCE)"); err != nil {
			say("%v", err)
		}
	}
}

// at returns the address of the endpoint of one upstream, where tools have no prefix.
func at(base string, era words.Era) string { return base + "/s/" + era.String() + "/mcp" }

// ways starts all processes. The calls of a cell go from a client to an upstream of the same era.
func (c *clustered) ways(ctx context.Context) (all []*way, err error) {
	var apart []*proc.Process
	var one []string
	for range replicas {
		p, addr, err := c.start(ctx, 1)
		if err != nil {
			return nil, err
		}
		apart, one = append(apart, p...), append(one, addr...)
	}
	if c.members, c.homes, err = c.start(ctx, replicas); err != nil {
		return nil, err
	}
	for _, era := range []words.Era{words.Modern, words.Legacy} {
		proxy, proxied, err := c.launch(nil, c.self, func(addr string) []string {
			return []string{"proxy", "-until-eof", "-listen", addr, "-to", "http://" + c.upstreams[era]}
		})
		if proxy != nil {
			c.processes = append(c.processes, proxy)
		}
		if err != nil {
			return nil, err
		}
		dial := func(addr func(number int) string) func(int) *load.Client {
			return func(number int) *load.Client { return load.Dial(addr(number), era, number) }
		}
		all = append(all,
			&way{name: "proxy", era: era, processes: []*proc.Process{proxy}, dial: dial(func(int) string { return proxied })},
			&way{name: "alone", era: era, processes: apart[:1], dial: dial(func(int) string { return at(one[0], era) })},
			&way{name: "home", era: era, processes: c.members, dial: dial(func(int) string { return at(c.homes[0], era) })},
			&way{name: "apart", era: era, processes: apart, dial: dial(func(number int) string { return at(one[number%replicas], era) })},
			&way{name: "three", era: era, processes: c.members, dial: dial(func(number int) string { return at(c.homes[number%replicas], era) })},
		)
		if era == words.Legacy { // a modern client's call to a modern server has no home
			all = append(all, &way{name: "forwarded", era: era, processes: c.members, dial: func(number int) *load.Client {
				client := load.Dial(at(c.homes[1], era), era, number)
				client.Home = at(c.homes[0], era)
				return client
			}})
		}
	}
	return all, c.known(ctx)
}

// known waits until the replicas know each other.
func (c *clustered) known(ctx context.Context) error {
	for end := time.Now().Add(listenLimit); ; {
		home, other := load.Dial(at(c.homes[0], words.Legacy), words.Legacy, 0), load.Dial(at(c.homes[1], words.Legacy), words.Legacy, 1)
		err := home.Open()
		other.Share(home)
		err = cmp.Or(err, other.List())
		home.Close()
		other.Close()
		if err == nil || time.Now().After(end) || !pause(ctx, 200*time.Millisecond) {
			return err
		}
	}
}

// compare lets the ways take turns, and prints what a call costs on each.
func (c *clustered) compare(ctx context.Context, clients int) error {
	all, err := c.ways(ctx)
	if err != nil {
		return err
	}
	defer func() {
		for _, w := range all {
			if w.crowd != nil {
				w.crowd.Disperse()
			}
		}
	}()
	for _, w := range all {
		n := clients
		if w.name == "three" || w.name == "apart" {
			n *= replicas // so that each process has as many as one alone
		}
		if w.crowd, err = load.Gather(w.dial, n); err != nil {
			return fmt.Errorf("%s: %w", w.name, err)
		}
		w.crowd.Prepare(256)
		if _, err := w.crowd.Run(min(warmUp, c.slice)); err != nil {
			return fmt.Errorf("%s: %w", w.name, err)
		}
	}
	for round := range c.rounds {
		turns := slices.Concat(all[round/2%len(all):], all[:round/2%len(all)])
		if round%2 == 1 {
			slices.Reverse(turns)
		}
		for _, w := range turns {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if err := w.sample(c.slice); err != nil {
				return fmt.Errorf("%s: %w", w.name, err)
			}
		}
	}
	c.print(all)
	return nil
}

func (w *way) sample(d time.Duration) error {
	before, err := w.used()
	if err != nil {
		return err
	}
	slice, err := w.crowd.Run(d)
	if err != nil {
		return err
	}
	after, err := w.used()
	w.cpu = append(w.cpu, micros(after-before)/float64(slice.Calls))
	return err
}

// used returns the CPU time of all processes of a way.
func (w *way) used() (all time.Duration, err error) {
	for _, p := range w.processes {
		used, err := proc.CPU(p.PID())
		if err != nil {
			return 0, p.Explain(err)
		}
		all += used
	}
	return all, nil
}

func (c *clustered) print(all []*way) {
	find := func(name string, era words.Era) []float64 {
		return all[slices.IndexFunc(all, func(w *way) bool { return w.name == name && w.era == era })].cpu
	}
	fmt.Println("| way | era | CPU per call, µs | of ReverseProxy |\n| --- | --- | --: | --: |")
	for _, w := range all {
		fmt.Printf("| %s | %s | %.1f | %.2f |\n", w.name, w.era.Letter(), report.Summarize(w.cpu).Median, report.Ratio(w.cpu, find("proxy", w.era)).Median)
	}
	fmt.Println("\n| what | target | measured | held |\n| --- | --: | --- | --- |")
	for _, era := range []words.Era{words.Modern, words.Legacy} {
		verdict("not forwarded / alone, "+era.Letter(), 1.02, report.Ratio(find("home", era), find("alone", era)))
		verdict("three replicas / one of them, "+era.Letter(), 1.05, report.Ratio(find("three", era), find("home", era)))
		verdict("three replicas / three that know nothing of each other, "+era.Letter(), 1.05, report.Ratio(find("three", era), find("apart", era)))
	}
	var more []float64
	home, proxy := find("home", words.Legacy), find("proxy", words.Legacy)
	for i, cpu := range find("forwarded", words.Legacy) {
		more = append(more, (cpu-home[i])/proxy[i])
	}
	spread := report.Summarize(more)
	spread.Low, spread.High = report.Middle(more)
	verdict("forwarded minus not forwarded / ReverseProxy, L", 0.9, &spread)
}

func verdict(what string, target float64, got *report.Spread) {
	fmt.Printf("| %s | <= %.2f | %.2f (%.2f..%.2f) | %s |\n", what, target, got.Median, got.Low, got.High, map[bool]string{true: "yes", false: "no"}[got.Median <= target])
}

// holdLimit is how long it may take to open the sessions.
const holdLimit = 10 * time.Minute

// hold opens idle sessions with a connection each, then listens, and keeps them until stdin ends. One process may not have
// descriptors enough for those of all replicas.
func hold(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("bench hold", flag.ContinueOnError)
	addr := flags.String("listen", "", "listen on `ADDR` when all are open")
	to := flags.String("to", "", "open sessions at the endpoint `ADDR`")
	n := flags.Int("sessions", 0, "how many")
	if err := parse(flags, args); err != nil {
		return err
	}
	var clients []*load.Client
	defer func() {
		for _, c := range clients {
			c.Close()
		}
	}()
	for i := range *n {
		c := load.Dial(*to, words.Legacy, i%load.MaxClients)
		c.Name = fmt.Sprint("idle ", i%500) // of n names, each may have a share of 1/(n+1)
		clients = append(clients, c)
		if err := c.Open(); err != nil {
			return fmt.Errorf("session %d: %w", i, err)
		}
	}
	ln, err := net.Listen("tcp", *addr)
	if err != nil {
		return err
	}
	defer ln.Close()
	<-endWithStdin(ctx, true).Done()
	return nil
}

// memory opens idle sessions at three fresh replicas, each with a connection, and prints what one costs.
func (c *clustered) memory(ctx context.Context) error {
	members, homes, err := c.start(ctx, replicas, idleEnv...)
	if err != nil {
		return err
	}
	open := func(n int) error {
		var addrs []string
		var holders []*proc.Process
		for _, home := range homes {
			addr, err := proc.FreeAddr()
			if err != nil {
				return err
			}
			p, err := proc.Start(nil, c.self, "hold", "-listen", addr, "-to", at(home, words.Legacy), "-sessions", fmt.Sprint(n))
			if err != nil {
				return err
			}
			c.processes = append(c.processes, p)
			addrs, holders = append(addrs, addr), append(holders, p)
		}
		for i, p := range holders {
			if err := p.Await(addrs[i], holdLimit); err != nil {
				return err
			}
		}
		return ctx.Err()
	}
	resident := func() (all []int64, err error) {
		if !pause(ctx, c.settle) {
			return nil, ctx.Err()
		}
		for _, p := range members {
			n, _, err := proc.Resident(p.PID())
			if err != nil {
				return nil, p.Explain(err)
			}
			all = append(all, n)
		}
		return all, nil
	}
	more := c.idle/replicas - firstSessions
	if err := open(firstSessions); err != nil {
		return err
	}
	before, err := resident()
	if err == nil {
		err = open(more)
	}
	if err != nil {
		return err
	}
	after, err := resident()
	if err != nil {
		return err
	}
	fmt.Printf("\n%d idle sessions over %d replicas, with a connection each:\n\n| replica | more sessions | MB before | MB after | KiB each | held (<= %d) |\n| --- | --: | --: | --: | --: | --- |\n", c.idle, replicas, sessionTarget>>10)
	for i := range members {
		each := float64(after[i]-before[i]) / float64(more)
		fmt.Printf("| %d | %d | %.1f | %.1f | %.1f | %s |\n", i+1, more, float64(before[i])/1e6, float64(after[i])/1e6, each/1024, map[bool]string{true: "yes", false: "no"}[each <= sessionTarget])
	}
	return nil
}
