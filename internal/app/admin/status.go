package admin

import (
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/failure"
)

// Report is the state of the program. Scripts read its JSON, so members may be added but not
// renamed. A report contains no secrets: principals appear as aliases, and configured secrets are
// masked in text from servers.
type Report struct {
	Name            string           `json:"name" doc:"always dragoman"`
	Version         string           `json:"version" doc:"the version of Dragoman"`
	Project         string           `json:"project" doc:"the project that the report is about"`
	Projects        []string         `json:"projects,omitempty" doc:"the names of all projects; left out if there's only one, and in reports about a project other than default"`
	PID             int              `json:"pid" doc:"the process id of Dragoman"`
	Started         time.Time        `json:"started" doc:"when the process started"`
	UptimeSeconds   int64            `json:"uptimeSeconds" doc:"how many seconds the process has been running"`
	State           string           `json:"state" doc:"serving, or stopping while running requests end"`
	Configured      time.Time        `json:"configured" doc:"when the configuration in use was applied, at the start or by a reload"`
	Config          string           `json:"config,omitempty" doc:"the full path of the configuration file; left out if there is none"`
	Refusal         *Refusal         `json:"refusal,omitempty" doc:"why the configuration file's current content isn't in use; left out if it is"`
	ProjectProblems []ProjectProblem `json:"projectProblems,omitempty" doc:"the projects that aren't in use as the configuration file or the store has them; left out if all are, and in reports about a project other than default"`
	RuleWarnings    []string         `json:"ruleWarnings,omitempty" doc:"what isn't right with the project's rules, limits and tools that are always listed although they are in use, such as a name that nobody has, as sentences; left out if nothing is"`
	Store           *Store           `json:"store,omitempty" doc:"where secrets and whatever else must last is kept; left out in reports about a project other than default"`
	Digest          string           `json:"digest,omitempty" doc:"says which configuration is in use: replicas with different digests have different ones; left out for a process alone, and in reports about a project other than default"`
	Replicas        []Replica        `json:"replicas,omitempty" doc:"the replicas that share the store, the oldest first, with those that ended in the last day; left out for a process alone, and in reports about a project other than default"`
	Audit           *Audit           `json:"audit,omitempty" doc:"what is recorded of requests; left out if nothing is, and in reports about a project other than default"`
	Conversations   map[string]int   `json:"conversations" doc:"number of sessions with clients, by transport; transports without sessions are left out"`
	Requests        int              `json:"requests" doc:"number of running requests that belong to no session, such as those of modern HTTP clients"`
	InFlight        InFlight         `json:"inFlight" doc:"the memory that messages use now"`
	Endpoints       []Endpoint       `json:"endpoints" doc:"the endpoints for clients, the merged one first"`
	Tools           *ToolsCost       `json:"tools,omitempty" doc:"what the tools of all servers cost clients"`
	Servers         []Server         `json:"servers" doc:"the servers, in the order of the configuration"`
	Parked          []ParkedCall     `json:"parked" doc:"the calls that wait for a modern client to answer a server request, the oldest first"`
	Questions       int              `json:"questions" doc:"number of questions that wait for a person, because clients can't show them"`
	Listens         []Listens        `json:"listens" doc:"the clients with open subscriptions/listen requests"`
	Losses          []Loss           `json:"losses" doc:"what was left out of messages since the start, usually because the other side's revision can't express it"`
	Limits          []LimitRefusals  `json:"limits,omitempty" doc:"how many calls limits have refused since the start; left out if none"`
	DemoClients     []string         `json:"demoClients,omitempty" doc:"the names of the clients that serve --demo starts; left out if there are none"`
}

// LimitRefusals says how many calls a limit has refused.
type LimitRefusals struct {
	Per     string `json:"per" enum:"key,person,project,server" doc:"whose limit it is"`
	Of      string `json:"of,omitempty" doc:"the name of the server, or an alias of the key, as in sessions, or of the person, as in calls; left out for the project, for clients without a key, and for all further keys if there are too many"`
	Limit   string `json:"limit" enum:"calls_per_second,calls_in_flight,bytes_per_minute" doc:"the number that the calls would have exceeded"`
	Refused uint64 `json:"refused" doc:"number of calls that were refused since the start"`
}

