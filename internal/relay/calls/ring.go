package calls

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/base/trails"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// Kept is the default number of ended calls that a Ring keeps.
const Kept = 2000

// Limits of the texts from peers that a Ring stores.
const (
	maxName    = 256 // the maximum length of one text in bytes
	maxClients = 256 // the maximum number of client names in the cache of a Ring
	maxInfo    = 2 << 10
)

// Call describes one call. It is a copy, so callers may keep it.
type Call struct {
	Number uint64 // starts at 1; a later call has a higher number
	// Seq is 0 while the call is running. A call that ends gets a higher Seq than all calls that
	// ended before it. It gets a new Seq if it ends again after it was parked, or if a loss is
	// added after its end.
	Seq      uint64
	Client   Client
	Server   string // the configured name of the server; "" if the call is for no server or for several servers
	To       mcp.Revision
	Method   string
	Name     string        // the name of the tool, prompt or resource that the client sent
	Target   string        // the server's own name for the tool, prompt or resource
	Trace    string        // the client's W3C trace id
	Start    time.Time     // when the first request of the call arrived
	Took     time.Duration // the time from Start until the last response was written; 0 while the call is running
	In       int           // the total size of the client's requests in bytes
	Out      int           // the total size of the responses to the client in bytes
	Asked    int           // the number of the client's requests for this call: 1 plus the number of retries
	Retries  []uint64      // the numbers of the retries, at most maxRetries; Find knows the call by them too; readers must not change the slice
	Outcome  mcp.Outcome   // how the call ended; packages mcp and event define the values; "" if not known yet
	Cause    string        // why Dragoman answered with an error: timeout, cancelled, exited …
	Code     int64         // the code of the error that the client got; 0 if the call got no error
	Losses   []Loss        // what was left out of the call; readers must not change the slice
	Recorded bool          // whether the ring has the messages of the call
}

// Running reports whether the call has not ended.
func (c *Call) Running() bool { return c.Seq == 0 }

// Client describes the client of a call.
type Client struct {
	Name, Version string // the name and the version that the client sent; "" if unknown
	Revision      mcp.Revision
	Who           *identity.Principal // the principal; nil if unknown
	// Conversation distinguishes clients with the same name. It is 0 for a request without a
	// session.
	Conversation uint64
}

// Loss is a part of a message that Dragoman left out, and the reason.
type Loss struct{ What, Why string }

// Count contains how many calls to one server have ended since the ring was created.
type Count struct {
	Ended  uint64 // a parked call is counted once, when its last retry ends
	Failed uint64 // calls for which the client got an error
}

// maxCounts is the maximum number of servers for which a Ring counts calls. The number needs a
// limit because a reload can add servers.
const maxCounts = 4096

// maxRetries is the maximum number of retries that one call remembers.
const maxRetries = 16

// maxLosses is the maximum number of losses that one call keeps.
const maxLosses = 16

// Options are the options of New. The zero value works.
type Options struct {
	Keep   int  // the number of ended calls that the ring keeps; 0 means Kept
	Record bool // whether to record the messages of all calls; see Ring.Record
	Bytes  int  // the maximum size of all recorded messages; 0 means 64 MiB
}

// Ring keeps the running calls and the last calls that have ended. It is safe for concurrent use.
// Begin, Counts, Lost, All, Find and Story do nothing on a nil Ring.
//
// Many calls run at the same time, so they share as little as possible. A call needs a shard to begin,
// its own lock while it runs, and mu once, when it ends: the order of the ended calls and the bounds
// concern all of them. Readers and retries, which are rare, take every lock that they need to see one
// state. Locks are taken in this order: shards (ascending), mu, then the locks of records.
type Ring struct {
	epoch   int64
	keep    int
	shards  [shards]shard
	limits  trails.Limits                    // has its own lock
	clients atomic.Pointer[map[string]named] // what clients say about themselves; the map is never changed
	rules   atomic.Pointer[rules]            // which calls are recorded; never changed

	mu      sync.Mutex // held only for a few assignments or while calls are copied
	seq     uint64
	missed  uint64 // the Seq of the last call that the ring dropped
	ended   list   // ended calls in the order of Seq
	plain   shelf  // the recordings of calls that succeeded
	telling shelf  // the recordings of calls that failed or lost something
	counts  map[string]*Count
	grown   chan struct{} // closed when the next call ends; nil if no goroutine waits for that
}

// shards is the number of shards of a Ring. Calls have consecutive numbers, so neighbours meet in no
// shard.
const shards = 16

