package console

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
	"github.com/dragoman-mcp/dragoman/internal/app/runtime"
	"github.com/dragoman-mcp/dragoman/internal/base/failure"
)

// repair describes how the user can fix failures of one class.
type repair struct {
	settings []string // settings of the server that may be wrong; the button leads to the first of them that the file sets
	global   string   // the path of a setting that does not belong to a server; used instead of settings
	command  bool     // the user can run the command in a terminal to find the cause
	stderr   bool     // the server's stderr may contain the cause
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
func (c *Console) repairButtons(s *admin.Server, f *failure.Failure) (out []button) {
	m, ok := repairs[f.Class]
	if !ok {
		m = usualRepair
	}
	if s.State == "unresponsive" {
		m = repair{} // the server has started but does not respond, and these buttons do not help in that case
	}
	base := pathOf("servers", s.Name)
	configured := false
	if c.opts.Config != nil {
		_, configured = c.opts.Config().Server(s.Name)
	}
	if configured && (len(m.settings) > 0 || m.global != "") {
		out = append(out, c.settingButton(s.Name, m))
	}
	if m.stderr {
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
func (c *Console) settingButton(server string, m repair) button {
	lines := c.where.of(c.opts.Config())
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

// needButtons returns the buttons for a server that has a problem.
func (c *Console) needButtons(s *admin.Server) (out []button) {
	if s.Failure != nil {
		out = c.repairButtons(s, s.Failure)
	}
	for _, b := range c.serverButtons(s) {
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