// Refusal says why Dragoman refused the current content of the configuration file.
type Refusal struct {
	Text  string    `json:"text" doc:"why the file was refused, as sentences"`
	Since time.Time `json:"since" doc:"when it was refused"`
}

// ProjectProblem says why a project isn't in use as the configuration file or the store has it.
type ProjectProblem struct {
	Project string `json:"project" doc:"the project's name"`
	Problem string `json:"problem" doc:"why it isn't in use, or why an earlier text is, as sentences"`
}

// Store says where what must last is kept.
type Store struct {
	Place    string `json:"place" enum:"absent,file,postgres,memory" doc:"absent: nothing is stored yet, and the first change creates the file; file: an SQLite file; postgres: a PostgreSQL database; memory: the file can't be created, so changes last until the process ends"`
	Database string `json:"database,omitempty" doc:"the path of the file, or the name and host of the PostgreSQL database; left out if there is no place for a file"`
	Problem  string `json:"problem,omitempty" doc:"why changes are kept in memory, or why the database can't be read at the moment; left out if all is well"`
	Action   string `json:"action,omitempty" doc:"what to do about the problem"`
}

// Replica is a process of several that serve the same clients; see docs/cluster.md.
type Replica struct {
	Name          string    `json:"name" doc:"its name in the configuration, or that of its machine, with its incarnation if several that run have the same"`
	Incarnation   string    `json:"incarnation" doc:"which process it is; each start makes a new one"`
	Address       string    `json:"address" doc:"where the other replicas reach it"`
	Version       string    `json:"version" doc:"its version of Dragoman"`
	State         string    `json:"state" enum:"ready,draining,gone,dead" doc:"ready; draining: it ends its calls and stops then; gone: it has stopped; dead: it wrote nothing and didn't answer, so another replica has given it up"`
	Self          bool      `json:"self,omitempty" doc:"whether it's the one that made this report"`
	Started       time.Time `json:"started" doc:"when it started"`
	SilentSeconds int64     `json:"silentSeconds" doc:"how many seconds ago it last wrote that it lives, when we looked"`
	Problem       string    `json:"problem,omitempty" doc:"of the one that made this report: that it can't reach the database now, and why, or that it can't reach the others; of another one that runs: why it has not said how it is"`
	// What it says itself is missing for one that has a problem, or doesn't run.
	Digest    string          `json:"digest,omitempty" doc:"says which configuration it uses, as in the report; left out if it has not said"`
	Sessions  int             `json:"sessions,omitempty" doc:"number of sessions with clients at it"`
	Requests  int             `json:"requests,omitempty" doc:"number of running requests at it that belong to no session"`
	Parked    int             `json:"parked,omitempty" doc:"number of calls at it that wait for a modern client"`
	Questions int             `json:"questions,omitempty" doc:"number of questions at it that wait for a person"`
	Servers   []ReplicaServer `json:"servers,omitempty" doc:"the servers as it sees them, in the order of its configuration"`
}

// ReplicaServer is a server as a replica sees it.
type ReplicaServer struct {
	Name        string `json:"name" doc:"the server's name in the configuration"`
	State       string `json:"state" doc:"its state, as in the report"`
	Reason      string `json:"reason,omitempty" doc:"why it's in this state; left out if it works"`
	Running     int    `json:"running" doc:"number of calls of the replica that are running at the server"`
	Calls       uint64 `json:"calls" doc:"number of calls of the replica that have ended"`
	FailedCalls uint64 `json:"failedCalls" doc:"number of those that gave the client an error"`
}

// InFlight describes the memory that running requests and their answers use now. Held and Limit are
// in bytes.
type InFlight struct {
	Held    int64 `json:"held" doc:"bytes of the messages in memory: bodies that are being read, running requests, and answers that clients haven't read yet"`
	Limit   int64 `json:"limit" doc:"the most bytes that the messages may use; 0 means no limit"`
	Refused int64 `json:"refused" doc:"number of requests refused because the limit was reached"`
}

