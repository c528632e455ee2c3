package console

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
	"github.com/dragoman-mcp/dragoman/internal/app/runtime"
	"github.com/dragoman-mcp/dragoman/internal/base/failure"
	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
)

// need describes a problem that needs the user's attention, for example a server that has failed.
type need struct {
	Class, Word  string // the CSS class and the text of the status label
	Who, Path    string
	What         string
	Since        time.Time
	Sentence     string
	Evidence     string
	EvidenceFrom string
	Action       string
	Next         string
	Buttons      []button
	Count        int     // how often the problem exists
	Others       []Crumb // the other servers with the same problem
	weight       int     // the list is in the order of the weights: 0 is most severe
}

// button is a link to Path or, if Post is true, a form that posts to Path.
type button struct {
	Title, Path string
	Post        bool
}

// needs finds the problems that need the user's attention, and the buttons that help with them.
type needs struct {
	config   func() *config.Snapshot // may be nil
	where    *where
	operable bool              // the console can start operations on servers
	changed  func() admin.Pins // may be nil
}

// all returns all problems that need the user's attention, most severe first.
func (n *needs) all(status *admin.Report) (out []need) {
	for i := range status.Servers {
		if x, ok := n.of(&status.Servers[i]); ok {
			out = append(out, x)
		}
	}
	if x := status.Refusal; x != nil {
		refused := need{Class: "bad", Word: "Refused", Who: "The configuration", Path: pathOf("settings"), What: "was refused", Since: x.Since, weight: 0, Sentence: x.Text}
		refused.polish()
		out = append(out, refused)
	}
	for _, p := range status.Parked {
		if status.Started.Before(p.Since) && time.Since(p.Since) > 5*time.Minute {
			out = append(out, need{
				Class: "warn", Word: "Waiting", Who: p.Server, Path: pathOf("servers", p.Server), What: "waits for the user of a client", Since: p.Since, weight: 3,
				Sentence: fmt.Sprintf("A call of %s waits for an answer to %s", p.Method, plural(p.Questions, "question")),
			})
		}
	}
	if n.changed != nil {
		out = append(out, heldNeeds(n.changed())...)
	}
	slices.SortStableFunc(out, func(a, b need) int { return cmp.Or(cmp.Compare(a.weight, b.weight), b.Since.Compare(a.Since)) })
	return grouped(out)
}

// mostOthers is the maximum number of names in need.Others.
const mostOthers = 12

// grouped joins the needs of servers that have the same problem, so that one cause is one card.
func grouped(all []need) (out []need) {
	at := map[string]int{}
	for _, x := range all {
		anonymous := func(text string) string {
			return strings.ReplaceAll(text, strconv.Quote(x.Who), `""`)
		}
		key := strings.Join([]string{x.Word, x.What, anonymous(x.Sentence), anonymous(x.Evidence), anonymous(x.Action)}, "\x00")
		i, known := at[key]
		if !known || x.Sentence == "" { // without a reason, we don't know whether the problems are the same
			x.Count, at[key] = 1, len(out)
			out = append(out, x)
			continue
		}
		y := &out[i]
		y.Count++
		if other := (Crumb{x.Who, x.Path}); x.Who != y.Who && len(y.Others) < mostOthers && !slices.Contains(y.Others, other) {
			y.Others = append(y.Others, other)
			y.Buttons, y.Next = nil, "" // these are about one server; its page has them
			y.Sentence = upper(strings.TrimPrefix(y.Sentence, "Server "+strconv.Quote(y.Who)+" "))
		}
	}
	return out
}

// of describes the problem of the server s. ok is false if the server has no problem.
func (n *needs) of(s *admin.Server) (x need, ok bool) {
	x = need{Class: "bad", Word: "Failed", Who: s.Name, Path: pathOf("servers", s.Name), Since: s.Since, Buttons: n.buttons(s), weight: 1}
	switch s.State {
	case "stopped":
		return x, false // this is no problem: the operator has stopped the server
	case "failed":
		x.What = "failed"
		if s.Restarts == 0 && len(s.Sessions) == 0 {
			x.What = "failed to start"
		}
	case "unresponsive":
		x.What, x.weight = "does not answer", 2
	default:
		if s.Failure == nil {
			return x, false
		}
		x.Class, x.Word, x.What, x.weight = "warn", "Warning", "has a problem", 3
	}
	if s.State == "failed" && s.Failure != nil && s.Failure.Class == failure.NeedsSignIn {
		x.Class, x.Word, x.What, x.weight = "warn", "Sign-in", "needs a sign-in", 3
	}
	switch {
	case s.Failure != nil:
		x.describe(s.Failure)
	case s.Reason != "":
		x.Sentence = s.Reason
	case s.LastError != nil:
		x.Sentence = s.LastError.Text
	}
	x.polish()
	if s.RetryAt != nil && s.RetryAt.After(time.Now()) {
		x.Next = "Next retry at " + when(*s.RetryAt) + "."
	}
	return x, true
}

