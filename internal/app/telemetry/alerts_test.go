package telemetry

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/event"
	"github.com/dragoman-mcp/dragoman/internal/relay/limits"
	"github.com/dragoman-mcp/dragoman/internal/relay/upstream"
	"github.com/dragoman-mcp/dragoman/internal/transport"
	"github.com/dragoman-mcp/dragoman/internal/transport/httpdoor"
	"github.com/dragoman-mcp/dragoman/internal/transport/streamhttp"
)

// everyMetric returns the labels of each metric, by name.
func everyMetric() map[string][]string {
	m, p := NewMetrics(), &event.Publisher{}
	defer m.Subscribe(p)()
	m.WatchServers(func() map[string][]upstream.Status {
		return map[string][]upstream.Status{"p": {{Name: "s", State: upstream.Ready, Odd: 1, Late: 1, Unasked: 1, Handshakes: map[[2]string]uint64{{"v1", "silence"}: 2}}}}
	})
	m.WatchBudget(transport.NewBudget(1))
	m.WatchEndpoints(func() []Endpoint { return []Endpoint{{Path: "/mcp", HTTP: streamhttp.Counts{Refused: 1}}} }, httpdoor.NewGuard(nil, nil, nil))
	m.WatchPins(func() map[string]map[string]int { return map[string]map[string]int{"default": {"s": 1}} })
	m.WatchLimits(func() []limits.Refused { return []limits.Refused{{Party: limits.Party{Project: "default"}, Times: 1}} })
	m.WatchQuestions(func() map[string]map[string]int { return map[string]map[string]int{"default": {"s": 1}} })
	m.WatchTraces(&Traces{})
	p.Publish(event.Event{Kind: event.Call, Server: "s", Outcome: event.OK, Waited: 1})
	p.Publish(event.Event{Kind: event.Handshake, Server: "s", Outcome: event.OK})
	p.Publish(event.Event{Kind: event.Loss, Server: "s", Name: "x"})
	p.Publish(event.Event{Kind: event.Handshake, Name: "c", From: mcp.R20251125, Outcome: event.OK, Opening: &event.Opening{Client: "c"}})
	p.Publish(event.Event{Kind: event.BadMessage, Name: "stdio", Code: -32700})
	out := map[string][]string{}
	for line := range strings.Lines(scrape(m)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		name, rest, labelled := strings.Cut(strings.Fields(line)[0], "{")
		for _, l := range regexp.MustCompile(`(\w+)="`).FindAllStringSubmatch(rest, -1) {
			if labelled && !slices.Contains(out[name], l[1]) {
				out[name] = append(out[name], l[1])
			}
		}
		if !labelled {
			out[name] = nil
		}
	}
	return out
}

func page(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

var (
	usedMetric = regexp.MustCompile(`\b((?:dragoman|process|go)_\w+)(?:\{([^}]*)\})?`)
	usedLabel  = regexp.MustCompile(`(\w+)(?:=|!=|=~|!~)"`)
	grouping   = regexp.MustCompile(`(?:by|on) \(([^)]*)\)`)
)

// checkQuery checks that a query uses only metrics and labels that exist. Prometheus itself adds instance
// and job.
func checkQuery(t *testing.T, where, query string, metrics map[string][]string) {
	t.Helper()
	labels := []string{"instance", "job"}
	uses := usedMetric.FindAllStringSubmatch(query, -1)
	if len(uses) == 0 && !strings.HasPrefix(query, "up{") {
		t.Errorf("%s: no metric in %s", where, query)
	}
	for _, use := range uses {
		known, ok := metrics[use[1]]
		if !ok {
			known, ok = metrics[use[1]+"_count"] // a native histogram
		}
		if !ok && (strings.HasPrefix(use[1], "dragoman") || runtime.GOOS == "linux") {
			t.Errorf("%s: there is no metric %s", where, use[1])
		}
		labels = append(labels, known...)
		for _, l := range usedLabel.FindAllStringSubmatch(use[2], -1) {
			if l[1] != "instance" && l[1] != "job" && !slices.Contains(known, l[1]) {
				t.Errorf("%s: %s has no label %s", where, use[1], l[1])
			}
		}
	}
	for _, by := range grouping.FindAllStringSubmatch(query, -1) {
		for l := range strings.SplitSeq(by[1], ", ") {
			if !slices.Contains(labels, l) {
				t.Errorf("%s: no metric has the label %s", where, l)
			}
		}
	}
	if strings.Count(query, "(") != strings.Count(query, ")") {
		t.Errorf("%s: parentheses: %s", where, query)
	}
}

// TestAlerts checks that the alert rules use only metrics and labels that exist, and that the
// documentation describes each rule. If promtool is installed, promtool also checks the rules.
func TestAlerts(t *testing.T) {
	text, doc, metrics := page(t, "alerts.yaml"), page(t, "monitoring.md"), everyMetric()
	if tool, err := exec.LookPath("promtool"); err == nil {
		if out, err := exec.CommandContext(t.Context(), tool, "check", "rules", filepath.Join("..", "..", "..", "docs", "alerts.yaml")).CombinedOutput(); err != nil {
			t.Errorf("promtool: %v\n%s", err, out)
		}
	}
	var file struct {
		Groups []struct {
			Name  string
			Rules []struct {
				Alert, Expr, For string
				Labels           map[string]string
				Annotations      map[string]string
			}
		}
	}
	if err := yaml.UnmarshalWithOptions([]byte(text), &file, yaml.Strict()); err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, g := range file.Groups {
		for _, r := range g.Rules {
			n++
			if r.Alert == "" || r.Labels["severity"] == "" || r.Annotations["summary"] == "" || r.Annotations["description"] == "" {
				t.Errorf("incomplete: %+v", r)
			}
			if !strings.Contains(doc, "| `"+r.Alert+"` |") {
				t.Errorf("docs/monitoring.md does not explain %s", r.Alert)
			}
			checkQuery(t, r.Alert, r.Expr, metrics)
		}
	}
	if in := strings.Count(doc, "\n| `Dragoman"); n == 0 || in != n {
		t.Errorf("%d rules, %d in docs/monitoring.md", n, in)
	}
}

// TestMetricsAreDocumented checks that docs/monitoring.md lists each metric with its labels,
// and no other metrics.
func TestMetricsAreDocumented(t *testing.T) {
	doc, metrics := page(t, "monitoring.md"), everyMetric()
	documented := map[string]bool{}
	for _, row := range regexp.MustCompile("(?m)^\\| `(dragoman_\\w+)` \\|([^|]*)\\|").FindAllStringSubmatch(doc, -1) {
		documented[row[1]] = true
		known, ok := metrics[row[1]]
		if !ok {
			if known, ok = metrics[row[1]+"_count"]; !ok {
				t.Errorf("there is no metric %s", row[1])
			}
		}
		var labels []string
		for _, l := range regexp.MustCompile("`(\\w+)`").FindAllStringSubmatch(row[2], -1) {
			labels = append(labels, l[1])
		}
		slices.Sort(labels)
		if known = slices.Clone(known); !slices.Equal(labels, slices.Sorted(slices.Values(known))) {
			t.Errorf("%s has the labels %v, documented are %v", row[1], known, labels)
		}
	}
	for name := range metrics {
		base := strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(name, "_bucket"), "_count"), "_sum")
		if strings.HasPrefix(name, "dragoman_") && !documented[name] && !documented[base] {
			t.Errorf("docs/monitoring.md lacks %s", name)
		}
	}
}
