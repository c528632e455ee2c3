package admin

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/app/runtime"
	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/failure"
	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/base/work"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
	"github.com/dragoman-mcp/dragoman/internal/workbench/doctor"
	"github.com/dragoman-mcp/dragoman/internal/workbench/matrix"
)

// ExamRequest is the body of a request to examine a server.
type ExamRequest struct {
	Deep bool `json:"deep,omitempty" doc:"whether to run the slow tests too"`
}

// Examination is a running or ended examination of a server by the doctor.
type Examination struct {
	Server   string       `json:"server" doc:"the server's name"`
	State    string       `json:"state" enum:"running,ended,cancelled,failed" doc:"failed: it took longer than 10 minutes"`
	Deep     bool         `json:"deep" doc:"whether the examination includes the slow tests"`
	Started  time.Time    `json:"started" doc:"when the examination started"`
	Ended    *time.Time   `json:"ended,omitempty" doc:"when the examination ended; left out while it runs"`
	Step     string       `json:"step,omitempty" doc:"the test that is running"`
	Findings []Finding    `json:"findings" doc:"the findings, the worst first"`
	Passed   []string     `json:"passed" doc:"the tests that found no problem"`
	Verdict  *ExamVerdict `json:"verdict,omitempty" doc:"the result; left out while the examination runs"`
	Error    string       `json:"error,omitempty" doc:"why it was cancelled or has failed"`
}

// Finding is one finding of the doctor. docs/findings.md lists all codes.
type Finding struct {
	Code     string `json:"code" doc:"the finding's code, such as DRG-SLOW-START; docs/findings.md lists all codes"`
	Level    string `json:"level" enum:"error,warning,info" doc:"error: clients that follow the specification fail, or can't use a feature; warning: some clients fail; info: nothing is wrong"`
	Title    string `json:"title" doc:"the finding in a few words"`
	Meaning  string `json:"meaning" doc:"what it means for the server's users"`
	Affects  string `json:"affects,omitempty" doc:"the clients that the problem affects"`
	Fix      string `json:"fix" doc:"what the server's or client's author should change"`
	Bridged  string `json:"bridged,omitempty" doc:"what Dragoman does until it's fixed"`
	Evidence string `json:"evidence,omitempty" doc:"the messages that prove the finding, one per line"`
}

// ExamVerdict summarises what works with a server, directly and through Dragoman.
type ExamVerdict struct {
	Reached   bool             `json:"reached" doc:"whether the server has sent a message, or answered over HTTP"`
	Healthy   bool             `json:"healthy" doc:"true if no finding has the level error"`
	SignIn    bool             `json:"signIn" doc:"true if the server answers only clients that have signed in, so only a few tests could run"`
	Summary   string           `json:"summary" doc:"the verdict on one line"`
	Through   bool             `json:"throughDragoman" doc:"whether Dragoman could open the server and list its tools"`
	Dialect   string           `json:"dialect,omitempty" doc:"the dialect in which Dragoman opens the server; left out for standard MCP"`
	Why       string           `json:"why,omitempty" doc:"why Dragoman can't open the server"`
	Tokens    int              `json:"tokens" doc:"the estimated tokens of the server's tools and instructions in a model's context"`
	Revisions []ExamRevision   `json:"revisions" doc:"one entry for each protocol revision"`
	Failure   *failure.Failure `json:"failure,omitempty" doc:"why the server can't be used through Dragoman; left out if it can"`
	Offer     ExamOffer        `json:"offer" doc:"what the server offers"`
}

// ExamOffer describes what a server offers. It contains only what the examination could read.
type ExamOffer struct {
	Name         string     `json:"name,omitempty" doc:"the name that the server gives itself"`
	Version      string     `json:"version,omitempty" doc:"the version that the server gives itself"`
	ReadySeconds float64    `json:"readySeconds,omitempty" doc:"seconds from the start of the server to its first answer"`
	Lists        []ExamList `json:"lists" doc:"the lists that the examination could read"`
}

// ExamList is the number of items in one list of a server.
type ExamList struct {
	Kind  string `json:"kind" enum:"tools,resources,resourceTemplates,prompts" doc:"what the list contains"`
	Items int    `json:"items" doc:"number of items in the list"`
}

// ExamRevision states whether clients of one revision can use a server, directly and through
// Dragoman.
type ExamRevision struct {
	Revision string `json:"revision" doc:"the protocol revision, such as 2025-11-25"`
	Works    bool   `json:"works" doc:"whether clients can use the server without Dragoman"`
	Why      string `json:"why,omitempty" doc:"why clients of this revision can't use the server without Dragoman"`
	Through  bool   `json:"throughDragoman" doc:"whether a client of this revision got the server's tools through Dragoman"`
}