// pressable returns those of some buttons that whoever has sent r may press.
func pressable(r *http.Request, all []button) []button {
	if may(r, identity.Operator) {
		return all
	}
	return slices.DeleteFunc(slices.Clone(all), func(b button) bool { return b.Post })
}

// serverButtons returns the buttons that show the logs of a server, and that start, stop, restart
// or probe the server.
func (n *needs) serverButtons(s *admin.Server) []button {
	base := pathOf("servers", s.Name)
	out := []button{{Title: "View logs", Path: base + "#log"}}
	if !n.operable {
		return out
	}
	add := func(title string, op runtime.Operation) {
		out = append(out, button{Title: title, Path: base + "/" + string(op), Post: true})
	}
	switch s.State {
	case "stopped":
		add("Start", runtime.OpStart)
	case "idle":
		add("Start", runtime.OpStart)
		add("Stop", runtime.OpStop)
	default:
		add("Probe again", runtime.OpProbe)
		add("Restart", runtime.OpRestart)
		add("Stop", runtime.OpStop)
	}
	return out
}

// repair describes how the user can fix failures of one class.
type repair struct {
	settings []string // settings of the server that may be wrong; the button leads to the first of them that the file sets
	global   string   // the path of a setting that does not belong to a server; used instead of settings
	command  bool     // the user can run the command in a terminal to find the cause
	stderr   bool     // the server's stderr may contain the cause, if there is any
	doctor   bool     // an examination may find the cause
}

var address = []string{"url", "httpUrl", "serverUrl"}

// repairs maps each class of failure to its repair. For other classes, repairButtons uses usualRepair.
var repairs = map[failure.Class]repair{
	failure.CommandNotFound:   {settings: []string{"command"}, command: true},
	failure.CannotStart:       {settings: []string{"command"}, command: true},
	failure.NotAdmitted:       {settings: []string{"command"}},
	failure.MissingVariable:   {settings: []string{"env", "inheritEnv"}, stderr: true},
	failure.Exited:            {stderr: true, command: true, doctor: true},
	failure.NotJSON:           {settings: []string{"command"}, doctor: true},
	failure.BadAddress:        {settings: address},
	failure.DNS:               {settings: address},
	failure.ConnectionRefused: {settings: address},
	failure.Unreachable:       {settings: address},
	failure.WrongScheme:       {settings: address},
	failure.WrongPath:         {settings: address, doctor: true},
	failure.Redirected:        {settings: address},
	failure.TLS:               {settings: append([]string{"caFile"}, address...)},
	failure.Unauthorized:      {settings: append([]string{"headers"}, address...)},
	failure.NeedsSignIn:       {settings: append([]string{"headers"}, address...)},
	failure.Silent:            {settings: []string{"startTimeout"}, doctor: true},
	failure.WrongVersion:      {settings: []string{"revision", "command", "url"}, doctor: true},
	failure.OtherProtocol:     {settings: []string{"dialect"}, doctor: true},
	failure.TooLarge:          {global: "dragoman.limits.message"},
	failure.Stalled:           {},
	failure.Stopped:           {},
}

var usualRepair = repair{stderr: true, doctor: true}