// shard knows the calls whose numbers have the same remainder. A retry may stand in another shard than the
// call that it continues.
type shard struct {
	mu    sync.Mutex
	calls map[uint64]*Record
	free  *Record  // the records that began here and are used no longer
	_     [64]byte // the next shard has another cache line
}

func (r *Ring) shardOf(number uint64) *shard { return &r.shards[number%shards] }

// lockAll takes all locks of the ring, except those of the records.
func (r *Ring) lockAll() {
	for i := range r.shards {
		r.shards[i].mu.Lock()
	}
	r.mu.Lock()
}

func (r *Ring) unlockAll() {
	r.mu.Unlock()
	for i := range r.shards {
		r.shards[i].mu.Unlock()
	}
}

// runningLocked yields the calls that have not ended. The caller has called lockAll, without which neither
// the number of a call nor its Seq changes.
func (r *Ring) runningLocked(yield func(*Record) bool) {
	for i := range r.shards {
		for number, x := range r.shards[i].calls {
			if x.call.Number == number && x.call.Running() && !yield(x) {
				return
			}
		}
	}
}

// named is the name and the version of a client.
type named struct{ name, version string }

// New returns an empty Ring.
func New(o Options) *Ring {
	if o.Keep <= 0 {
		o.Keep = Kept
	}
	if o.Bytes <= 0 {
		o.Bytes = maxAll
	}
	r := &Ring{
		epoch: time.Now().UnixMilli(), keep: o.Keep, counts: make(map[string]*Count),
		limits: trails.Limits{Message: maxMessage, Call: min(maxStory, o.Bytes/2), All: o.Bytes, Notes: maxNotes},
	}
	for i := range r.shards {
		r.shards[i].calls = make(map[uint64]*Record)
	}
	r.plain.by, r.telling.by = 1, 1
	r.clients.Store(&map[string]named{})
	r.rules.Store(&rules{all: o.Record})
	return r
}

// Epoch returns the creation time of the ring in Unix milliseconds. Readers use it to distinguish
// the rings of different processes.
func (r *Ring) Epoch() int64 { return r.epoch }

// Record collects data about one call. It implements mcp.Record. The session that called Begin must
// call End once, and must not use the Record after that. End and Received do nothing on a nil
// Record.
type Record struct {
	ring *Ring
	home *shard // where the record began, and returns to when it is used no longer

	unused *Record // the next record of shard.free; guarded by home

	// The Ring's mu guards these fields.
	links  [2]link // the neighbours in the list of ended calls, and in a list of recordings
	listed bool    // whether the record is in the list of ended calls
	on     *shelf  // the list of recordings that has the call; nil before the call ends, or if it is not recorded
	size   int     // the size of the recording in on

	mu     sync.Mutex
	call   Call
	head   Header        // the HTTP request of the call; nil after Routed
	trail  *trails.Trail // nil if the call is not recorded
	unsure bool          // whether the call is recorded only if an open window covers its server, which is not known yet
	into   *Record       // the record of the retry that continues this call, if the retry came before End; else nil
}

// list is a doubly linked list of records.
type list struct {
	by          int // the index of the list's links in each record
	first, last *Record
	n           int
}

type link struct{ prev, next *Record }

func (l *list) push(x *Record) {
	x.links[l.by] = link{prev: l.last}
	if l.last == nil {
		l.first = x
	} else {
		l.last.links[l.by].next = x
	}
	l.last = x
	l.n++
}

func (l *list) remove(x *Record) {
	at := x.links[l.by]
	if at.prev == nil {
		l.first = at.next
	} else {
		at.prev.links[l.by].next = at.next
	}
	if at.next == nil {
		l.last = at.prev
	} else {
		at.next.links[l.by].prev = at.prev
	}
	x.links[l.by] = link{}
	l.n--
}

// records yields all records of the list. The loop may remove the record that it gets.
func (l *list) records(yield func(*Record) bool) {
	for x := l.first; x != nil; {
		next := x.links[l.by].next
		if !yield(x) {
			return
		}
		x = next
	}
}