// Matrix describes the compatibility of all pairs of revisions, according to Dragoman's table of
// features.
type Matrix struct {
	Revisions []string        `json:"revisions" doc:"the revisions, the oldest first"`
	Features  []MatrixFeature `json:"features" doc:"the features that the matrix compares"`
	Pairs     []MatrixPair    `json:"pairs" doc:"all pairs of a client's revision and a server's revision"`
}

// MatrixFeature is one feature in the matrix.
type MatrixFeature struct {
	Name   string `json:"name" doc:"the feature's name"`
	Letter string `json:"letter,omitempty" doc:"the feature's letter in a table of losses"`
	About  string `json:"about" doc:"a short description of the feature"`
}

// MatrixPair is a pair of a client's revision and a server's revision. Through Dragoman, the client
// gets all features except the losses, and those that neither revision has.
type MatrixPair struct {
	Client string       `json:"client" doc:"the revision of the client"`
	Server string       `json:"server" doc:"the revision of the server"`
	Direct bool         `json:"direct" doc:"whether a client and a server that speak only these revisions understand each other without Dragoman"`
	Losses []MatrixLoss `json:"losses" doc:"the features that the client doesn't get through Dragoman; empty if it gets all"`
	Absent []string     `json:"absent,omitempty" doc:"the features that neither revision has, so that nothing is lost"`
}

// MatrixLoss is a feature that is lost because a revision or a transport cannot express it.
type MatrixLoss struct {
	Feature    string             `json:"feature" doc:"the name of the lost feature"`
	Letter     string             `json:"letter" doc:"the feature's letter in a table of losses"`
	Always     bool               `json:"always" doc:"true if the feature is lost over all transports, false if only over the pairs in the member transports"`
	Why        string             `json:"why" doc:"why the feature is lost over the first pair of transports, as a sentence"`
	Transports []MatrixTransports `json:"transports" doc:"the pairs of transports over which the feature is lost, with the reason for each"`
}

// MatrixTransports holds the transport of the client and the transport of the server.
type MatrixTransports struct {
	Client string `json:"client" doc:"the transport between the client and Dragoman"`
	Server string `json:"server" doc:"the transport between Dragoman and the server"`
	Why    string `json:"why" doc:"why the feature is lost over these transports"`
}

// The events of /api/v1/servers/{name}/doctor/stream.
const (
	EventStep    = "step"    // the data is an ExamStep
	EventFinding = "finding" // the data is a Finding; all findings are sent when the examination ends
	EventVerdict = "verdict" // the data is the Examination, which has ended
)

// ExamStep is the test that the doctor is running.
type ExamStep struct {
	Step string `json:"step" doc:"the test that has started, in words"`
}

// Bounds of examinations.
const (
	examLimit       = 10 * time.Minute
	examEvents      = 500
	examEventBytes  = 1 << 20
	mostExamStreams = 32
	maxExamBody     = 4 << 10
)

var errExamCancelled = errors.New("the examination was cancelled")

// exams contains the last examination of each server, and the running examination. At most one
// examination runs at a time. Only configured servers are examined, so last stays small. The zero
// value is ready to use. exams is safe for concurrent use.
type exams struct {
	work work.Group

	mu      sync.Mutex
	running *exam
	last    map[string]*exam
}

// exam is one examination.
type exam struct {
	cancel context.CancelCauseFunc
	events *Ring[runEvent]

	mu   sync.Mutex
	show Examination
}

var examRoutes = []route{
	{
		method: http.MethodPost, path: "/servers/{name}/doctor", least: identity.Operator, name: "examine",
		summary: "Examine a server over new connections, as `dragoman doctor` does; one examination runs at a time",
		body:    ExamRequest{}, answer: Examination{}, status: http.StatusAccepted, problems: []int{400, 404, 409, 413, 415}, read: (*API).startExam,
	},
	{
		method: http.MethodGet, path: "/servers/{name}/doctor", least: identity.Viewer, name: "examination", summary: "A server's last examination since the start",
		answer: Examination{}, problems: []int{404}, read: byPath("name", (*API).FindExam),
	},
	{
		method: http.MethodDelete, path: "/servers/{name}/doctor", least: identity.Operator, name: "cancelExamination", summary: "Cancel a server's examination",
		answer: Examination{}, status: http.StatusAccepted, problems: []int{404}, read: byPath("name", (*API).CancelExam),
	},
	{
		method: http.MethodGet, path: "/servers/{name}/doctor/stream", least: identity.Viewer, name: "examinationStream", summary: "The events of a server's last examination from its beginning, as server-sent events",
		events: []streamed{{EventStep, ExamStep{}}, {EventFinding, Finding{}}, {EventVerdict, Examination{}}}, problems: []int{404, 503}, write: (*API).writeExamStream,
	},
	{
		method: http.MethodGet, path: "/matrix", open: true, process: true, least: identity.Viewer, name: "matrix", summary: "Which features reach a client, for each revision of client and server",
		answer: Matrix{}, read: func(a *API, _ *http.Request) (any, *Problem) { return a.Matrix(), nil },
	},
}