// repairButtons returns buttons that help the user to fix a failure. The buttons lead to a setting,
// to the most useful line of stderr, or to the command, or start an examination.
func (n *needs) repairButtons(s *admin.Server, f *failure.Failure) (out []button) {
	m, ok := repairs[f.Class]
	if !ok {
		m = usualRepair
	}
	if s.State == "unresponsive" {
		m = repair{} // the server has started but does not respond, and these buttons do not help in that case
	}
	base := pathOf("servers", s.Name)
	configured := false
	if n.config != nil {
		_, configured = n.config().Server(s.Name)
	}
	if configured && (len(m.settings) > 0 || m.global != "") {
		out = append(out, n.settingButton(s.Name, m))
	}
	if m.stderr && f.EvidenceFrom == failure.Stderr {
		out = append(out, button{Title: "Show stderr", Path: base + "#telling"})
	}
	if m.command && configured {
		out = append(out, button{Title: "Copy the command", Path: base + "#command"})
	}
	if m.doctor {
		out = append(out, button{Title: "Run doctor", Path: base + "/findings", Post: true})
	}
	return out
}

// settingButton returns the button that leads to the setting that may be wrong. server must be
// configured.
func (n *needs) settingButton(server string, m repair) button {
	lines := n.where.of(n.config())
	title := func(key string, at int) string {
		if at > 0 {
			return "Show " + key + ", line " + strconv.Itoa(at)
		}
		return "Show " + key
	}
	if m.global != "" {
		key := strings.TrimPrefix(m.global, "dragoman.")
		return button{Title: title(key, lines[m.global]), Path: pathOf("settings") + "#" + settingID(m.global)}
	}
	base := pathOf("servers", server)
	for _, key := range m.settings {
		for _, block := range []string{"dragoman.servers.", "mcpServers."} {
			if at := lines[block+server+"."+key]; at > 0 {
				if slices.Contains(address, key) {
					key = address[0] // the page shows all address settings in the row with this key
				}
				return button{Title: title(key, at), Path: base + "#" + settingID(key)}
			}
		}
	}
	if m.settings[0] == "startTimeout" { // the page has a row for startTimeout even if the file does not set it
		return button{Title: "Show startTimeout", Path: base + "#" + settingID("startTimeout")}
	}
	// The file sets none of these keys, so lead to the server's entry instead.
	return button{Title: title("the entry", lines["mcpServers."+server]), Path: base + "#" + settingID("")}
}

// settingID returns the HTML id of the row of a setting. The path "" means the entry of a server.
func settingID(path string) string { return "set-" + cmp.Or(path, "server") }

// failureNeed returns a need that shows the failure f of a server: the sentence and the action that
// the command line also prints, and the evidence.
func failureNeed(s *admin.Server, f *failure.Failure) *need {
	n := &need{Class: "bad", Word: "Failed", Who: s.Name, Path: pathOf("servers", s.Name), What: "cannot be used"}
	n.describe(f)
	return n
}

// describe sets the sentence, the evidence and the action to those of the failure f.
func (n *need) describe(f *failure.Failure) {
	n.Sentence, n.Action = f.Sentence, f.Action
	if len(f.Evidence) > 0 && !strings.Contains(f.Sentence, strings.TrimSpace(f.Evidence[0])) {
		n.Evidence, n.EvidenceFrom = f.Evidence[0], string(f.EvidenceFrom)
	}
	n.polish()
}

// polish makes the sentence and the action begin with a capital letter. It removes the full stops,
// because the template adds full stops.
func (n *need) polish() {
	n.Sentence, n.Action = strings.TrimSuffix(upper(n.Sentence), "."), strings.TrimSuffix(upper(n.Action), ".")
}

// buttons returns the buttons for a server that has a problem.
func (n *needs) buttons(s *admin.Server) (out []button) {
	if s.Failure != nil {
		out = n.repairButtons(s, s.Failure)
	}
	for _, b := range n.serverButtons(s) {
		if b.Title == "View logs" && len(out) == 0 || strings.HasSuffix(b.Path, "/"+string(runtime.OpRestart)) && b.Post {
			out = append(out, b)
		}
	}
	return out
}

// tellingLine returns the index of the log record with the first line of the failure's evidence.
// That is the most useful line of stderr. The index is -1 if no record has it.
func tellingLine(logs []admin.LogRecord, f *failure.Failure) int {
	if f == nil || len(f.Evidence) == 0 {
		return -1
	}
	best := strings.TrimSpace(f.Evidence[0])
	for i := len(logs) - 1; i >= 0; i-- {
		if logs[i].Source == "stderr" && strings.TrimSpace(logs[i].Text) == best {
			return i
		}
	}
	return -1
}