// Endpoint is one HTTP endpoint for clients.
type Endpoint struct {
	Path          string         `json:"path" doc:"the endpoint's path, such as /mcp"`
	Server        string         `json:"server,omitempty" doc:"the endpoint's only server; left out for the merged one"`
	Conversations map[string]int `json:"conversations" doc:"number of sessions with clients at this endpoint, by transport; transports without sessions are left out"`
	Requests      int            `json:"requests" doc:"number of running requests at this endpoint that belong to no session"`
}

// Server is the state of one server behind Dragoman.
type Server struct {
	Name          string           `json:"name" doc:"the server's name in the configuration"`
	State         string           `json:"state" enum:"idle,starting,ready,failed,unresponsive,stopped" doc:"idle: the next call opens the server; starting: it's being opened; failed: it couldn't be opened, or has ended; unresponsive: it doesn't answer or doesn't read its input; stopped: an operator has stopped it"`
	Since         time.Time        `json:"since" doc:"when the state began"`
	Reason        string           `json:"reason,omitempty" doc:"why it's in this state, such as the cause of a failure"`
	Failure       *failure.Failure `json:"failure,omitempty" doc:"the server's failure in detail; left out while it works"`
	Era           string           `json:"era" doc:"legacy, modern, or unknown until we know the revision"`
	Revision      string           `json:"revision,omitempty" doc:"the protocol revision spoken with the server; left out until it's known"`
	Transport     string           `json:"transport,omitempty" doc:"stdio, http, sse, or inmem (a server inside the process); left out until it's known"`
	Shared        bool             `json:"shared,omitempty" doc:"whether the server is one of default that this project only uses; default shows its sessions"`
	Isolation     string           `json:"isolation" doc:"how clients share sessions with the server: auto (those with the same principal and capabilities do), shared (all share one) or call (each call has its own)"`
	Restarts      int              `json:"restarts" doc:"how often the server was started again"`
	Attempts      int              `json:"attempts,omitempty" doc:"number of failures in a row; left out if the last attempt didn't fail"`
	RetryAt       *time.Time       `json:"retryAt,omitempty" doc:"when we try to open the server again; for a lazy one, the time before which calls don't open it; left out if no attempt is planned"`
	LastError     *Fault           `json:"lastError,omitempty" doc:"the server's last error, even if it works again; left out if it never had one"`
	Handshake     *Handshake       `json:"handshake,omitempty" doc:"the last handshake with the server; left out before the first"`
	Running       int              `json:"running" doc:"number of calls that are running at the server"`
	Calls         uint64           `json:"calls" doc:"number of calls to the server that have ended since the start"`
	FailedCalls   uint64           `json:"failedCalls" doc:"number of ended calls that gave the client an error"`
	Opening       int              `json:"opening" doc:"number of sessions that are being opened"`
	Hearers       int              `json:"hearers" doc:"number of clients that get the server's notifications"`
	Unasked       int64            `json:"unaskedAnswers" doc:"number of answers without an open request, such as late and repeated ones"`
	Odd           int64            `json:"oddMessages" doc:"number of the server's messages that we couldn't use, without those in lateProgress and unaskedAnswers"`
	Late          int64            `json:"lateProgress" doc:"number of progress notifications for a request that had ended (answered, cancelled or timed out)"`
	Broadcasts    bool             `json:"broadcasts" doc:"whether the server sends one session's messages to all of its sessions, which is a fault"`
	WorkerVersion string           `json:"workerVersion,omitempty" doc:"the version of the last handshake with a Codex worker, v1 or v2; left out for other servers"`
	WorkerCause   string           `json:"workerCause,omitempty" doc:"why the last handshake with a Codex worker isn't v2, or failed"`
	Listen        *Filter          `json:"listen,omitempty" doc:"what we subscribe to at a modern server; left out without a subscription"`
	Sessions      []Session        `json:"sessions" doc:"the open sessions with the server"`
	Lists         []List           `json:"lists" doc:"the server's lists that were requested so far"`
}

// Fault is the last error of a server, with secrets masked.
type Fault struct {
	At   time.Time `json:"at" doc:"when the error happened"`
	Text string    `json:"text" doc:"the error in one sentence, with secrets masked"`
	// Failure describes the error in detail. Text is the sentence of Failure.
	Failure *failure.Failure `json:"failure,omitempty" doc:"the error in detail"`
}