// Begin adds a running call to the ring and sets the Record of the call. It returns nil if r is nil
// or if the call has no number. head is the HTTP request of the call, or nil. Routed reads head.
func (r *Ring) Begin(c *mcp.Call, head Header) *Record {
	if r == nil || c.Number == 0 {
		return nil
	}
	now := time.Now()
	method, name, client := short(c.Msg.Method), short(c.Name), c.Client
	who := r.nameOf(client.Info)
	at := r.shardOf(c.Number)
	at.mu.Lock()
	defer at.mu.Unlock()
	x := at.free
	if x == nil {
		x = &Record{ring: r, home: at}
	} else {
		at.free, x.unused = x.unused, nil
	}
	x.call = Call{ // needs no lock of x: nobody else has found it yet
		Number: c.Number, Method: method, Name: name, Start: now, In: len(c.Msg.Raw), Asked: 1,
		Client: Client{who.name, who.version, client.Revision, client.Who, client.Conversation},
	}
	x.head = head
	at.calls[c.Number] = x
	c.Record = x
	return x
}

// nameOf returns the name and the version in info, which is the client's description of itself.
func (r *Ring) nameOf(info []byte) named {
	if len(info) == 0 {
		return named{}
	}
	known := r.clients.Load()
	if have, ok := (*known)[string(info)]; ok {
		return have
	}
	at := jsonrpc.Whole(info)
	name, _ := jsonrpc.Text(info, jsonrpc.Find(info, at, "name"))
	version, _ := jsonrpc.Text(info, jsonrpc.Find(info, at, "version"))
	n := named{short(name), short(version)}
	if len(info) <= maxInfo {
		more := map[string]named{}
		if len(*known) < maxClients {
			maps.Copy(more, *known)
		}
		more[string(info)] = n
		r.clients.CompareAndSwap(known, &more) // if another client was quicker, this one is remembered next time
	}
	return n
}

// Resumed implements mcp.Record. If the ring no longer has a call with the given number, the new
// call gets this number. If the earlier call is still running and was not parked, Resumed changes
// nothing.
func (x *Record) Resumed(c *mcp.Call, number uint64) {
	r := x.ring
	r.lockAll()
	defer r.unlockAll()
	x.mu.Lock()
	defer x.mu.Unlock()
	known := r.shardOf(number).calls
	old := known[number]
	if old != nil && old != x {
		old.mu.Lock()
		defer old.mu.Unlock()
	}
	if old != nil && old.forgottenLocked() {
		old = nil
	}
	if old != nil && old.call.Running() && old.call.Outcome != parked {
		return
	}
	if old == nil {
		x.call.Retries = append(x.call.Retries, x.call.Number)
		x.call.Number = number
		known[number] = x
		return
	}
	was := old.call
	was.Trace = x.call.Trace // of the request that the client waits for

	if was.Running() { // the client sent the retry before End was called for the first request
		old.into = x
	} else {
		r.unendLocked(old)
	}
	if len(was.Retries) < maxRetries {
		// A copy returned earlier may still share the old slice.
		was.Retries = append(slices.Clip(was.Retries), x.call.Number)
	} else {
		delete(r.shardOf(x.call.Number).calls, x.call.Number)
	}
	for _, n := range was.Retries {
		r.shardOf(n).calls[n] = x
	}
	was.Asked += x.call.Asked
	was.In += x.call.In
	was.Seq, was.Took, was.Outcome, was.Cause, was.Code = 0, 0, "", "", 0
	x.call = was
	c.Trail = r.continueLocked(x, old)
	known[number] = x
	if old.into == nil {
		old.freeLocked()
	}
}

// Answered implements mcp.Record.
func (x *Record) Answered(a *mcp.Attempt, how mcp.Ending) {
	target := short(a.Name)
	x.mu.Lock()
	defer x.mu.Unlock()
	c := &x.call
	c.Server, c.Target, c.To = a.Server, target, how.To
	c.Outcome, c.Cause, c.Code = how.Outcome, how.Cause, how.Code
}

// Drop forgets a running call that another process serves. The Record must not be used any more.
func (x *Record) Drop() {
	if x != nil {
		x.forget()
	}
}

// End ends the record after the response was written, or after the client cancelled the call. out
// is the size of the response in bytes; it is 0 if there was no response.
func (x *Record) End(out int, cancelled bool) {
	if x == nil {
		return
	}
	now := time.Now()
	r := x.ring
	r.mu.Lock()
	x.mu.Lock()
	c := &x.call
	if to := x.into; to != nil {
		x.mu.Unlock()
		r.mu.Unlock()
		r.addOut(c.Number, to, out)
		x.forget()
		return
	}
	c.Took, c.Out = now.Sub(c.Start), c.Out+out
	if c.Outcome == "" {
		c.Outcome = refused
	}
	if cancelled && c.Cause == "" {
		c.Cause = "cancelled"
	}
	x.head = nil
	if c.ownList() {
		x.mu.Unlock()
		r.mu.Unlock()
		x.forget()
		return
	}
	r.countLocked(c)
	r.endLocked(x)
	r.keepLocked(x)
	x.mu.Unlock()
	var old *Record
	if r.ended.n > r.keep {
		old = r.ended.first
		r.missed = old.call.Seq
		r.unendLocked(old)
		old.unlistLocked()
	}
	grown := r.grown
	r.grown = nil
	r.mu.Unlock()
	if old != nil {
		old.forget()
	}
	if grown != nil {
		close(grown)
	}
}

