package telemetry

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// dashboard is the part of Grafana's classic dashboard model that docs/grafana.json uses.
type dashboard struct {
	ID            *int
	UID, Title    string
	SchemaVersion int
	Time          struct{ From, To string }
	Templating    struct{ List []dashboardVariable }
	Panels        []dashboardPanel
}

type dashboardVariable struct {
	Type, Name, AllValue string
	Query                json.RawMessage // text for a data source, else an object
	Datasource           *datasource
}

type datasource struct{ Type, UID string }

type dashboardPanel struct {
	ID          int
	Type, Title string
	Description string
	Datasource  *datasource
	GridPos     struct{ H, W, X, Y int }
	Targets     []struct {
		RefID, Expr, LegendFormat string
		Datasource                *datasource
	}
}

// TestDashboard checks that docs/grafana.json uses only metrics, labels and variables that exist, and that
// it's a dashboard of the classic model, which every Grafana since 8 imports: without an id, with a schema
// version, with a variable for the data source that every panel uses, and with panels that don't overlap.
// `make dashboard` sends its queries to Prometheus.
func TestDashboard(t *testing.T) {
	var d dashboard
	if err := json.Unmarshal([]byte(page(t, "grafana.json")), &d); err != nil {
		t.Fatal(err)
	}
	if d.ID != nil || d.UID == "" || len(d.UID) > 40 || d.Title == "" || d.SchemaVersion < 36 || d.Time.From == "" || d.Time.To == "" {
		t.Errorf("id %v, uid %q, title %q, schemaVersion %d, time %v", d.ID, d.UID, d.Title, d.SchemaVersion, d.Time)
	}
	metrics := everyMetric()
	variables := []string{"datasource", "__rate_interval"}
	if v := d.Templating.List[0]; v.Type != "datasource" || v.Name != "datasource" || string(v.Query) != `"prometheus"` {
		t.Errorf("the first variable isn't the data source: %+v", v)
	}
	for _, v := range d.Templating.List[1:] {
		var q struct{ Query string }
		if err := json.Unmarshal(v.Query, &q); err != nil || v.Type != "query" || v.AllValue != ".*" {
			t.Errorf("%s: %v %+v", v.Name, err, v)
		}
		checkSource(t, v.Name, v.Datasource)
		checkVariables(t, v.Name, q.Query, variables)
		checkQuery(t, v.Name, q.Query, metrics)
		variables = append(variables, v.Name)
	}
	taken, ids := map[[2]int]string{}, []int{}
	for _, p := range d.Panels {
		if slices.Contains(ids, p.ID) || p.Title == "" || !slices.Contains([]string{"row", "stat", "timeseries"}, p.Type) {
			t.Errorf("panel %d %q of type %q", p.ID, p.Title, p.Type)
		}
		ids = append(ids, p.ID)
		g := p.GridPos
		if g.W < 1 || g.H < 1 || g.X < 0 || g.X+g.W > 24 {
			t.Errorf("%s: %+v", p.Title, g)
		}
		for x := range g.W {
			for y := range g.H {
				at := [2]int{g.X + x, g.Y + y}
				if taken[at] != "" {
					t.Fatalf("%q covers %q", p.Title, taken[at])
				}
				taken[at] = p.Title
			}
		}
		if p.Type == "row" {
			continue
		}
		checkSource(t, p.Title, p.Datasource)
		if len(p.Targets) == 0 {
			t.Errorf("%s: no query", p.Title)
		}
		for i, q := range p.Targets {
			where := fmt.Sprintf("%s %s", p.Title, q.RefID)
			if q.RefID != string(rune('A'+i)) {
				t.Errorf("%s: refId", where)
			}
			checkSource(t, where, q.Datasource)
			checkVariables(t, where, q.Expr, variables)
			checkQuery(t, where, strings.ReplaceAll(q.Expr, "[$__rate_interval]", "[5m]"), metrics)
		}
	}
}

func checkSource(t *testing.T, where string, d *datasource) {
	t.Helper()
	if d == nil || d.Type != "prometheus" || d.UID != "${datasource}" {
		t.Errorf("%s: the data source is %+v", where, d)
	}
}

func checkVariables(t *testing.T, where, query string, known []string) {
	t.Helper()
	for _, v := range regexp.MustCompile(`\$(\w+)`).FindAllStringSubmatch(query, -1) {
		if !slices.Contains(known, v[1]) {
			t.Errorf("%s: there is no variable %s", where, v[1])
		}
	}
}