// Handshake is the trace of the last handshake with a server. Trace has one line for each step.
type Handshake struct {
	At    time.Time `json:"at" doc:"when the handshake ended"`
	Trace []string  `json:"trace" doc:"the steps of the handshake, one line per step"`
}

// Filter says which notifications of a modern server Dragoman has subscribed to.
type Filter struct {
	Tools     bool `json:"tools" doc:"whether we hear of changes in the list of tools"`
	Prompts   bool `json:"prompts" doc:"whether we hear of changes in the list of prompts"`
	Resources bool `json:"resources" doc:"whether we hear of changes in the list of resources"`
	URIs      int  `json:"uris" doc:"number of resources whose updates we get"`
}

// Session is one session with a server.
type Session struct {
	Principal    string     `json:"principal,omitempty" doc:"an alias of the principal, or of the shared credentials, that uses the session; left out if it has neither"`
	Capabilities []string   `json:"capabilities" doc:"the capabilities that were declared to the server; at most 16"`
	Role         string     `json:"role" doc:"home: the session with the server's state, for the clients that share it; lane: an exclusive session for calls during which the server may send requests; call: a session for one call; link: the connection to a modern server"`
	Revision     string     `json:"revision" doc:"the protocol revision of the session"`
	PID          int        `json:"pid,omitempty" doc:"the server's process id; left out if it isn't a child process"`
	Opened       time.Time  `json:"opened" doc:"when the session was opened"`
	Running      int        `json:"running" doc:"number of calls that are running in the session"`
	IdleSince    *time.Time `json:"idleSince,omitempty" doc:"when the session was last in use; left out while it is"`
	Hearers      int        `json:"hearers" doc:"number of clients that get notifications through this session"`
	Watched      int        `json:"watched" doc:"number of resources to which the session's clients have subscribed"`
}

// List is the state of one list of a server: its tools, prompts, resources, templates or skills.
type List struct {
	Method  string         `json:"method" doc:"the MCP method of the list, such as tools/list"`
	Items   int            `json:"items" doc:"number of items in the list, without the items that the configuration hides"`
	ReadAt  *time.Time     `json:"readAt,omitempty" doc:"when the list was last read; left out if never"`
	KeptAt  *time.Time     `json:"keptAt,omitempty" doc:"when an earlier process read the list, which clients see from disk until the server answers; left out if this process has read it, or if none was kept"`
	Stale   bool           `json:"stale" doc:"whether the server's list may have changed since readAt"`
	Reading bool           `json:"reading" doc:"whether the list is being read"`
	CutOff  bool           `json:"cutOff" doc:"whether the list was so long that only its beginning is kept"`
	Failed  string         `json:"failed,omitempty" doc:"why the last attempt to read the list failed; left out if it didn't"`
	Odd     []RejectedItem `json:"odd,omitempty" doc:"items that clients don't see, or see under an unusual name"`
}

// RejectedItem is an item that clients do not see, or that they see under an unusual name. Why is
// the reason.
type RejectedItem struct {
	Name string `json:"name" doc:"the name or the URI of the item"`
	Why  string `json:"why" doc:"why clients don't see it, or why its name is unusual"`
}

// ParkedCall is a call that waits until a modern client answers a request from the server.
type ParkedCall struct {
	Server    string    `json:"server" doc:"the server's name"`
	Method    string    `json:"method" doc:"the MCP method of the call, such as tools/call"`
	Principal string    `json:"principal,omitempty" doc:"an alias of the principal that made the call; left out if there is none"`
	Since     time.Time `json:"since" doc:"when the call was parked"`
	Questions int       `json:"questions" doc:"number of server requests that the client hasn't answered"`
}

// Listens is the number of open subscriptions of one client.
type Listens struct {
	Client string `json:"client" doc:"who the client is: an alias of its principal, the number of its conversation, or its address and name"`
	Open   int    `json:"open" doc:"number of open subscriptions/listen requests"`
}

// Loss counts how often Dragoman left out one kind of content in messages to or from a server.
type Loss struct {
	Server string `json:"server" doc:"the server's name"`
	What   string `json:"what" doc:"what was left out, such as structuredContent or a method; other for unknown methods"`
	Count  int64  `json:"count" doc:"number of losses of this kind since the start"`
}
