package admin

import "time"

// Report is the state of the whole program. Members are added to it, never renamed:
// scripts read its JSON. It holds no secret: principals have aliases, and configured
// secrets are masked in what servers said.
type Report struct {
	Name          string         `json:"name"`
	Version       string         `json:"version"`
	PID           int            `json:"pid"`
	Started       time.Time      `json:"started"`
	UptimeSeconds int64          `json:"uptimeSeconds"`
	State         string         `json:"state"` // "serving" or "stopping"
	Configured    time.Time      `json:"configured"`
	Conversations map[string]int `json:"conversations"` // with clients, by transport
	Requests      int            `json:"requests"`      // that run and are a conversation by themselves
	InFlight      InFlight       `json:"inFlight"`
	Endpoints     []Endpoint     `json:"endpoints"`
	Servers       []Server       `json:"servers"`
	Parked        []ParkedCall   `json:"parked"`
	Listens       []Listens      `json:"listens"`
	Losses        []Loss         `json:"losses"`
}

// InFlight is what requests and answers hold at the moment, in bytes.
type InFlight struct {
	Held    int64 `json:"held"`
	Limit   int64 `json:"limit"`
	Refused int64 `json:"refused"` // requests
}

// Endpoint is one address that clients come in by.
type Endpoint struct {
	Path          string         `json:"path"`
	Server        string         `json:"server,omitempty"` // "" for the one that joins them all
	Conversations map[string]int `json:"conversations"`
	Requests      int            `json:"requests"`
}

// Server is one server behind Dragoman.
type Server struct {
	Name      string     `json:"name"`
	State     string     `json:"state"`
	Since     time.Time  `json:"since"`
	Reason    string     `json:"reason,omitempty"`
	Era       string     `json:"era"`
	Revision  string     `json:"revision,omitempty"`
	Transport string     `json:"transport,omitempty"`
	Isolation string     `json:"isolation"`
	Restarts  int        `json:"restarts"`
	RetryAt   *time.Time `json:"retryAt,omitempty"`
	LastError *Fault     `json:"lastError,omitempty"`
	Handshake *Handshake `json:"handshake,omitempty"`
	Running   int        `json:"running"` // calls in flight
	Opening   int        `json:"opening"` // sessions
	Hearers   int        `json:"hearers"` // clients that hear its notices
	// Unasked counts answers that match no open request: late, repeated, or another
	// client's. Broadcasts is true when the server sends messages meant for one session
	// to all of its sessions.
	Unasked    int64     `json:"unaskedAnswers"`
	Odd        int64     `json:"oddMessages"` // of its other messages, those that nobody could use
	Broadcasts bool      `json:"broadcasts"`
	Listen     *Filter   `json:"listen,omitempty"`
	Sessions   []Session `json:"sessions"`
	Lists      []List    `json:"lists"`
}

// Fault is the last thing that went wrong with a server, with its secrets masked.
type Fault struct {
	At   time.Time `json:"at"`
	Text string    `json:"text"`
}

// Handshake says how a server was last opened, a line for each step.
type Handshake struct {
	At    time.Time `json:"at"`
	Trace []string  `json:"trace"`
}

// Filter is what Dragoman has subscribed to at a modern server.
type Filter struct {
	Tools     bool `json:"tools"`
	Prompts   bool `json:"prompts"`
	Resources bool `json:"resources"`
	URIs      int  `json:"uris"`
}

// Session is one session of a server. Its role is "home", "lane", "call" or "link".
type Session struct {
	Principal    string     `json:"principal,omitempty"` // an alias; none for nobody in particular
	Capabilities []string   `json:"capabilities"`
	Role         string     `json:"role"` // "home", "lane", "call" or "link"
	Revision     string     `json:"revision"`
	PID          int        `json:"pid,omitempty"`
	Opened       time.Time  `json:"opened"`
	Running      int        `json:"running"`
	IdleSince    *time.Time `json:"idleSince,omitempty"`
	Hearers      int        `json:"hearers"`
	Watched      int        `json:"watched"`
}

// List is one list that was read from a server: its tools, prompts, resources or templates.
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

// RejectedItem is an item of a list that clients are not shown, and why.
type RejectedItem struct {
	Name string `json:"name"`
	Why  string `json:"why"`
}

// ParkedCall is a call that waits for a modern client to answer a question.
type ParkedCall struct {
	Server    string    `json:"server"`
	Method    string    `json:"method"`
	Principal string    `json:"principal,omitempty"`
	Since     time.Time `json:"since"`
	Questions int       `json:"questions"`
}

// Listens says how many subscriptions one client has open.
type Listens struct {
	Client string `json:"client"` // an alias, an address or a conversation
	Open   int    `json:"open"`
}

// Loss counts what could not be carried to or from a server.
type Loss struct {
	Server string `json:"server"`
	What   string `json:"what"`
	Count  int64  `json:"count"`
}