// addOut adds a response of out bytes to the call with the given number, if its record is to.
func (r *Ring) addOut(number uint64, to *Record, out int) {
	at := r.shardOf(number)
	at.mu.Lock()
	defer at.mu.Unlock()
	if at.calls[number] != to {
		return
	}
	to.mu.Lock()
	defer to.mu.Unlock()
	to.call.Out += out
}

// forget makes the ring forget a call that is in no list, and keeps the memory of its record for
// another one. The caller must hold no lock.
func (x *Record) forget() {
	for _, number := range x.call.Retries {
		x.forgetNumber(number)
	}
	if at := x.ring.shardOf(x.call.Number); at != x.home {
		x.forgetNumber(x.call.Number)
	}
	x.home.mu.Lock()
	defer x.home.mu.Unlock()
	x.home.removeLocked(x.call.Number, x)
	x.freeLocked()
}

func (x *Record) forgetNumber(number uint64) {
	at := x.ring.shardOf(number)
	at.mu.Lock()
	defer at.mu.Unlock()
	at.removeLocked(number, x)
}

// removeLocked makes the shard forget a number, unless another call than x has got it.
func (s *shard) removeLocked(number uint64, x *Record) {
	if s.calls[number] == x {
		delete(s.calls, number)
	}
}

// freeLocked drops the recording of a call and keeps the memory of the Record for reuse. No shard knows
// the Record any longer, and the caller holds the lock of its home.
func (x *Record) freeLocked() {
	x.trail.Close()
	x.call, x.head, x.trail, x.into, x.unsure = Call{}, nil, nil, nil, false
	x.unused, x.home.free = x.home.free, x
}

// ownName is the name that Dragoman gives itself as a client.
const ownName = "dragoman"

// ownList reports whether a call is a list that a Dragoman has read, such as the command call before it
// checks arguments. One command reads a dozen pages, which would push the calls that somebody looks for
// out of the ring. Lists that failed stay, unless the server just has no such list.
func (c *Call) ownList() bool {
	if c.Client.Name != ownName || c.Outcome != succeeded && c.Code != jsonrpc.CodeMethodNotFound {
		return false
	}
	switch c.Method {
	case mcp.MethodListTools, mcp.MethodListResources, mcp.MethodListTemplates, mcp.MethodListPrompts:
		return true
	}
	return false
}

// countLocked counts an ended call for its server. It does not count a parked call or a call
// without a server.
func (r *Ring) countLocked(c *Call) {
	if c.Server == "" || c.Outcome == parked {
		return
	}
	n := r.counts[c.Server]
	if n == nil {
		if len(r.counts) >= maxCounts {
			return
		}
		n = &Count{}
		r.counts[c.Server] = n
	}
	n.Ended++
	if c.Code != 0 {
		n.Failed++
	}
}

// Counts returns the number of ended calls for each server. Servers without ended calls are not in
// the map.
func (r *Ring) Counts() map[string]Count {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make(map[string]Count, len(r.counts))
	for name, n := range r.counts {
		out[name] = *n
	}
	return out
}

// These outcomes have the same values as the outcomes in package event.
const (
	succeeded mcp.Outcome = "ok"
	refused   mcp.Outcome = "refused" // the call did not reach a server
	parked    mcp.Outcome = "parked"  // the call continues when the client sends a retry
)

// endLocked gives a record the next Seq and appends the record to the list of ended calls.
func (r *Ring) endLocked(x *Record) {
	r.seq++
	x.call.Seq = r.seq
	r.ended.push(x)
	x.listed = true
}

func (r *Ring) unendLocked(x *Record) {
	r.ended.remove(x)
	x.listed = false
}

// Lost adds a loss to the call with the given number. It does nothing if the ring does not have
// this call.
func (r *Ring) Lost(number uint64, what, why string) {
	if r == nil || number == 0 {
		return
	}
	at, l := r.shardOf(number), Loss{short(what), short(why)}
	at.mu.Lock()
	var grown chan struct{}
	if x := at.calls[number]; x != nil && !x.loseRunning(l) {
		grown = r.loseEnded(x, l)
	}
	at.mu.Unlock()
	if grown != nil {
		close(grown)
	}
}