// startExam answers POST /servers/{name}/doctor.
func (a *examAPI) startExam(r *http.Request) (any, *Problem) {
	var q ExamRequest
	if r.ContentLength != 0 {
		if bad := readBody(r, maxExamBody, &q); bad != nil {
			return nil, bad
		}
	}
	return result(a.StartExam(r.PathValue("name"), q))
}

// examAPI examines servers.
type examAPI struct {
	project project
	streams *Streams
	exams   exams
}

// StartExam starts an examination of a server and returns it. It does the same as POST
// /api/v1/servers/{name}/doctor, but does not check access: the caller must do that. The examination
// ends after 10 minutes at the latest, or when CancelExam or Close cancels it.
func (a *examAPI) StartExam(name string, q ExamRequest) (Examination, *Problem) {
	if bad := a.project.noServer(name); bad != nil {
		return Examination{}, bad
	}
	c, _ := a.project.Config(name)
	if c.Unusable != nil {
		return Examination{}, &Problem{Type: "not-operable", Title: "The server cannot be examined", Status: http.StatusConflict, Detail: c.Unusable.Text}
	}
	target, err := runtime.DoctorTarget(c, a.project.Current().Egress.Allow)
	if err != nil {
		return Examination{}, &Problem{Type: "not-operable", Title: "The server cannot be examined", Status: http.StatusConflict, Detail: excerpt.Line(a.project.Clean(name)(err.Error()), maxDescription)}
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	x := &exam{cancel: cancel, events: NewRing[runEvent](examEvents, examEventBytes)}
	x.show = Examination{Server: name, State: runRunning, Deep: q.Deep, Started: time.Now().UTC(), Findings: []Finding{}, Passed: []string{}}
	if bad := a.exams.begin(x); bad != nil {
		cancel(nil)
		return Examination{}, bad
	}
	if !a.exams.work.Go(func() {
		defer cancel(nil)
		ctx, stop := context.WithTimeout(ctx, examLimit)
		defer stop()
		x.perform(ctx, target, c, q.Deep)
		a.exams.ended(x)
	}) {
		cancel(nil)
		x.fail(errExamCancelled)
		a.exams.ended(x)
	}
	return x.snapshot(), nil
}

// begin makes x the running examination. It returns a problem if another examination is running.
func (s *exams) begin(x *exam) *Problem {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running != nil {
		return &Problem{Type: "busy", Title: "Another examination is running", Status: http.StatusConflict, Detail: "Server " + excerpt.Quote(s.running.show.Server, maxName) + " is being examined. Wait until the examination ends, or cancel it."}
	}
	name := x.show.Server
	if s.last == nil {
		s.last = make(map[string]*exam)
	}
	s.running, s.last[name] = x, x
	return nil
}

func (s *exams) ended(x *exam) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running == x {
		s.running = nil
	}
}

// close cancels the running examination and waits until it has ended.
func (s *exams) close() {
	s.work.Close()
	s.mu.Lock()
	x := s.running
	s.mu.Unlock()
	if x != nil {
		x.cancel(errExamCancelled)
	}
	s.work.Wait()
}

// perform examines a server.
func (x *exam) perform(ctx context.Context, target doctor.Target, c config.Server, deep bool) {
	report, err := doctor.Examine(ctx, target, doctor.Options{Deep: deep, Start: c.StartTimeout, Progress: func(step string) {
		x.mu.Lock()
		x.show.Step = step
		x.mu.Unlock()
		x.publish(EventStep, ExamStep{step})
	}})
	if err != nil {
		x.fail(err)
		return
	}
	var findings []Finding
	for _, f := range report.Findings {
		y := Finding{
			Code: f.Code, Level: string(f.Level), Title: f.Title, Meaning: f.Meaning, Affects: f.HurtsText(), Fix: f.Fix, Bridged: f.Bridged,
			Evidence: excerpt.MaskSecrets(f.Evidence),
		}
		findings = append(findings, y)
		x.publish(EventFinding, y)
	}
	v := report.Verdict
	verdict := &ExamVerdict{
		Reached: v.Reached, Healthy: v.Healthy, SignIn: v.SignIn, Summary: v.String(), Through: v.Through, Dialect: v.Dialect, Why: v.Why,
		Tokens: v.Offer.Tokens, Revisions: []ExamRevision{}, Failure: v.Failure,
		Offer: ExamOffer{Name: v.Offer.Name, Version: v.Offer.Version, ReadySeconds: v.Offer.Ready.Seconds(), Lists: []ExamList{}},
	}
	for _, l := range v.Offer.Lists {
		verdict.Offer.Lists = append(verdict.Offer.Lists, ExamList{l.Kind, l.Items})
	}
	for _, r := range v.Revisions {
		verdict.Revisions = append(verdict.Revisions, ExamRevision{r.Revision.String(), r.Works, r.Why, r.Through})
	}
	x.end("ended", func(show *Examination) {
		if findings != nil {
			show.Findings = findings
		}
		if report.Passed != nil {
			show.Passed = report.Passed
		}
		show.Verdict = verdict
	})
}

