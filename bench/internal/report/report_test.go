package report

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
)

func TestSummarize(t *testing.T) {
	if s := Summarize([]float64{5, 1, 3}); s != (Spread{Median: 3, Min: 1, Max: 5}) {
		t.Error(s)
	}
	if s := Summarize([]float64{4, 1, 3, 2}); s != (Spread{Median: 2.5, Min: 1, Max: 4}) {
		t.Error(s)
	}
	if s := Summarize(nil); s != (Spread{}) {
		t.Error(s)
	}
	if s := Ratio([]float64{2, 6, 4}, []float64{1, 2, 4}); s == nil || *s != (Spread{Median: 2, Min: 1, Max: 3, Low: 1, High: 3}) {
		t.Error(s)
	}
	if Ratio([]float64{1}, nil) != nil || Ratio([]float64{1}, []float64{0}) != nil {
		t.Error("Ratio is not nil for values that cannot be paired")
	}
}

func TestRise(t *testing.T) {
	for _, c := range []struct {
		values     []float64
		rise, mean float64
	}{{[]float64{1, 2, 3, 4}, 3, 2.5}, {[]float64{4, 2}, -2, 3}, {[]float64{1, 9, 1}, 0, 11.0 / 3}, {[]float64{7}, 0, 7}} {
		if rise, mean := Rise(c.values); math.Abs(rise-c.rise) > 1e-9 || math.Abs(mean-c.mean) > 1e-9 {
			t.Errorf("%v: %v, %v", c.values, rise, mean)
		}
	}
}

func TestMiddle(t *testing.T) {
	var values []float64
	for i := range 100 {
		values = append(values, float64((i*37)%100))
	}
	if low, high := Middle(values); low != 40 || high != 59 {
		t.Error(low, high)
	}
	if low, high := Middle([]float64{5, 1, 3}); low != 1 || high != 5 {
		t.Error(low, high)
	}
	if low, high := Middle(nil); low != 0 || high != 0 {
		t.Error(low, high)
	}
}

func sample() *Report {
	ratio := func(v float64) *Spread { return &Spread{Median: v, Min: v - 0.1, Max: v + 0.1} }
	who := func(path, cell string) Who { return Who{Path: path, Client: cell[:1], Upstream: cell[1:]} }
	row := func(path, cell string, size, clients int, cpu, rate, p99 float64) Load {
		return Load{Who: who(path, cell), Size: size, Clients: clients, CPU: ratio(50), CPURatio: ratio(cpu), Rates: ratio(rate), P99Ratio: ratio(p99)}
	}
	versus := func(path, to, cell string, cpu float64) Versus {
		return Versus{Who: who(path, cell), To: who(to, cell), Size: 256, CPU: ratio(cpu)}
	}
	base := who(HTTP, "MM")
	base.Base = true
	return &Report{
		Clients:  16,
		Failures: []string{"a failure"},
		Load: []Load{
			{Who: who(Direct, "MM"), Size: 256, Clients: 16},
			row(Proxy, "MM", 256, 16, 1, 1, 1),
			row(HTTP, "MM", 256, 16, 0.60, 1.2, 9),  // exactly at both targets; none for p99
			row(HTTP, "LL", 256, 16, 0.61, 1.19, 9), // misses both targets
			row(HTTP, "ML", 256, 16, 9, 0, 9),       // compared with M>M only
			row(Piped, "MM", 256, 16, 9, 0, 9),      // no target
			row(Stdio, "LL", 1<<20, 16, 1.5, 0, 9),  // meets the target
			row(HTTP, "LL", 1024, 16, 9, 0, 9),      // no target for this size
			row(HTTP, "LL", 256, 64, 9, 1.3, 1.01),  // CPU has no target with 64 clients; meets and misses
			{Who: base, Size: 256, Clients: 16, CPURatio: ratio(9)},
		},
		Versus: []Versus{
			{Who: who(HTTP, "MM"), To: base, Size: 256, Pairs: 5, CPU: ratio(0.987), Rate: ratio(1.01)}, // not compared with targets
			versus(HTTP, HTTP, "ML", 1.05), versus(Events, HTTP, "MM", 1.11), versus(Many, Few, "MM", 1.05),
			versus(Crowded, HTTP, "MM", 1.06), versus(Recording, Serve, "MM", 1.07), versus(Console, Serve, "MM", 1.08),
		},
		Starts: []Start{{Who: who(Stdio, "LL"), Ratio: ratio(3.1), Memory: 14e6}},
		Idles: []Idle{
			{Server: "bare", Kind: Connected, Bytes: 20 << 10}, {Server: "dragoman", Kind: Connected, Bytes: 9 << 10},
			{Server: "bare", Kind: Streaming, Bytes: 40 << 10}, {Server: "dragoman", Kind: Streaming, Bytes: 18 << 10},
		},
	}
}

func TestJudge(t *testing.T) {
	r := sample()
	r.Judge()
	var got []string
	for _, v := range r.Targets {
		got = append(got, fmt.Sprintf("%s %s: %v", v.Promise, v.Cell, v.Kept()))
	}
	want := []string{
		"CPU of http / of ReverseProxy, 256 B M>M: true",
		"calls/s / of ReverseProxy, 16 clients M>M: true",
		"CPU of http / of ReverseProxy, 256 B L>L: false",
		"calls/s / of ReverseProxy, 16 clients L>L: false",
		"CPU of stdio / of ReverseProxy, 1 MiB L>L: true",
		"calls/s / of ReverseProxy, 64 clients L>L: true",
		"p99 / of ReverseProxy, 64 clients L>L: false",
		"CPU of http, mixed / of the client's era, 256 B M>L: true",
		"CPU of http, event streams / of http, 256 B M>M: false",
		"CPU of serve, 200 servers / of serve, 10 servers, 256 B M>M: true",
		"CPU of http, idle sessions / of http, 256 B M>M: false",
		"CPU of serve, record: memory / of serve, no console, 256 B M>M: true",
		"CPU of serve, recording off / of serve, no console, 256 B M>M: false",
		"memory of an idle session with connection / of a net/http server : true",
		"memory of an idle session with connection and GET stream / of a net/http server : false",
		"start to the first list / of the server alone L>L: false",
		"idle memory of run L>L: true",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestPrint(t *testing.T) {
	r := sample()
	r.Judge()
	var text, object strings.Builder
	if err := r.Text(&text); err != nil {
		t.Fatal(err)
	}
	if err := r.JSON(&object); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"Load, 256 B, 16 clients\n", "Load, 1 MiB, 16 clients\n", "Load, 256 B, 64 clients\n", "dragoman http M>M", "base http M>M", "0.987", "| no ", "| yes ", "- a failure",
		"M>M 0.60 (0.00..0.00), L>L 0.61"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("text lacks %q:\n%s", want, text.String())
		}
	}
	for _, line := range strings.Split(text.String(), "\n") {
		if strings.HasPrefix(line, "|") && !strings.HasSuffix(line, "|") {
			t.Errorf("bad row %q", line)
		}
	}
	if !json.Valid([]byte(object.String())) || !strings.Contains(object.String(), `"cpu_to_proxy"`) {
		t.Error(object.String())
	}
}