// loseRunning adds a loss to a call that is running. It reports false if the call has ended.
func (x *Record) loseRunning(l Loss) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.call.Running() {
		return false
	}
	x.loseLocked(l)
	return true
}

// loseLocked adds a loss to a call. It reports false if the call has the loss already, or too many.
func (x *Record) loseLocked(l Loss) bool {
	if len(x.call.Losses) >= maxLosses || slices.Contains(x.call.Losses, l) {
		return false
	}
	// A copy returned earlier may still share the old slice, so append must not write to the old
	// array.
	x.call.Losses = append(slices.Clip(x.call.Losses), l)
	return true
}

// loseEnded adds a loss to a call that has ended, unless the ring is about to forget the call. The caller
// must close grown, if it is not nil.
func (r *Ring) loseEnded(x *Record, l Loss) (grown chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.forgottenLocked() || !x.loseLocked(l) {
		return nil
	}
	if x.on == &r.plain {
		x.unlistLocked()
		x.on = &r.telling
		x.on.push(x)
	}
	r.unendLocked(x)
	r.endLocked(x)
	grown, r.grown = r.grown, nil
	return grown
}

// All returns the running and the ended calls, in descending order of their numbers.
func (r *Ring) All() []Call {
	if r == nil {
		return nil
	}
	r.lockAll()
	all := make([]Call, 0, r.ended.n+64)
	for x := range r.runningLocked {
		all = append(all, x.copy())
	}
	for x := range r.ended.records {
		all = append(all, x.copy())
	}
	r.unlockAll()
	slices.SortFunc(all, func(a, b Call) int {
		switch {
		case a.Number > b.Number:
			return -1
		case a.Number < b.Number:
			return 1
		}
		return 0
	})
	return all
}

// Find returns the call with the given number. ok is false if the ring does not have the call.
func (r *Ring) Find(number uint64) (c Call, ok bool) {
	if r == nil {
		return Call{}, false
	}
	c, _, ok = r.find(number)
	return c, ok
}

// find returns the call with the given number, and its recording, which is nil if there is none.
func (r *Ring) find(number uint64) (c Call, t *trails.Trail, ok bool) {
	at := r.shardOf(number)
	at.mu.Lock()
	defer at.mu.Unlock()
	x := at.calls[number]
	if x == nil {
		return Call{}, nil, false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if x.forgottenLocked() {
		return Call{}, nil, false
	}
	x.mu.Lock()
	t = x.trail
	x.mu.Unlock()
	return x.copy(), t, true
}

// forgottenLocked reports whether the ring has dropped the call, and is about to forget it. The caller
// holds the ring's mu.
func (x *Record) forgottenLocked() bool { return !x.listed && !x.call.Running() }

// copy returns a copy of the call with Recorded set.
func (x *Record) copy() Call {
	x.mu.Lock()
	defer x.mu.Unlock()
	c := x.call
	c.Recorded = x.trail != nil
	return c
}

// Since returns up to limit calls whose Seq is higher than seq, in ascending order of Seq. missed
// is true if the ring has dropped calls with a higher Seq than seq. If Since returns no calls, more
// is closed when the next call ends. Otherwise, more is nil.
func (r *Ring) Since(seq uint64, limit int) (calls []Call, missed bool, more <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	x := r.ended.last
	for x != nil && x.call.Seq > seq {
		x = x.links[0].prev
	}
	if x == nil {
		x = r.ended.first
	} else {
		x = x.links[0].next
	}
	for ; x != nil && len(calls) < limit; x = x.links[0].next {
		calls = append(calls, x.copy())
	}
	if len(calls) == 0 {
		if r.grown == nil {
			r.grown = make(chan struct{})
		}
		more = r.grown
	}
	return calls, r.missed > seq, more
}

// Last returns the value of seq with which Since returns the last n calls that have ended.
func (r *Ring) Last(n int) uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	x := r.ended.last
	for ; x != nil && n > 0; n-- {
		x = x.links[0].prev
	}
	switch {
	case x != nil:
		return x.call.Seq
	case r.ended.first != nil:
		return r.ended.first.call.Seq - 1
	}
	return r.seq
}

// short cuts a text to at most maxName bytes. The result of a cut does not share memory with the
// longer text.
func short(text string) string {
	if len(text) <= maxName {
		return text
	}
	return strings.Clone(excerpt.Cut(text, maxName))
}
