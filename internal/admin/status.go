package admin

import (
	"time"

	"github.com/dragoman-mcp/dragoman/internal/failure"
)

// Report is the state of the program. Scripts read its JSON, so members may be added but not
// renamed. A report contains no secrets: principals appear as aliases, and configured secrets are
// masked in text from servers.
type Report struct {
	Name          string         `json:"name"`
	Version       string         `json:"version"`
	PID           int            `json:"pid"`
	Started       time.Time      `json:"started"`
	UptimeSeconds int64          `json:"uptimeSeconds"`
	State         string         `json:"state"` // "serving" or "stopping"
	Configured    time.Time      `json:"configured"`
	Config        string         `json:"config,omitempty"` // the full path of the configuration file
	Refusal       *Refusal       `json:"refusal,omitempty"`
	Conversations map[string]int `json:"conversations"` // the number of sessions with clients, by transport
	Requests      int            `json:"requests"`      // running requests that belong to no session
	InFlight      InFlight       `json:"inFlight"`
	Endpoints     []Endpoint     `json:"endpoints"`
	Servers       []Server       `json:"servers"`
	Parked        []ParkedCall   `json:"parked"`
	Listens       []Listens      `json:"listens"`
	Losses        []Loss         `json:"losses"`
	// DemoClients are the names of the clients that "serve --demo" starts.
	DemoClients []string `json:"demoClients,omitempty"`
}

// Refusal says why Dragoman refused the current content of the configuration file.
type Refusal struct {
	Text  string    `json:"text" doc:"why the file was refused, as sentences"`
	Since time.Time `json:"since"`
}

// InFlight describes the memory that running requests and their answers use now. Held and Limit are
// in bytes.
type InFlight struct {
	Held    int64 `json:"held"`
	Limit   int64 `json:"limit"`
	Refused int64 `json:"refused"` // number of requests that were refused because the limit was reached
}

// Endpoint is one HTTP endpoint for clients.
type Endpoint struct {
	Path          string         `json:"path"`
	Server        string         `json:"server,omitempty"` // "" for the merged endpoint
	Conversations map[string]int `json:"conversations"`
	Requests      int            `json:"requests"`
}

// Server is the state of one server behind Dragoman.
type Server struct {
	Name   string    `json:"name"`
	State  string    `json:"state"`
	Since  time.Time `json:"since"`
	Reason string    `json:"reason,omitempty"`
	// Failure describes why the server does not work. It is nil while the server works.
	Failure   *failure.Failure `json:"failure,omitempty"`
	Era       string           `json:"era"`
	Revision  string           `json:"revision,omitempty"`
	Transport string           `json:"transport,omitempty"`
	Isolation string           `json:"isolation"`
	Restarts  int              `json:"restarts"`
	// Attempts is the number of consecutive failures while the server is not ready. RetryAt is the
	// time of the next attempt in the background. If the server starts on demand, a call does not
	// start the server before RetryAt.
	Attempts  int        `json:"attempts,omitempty"`
	RetryAt   *time.Time `json:"retryAt,omitempty"`
	LastError *Fault     `json:"lastError,omitempty"`
	Handshake *Handshake `json:"handshake,omitempty"`
	Running   int        `json:"running"` // calls in flight
	// Calls and FailedCalls count the calls that have ended since Dragoman started. A call has
	// failed if the client got an error.
	Calls       uint64 `json:"calls"`
	FailedCalls uint64 `json:"failedCalls"`
	Opening     int    `json:"opening"` // sessions that are being opened
	Hearers     int    `json:"hearers"` // clients that receive the server's notifications
	// Unasked counts answers that match no open request, such as late or repeated answers, and
	// answers for another client. Broadcasts is true if the server sends messages for one session
	// to all of its sessions.
	Unasked    int64 `json:"unaskedAnswers"`
	Odd        int64 `json:"oddMessages"` // other messages from the server that Dragoman could not use
	Late       int64 `json:"lateProgress" doc:"progress notifications for a request that had ended (answered, cancelled or timed out)"`
	Broadcasts bool  `json:"broadcasts"`
	// WorkerVersion is the version of the last handshake with a Codex worker, "v1" or "v2".
	// WorkerCause says why the version is not "v2", or why the handshake failed.
	WorkerVersion string    `json:"workerVersion,omitempty"`
	WorkerCause   string    `json:"workerCause,omitempty"`
	Listen        *Filter   `json:"listen,omitempty"`
	Sessions      []Session `json:"sessions"`
	Lists         []List    `json:"lists"`
}

// Fault is the last error of a server, with secrets masked.
type Fault struct {
	At   time.Time `json:"at"`
	Text string    `json:"text"`
	// Failure describes the error in detail. Text is the sentence of Failure.
	Failure *failure.Failure `json:"failure,omitempty"`
}

// Handshake is the trace of the last handshake with a server. Trace has one line for each step.
type Handshake struct {
	At    time.Time `json:"at"`
	Trace []string  `json:"trace"`
}

// Filter says which notifications of a modern server Dragoman has subscribed to.
type Filter struct {
	Tools     bool `json:"tools"`
	Prompts   bool `json:"prompts"`
	Resources bool `json:"resources"`
	URIs      int  `json:"uris"`
}

// Session is one session with a server.
type Session struct {
	Principal    string     `json:"principal,omitempty"` // an alias of the principal; "" if the session has no principal
	Capabilities []string   `json:"capabilities"`
	Role         string     `json:"role"` // "home", "lane", "call" or "link"; see upstream.Role
	Revision     string     `json:"revision"`
	PID          int        `json:"pid,omitempty"`
	Opened       time.Time  `json:"opened"`
	Running      int        `json:"running"`
	IdleSince    *time.Time `json:"idleSince,omitempty"`
	Hearers      int        `json:"hearers"`
	Watched      int        `json:"watched"`
}

// List is the state of one list of a server: its tools, prompts, resources or templates.
type List struct {
	Method  string         `json:"method"`
	Items   int            `json:"items"`
	ReadAt  *time.Time     `json:"readAt,omitempty"`
	Stale   bool           `json:"stale"`
	Reading bool           `json:"reading"`
	CutOff  bool           `json:"cutOff"`
	Failed  string         `json:"failed,omitempty"`
	Odd     []RejectedItem `json:"odd,omitempty"`
}

// RejectedItem is an item that clients do not see, or that they see under an unusual name. Why is
// the reason.
type RejectedItem struct {
	Name string `json:"name"`
	Why  string `json:"why"`
}

// ParkedCall is a call that waits until a modern client answers a request from the server.
type ParkedCall struct {
	Server    string    `json:"server"`
	Method    string    `json:"method"`
	Principal string    `json:"principal,omitempty"`
	Since     time.Time `json:"since"`
	Questions int       `json:"questions"`
}

// Listens is the number of open subscriptions of one client.
type Listens struct {
	Client string `json:"client"` // an alias, an address or the id of a session
	Open   int    `json:"open"`
}

// Loss counts how often Dragoman left out one kind of content in messages to or from a server.
type Loss struct {
	Server string `json:"server"`
	What   string `json:"what"`
	Count  int64  `json:"count"`
}