// fail ends an examination that has no verdict because of err.
func (x *exam) fail(err error) {
	state, why := "failed", "the examination took longer than 10 minutes"
	if errors.Is(err, errExamCancelled) {
		state, why = "cancelled", errExamCancelled.Error()
	}
	x.end(state, func(show *Examination) { show.Error = why })
}

// end records that an examination has ended with the given state. set sets the other results.
func (x *exam) end(state string, set func(*Examination)) {
	now := time.Now().UTC()
	show := x.snapshot()
	show.State, show.Ended, show.Step = state, &now, ""
	set(&show)
	x.mu.Lock()
	x.show = show
	x.mu.Unlock()
	x.publish(EventVerdict, show)
	x.events.End()
}

func (x *exam) publish(name string, data any) {
	b, err := json.Marshal(data)
	if err != nil {
		return // cannot happen, because JSON can encode all values in data
	}
	x.events.Add(runEvent{name, b}, len(b))
}

func (x *exam) snapshot() Examination {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.show
}

// findExam returns the last examination of a server.
func (a *examAPI) findExam(name string) (*exam, *Problem) {
	a.exams.mu.Lock()
	defer a.exams.mu.Unlock()
	if x := a.exams.last[name]; x != nil {
		return x, nil
	}
	return nil, &Problem{Type: "not-examined", Title: "The server has not been examined", Status: http.StatusNotFound, Detail: "Send a POST request to the same path to examine the server."}
}

// FindExam returns the last examination of a server. If the server has not been examined since
// Dragoman started, FindExam returns a problem with the status 404.
func (a *examAPI) FindExam(name string) (Examination, *Problem) {
	x, bad := a.findExam(name)
	if bad != nil {
		return Examination{}, bad
	}
	return x.snapshot(), nil
}

// CancelExam cancels the last examination of a server, if the examination is still running. It
// returns the examination, and does not wait until it has ended.
func (a *examAPI) CancelExam(name string) (Examination, *Problem) {
	x, bad := a.findExam(name)
	if bad != nil {
		return Examination{}, bad
	}
	x.cancel(errExamCancelled)
	return x.snapshot(), nil
}

// writeExamStream answers /servers/{name}/doctor/stream.
func (a *examAPI) writeExamStream(w http.ResponseWriter, r *http.Request) *Problem {
	x, bad := a.findExam(r.PathValue("name"))
	if bad == nil {
		serveRunEvents(w, r, a.streams, x.events)
	}
	return bad
}

var makeMatrix = sync.OnceValue(func() Matrix {
	var out Matrix
	letters := map[string]string{}
	for _, f := range matrix.FeatureInfos() {
		out.Features = append(out.Features, MatrixFeature{f.Name, f.Letter, f.About})
		letters[f.Name] = f.Letter
	}
	all := mcp.Revisions()
	for i := len(all) - 1; i >= 0; i-- {
		out.Revisions = append(out.Revisions, all[i].String())
	}
	for i := len(all) - 1; i >= 0; i-- {
		for j := len(all) - 1; j >= 0; j-- {
			p := MatrixPair{Client: all[i].String(), Server: all[j].String(), Direct: i == j, Losses: []MatrixLoss{}, Absent: matrix.AbsentFrom(all[i], all[j])}
			for _, l := range matrix.Expected(all[i], all[j]) {
				x := MatrixLoss{Feature: l.Feature, Letter: letters[l.Feature], Always: l.Always, Why: l.Why}
				for k, t := range l.Pairs {
					x.Transports = append(x.Transports, MatrixTransports{string(t.ClientTransport), string(t.ServerTransport), l.Whys[k]})
				}
				p.Losses = append(p.Losses, x)
			}
			out.Pairs = append(out.Pairs, p)
		}
	}
	return out
})
