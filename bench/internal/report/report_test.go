package report

import (
	"encoding/json"
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
	row := func(path, client, upstream string, size int, cpu, rate float64) Load {
		return Load{Who: Who{Path: path, Client: client, Upstream: upstream}, Size: size, CPU: ratio(50), CPURatio: ratio(cpu), Rates: ratio(rate)}
	}
	return &Report{
		Failures: []string{"a failure"},
		Load: []Load{
			{Who: Who{Path: Direct, Client: "M", Upstream: "M"}, Size: 256},
			row(Proxy, "M", "M", 256, 1, 1),
			row(HTTP, "M", "M", 256, 1.25, 0.8),  // exactly at both targets
			row(HTTP, "L", "L", 256, 1.26, 0.79), // misses both targets
			row(HTTP, "M", "L", 256, 9, 0),       // no target for this size
			row(Stdio, "L", "M", 256, 0.75, 0),   // meets the target
			row(HTTP, "M", "L", 1024, 1.5, 0),    // meets the target
			row(HTTP, "L", "L", 65536, 1.8, 0),   // misses the target
			row(Stdio, "L", "L", 65536, 9, 0),    // no target
			{Who: Who{Path: HTTP, Client: "M", Upstream: "M", Base: true}, Size: 256, CPURatio: ratio(9)}, // not compared with targets
		},
		Versus:     []Versus{{Who: Who{Path: HTTP, Client: "M", Upstream: "M"}, To: Who{Path: HTTP, Client: "M", Upstream: "M", Base: true}, Size: 256, Pairs: 5, CPU: ratio(0.987), Rate: ratio(1.01)}},
		Handshakes: []Handshake{{Who: Who{Path: Direct, Client: "L", Upstream: "L"}}, {Who: Who{Path: HTTP, Client: "L", Upstream: "L"}, Ratio: 2.1}, {Who: Who{Path: Proxy, Client: "L", Upstream: "L"}, Ratio: 2.5}},
		Starts:     []Start{{Who: Who{Path: Direct, Client: "L", Upstream: "L"}}, {Who: Who{Path: Stdio, Client: "L", Upstream: "L"}, Time: Spread{Median: 12, Min: 11, Max: 30}}},
		Idles: []Idle{
			{Server: "bare", Kind: Connected, Bytes: 19 << 10}, {Server: "dragoman", Kind: Connected, Bytes: 21 << 10},
			{Server: "dragoman", Kind: Streaming, Bytes: 90 << 10}, {Server: "dragoman", Kind: Alone, Bytes: 1025},
		},
	}
}

func TestJudge(t *testing.T) {
	r := sample()
	r.Judge()
	var got []string
	for _, v := range r.Targets {
		verdict := "miss"
		if v.Kept() {
			verdict = "PASS"
		}
		got = append(got, v.Who+": "+v.Promise+": "+verdict)
	}
	want := []string{
		"dragoman http M>M: CPU per call, 256 B: PASS",
		"dragoman http M>M: calls/s, 256 B: PASS",
		"dragoman http L>L: CPU per call, 256 B: miss",
		"dragoman http L>L: calls/s, 256 B: miss",
		"dragoman stdio L>M: CPU per call, 256 B: PASS",
		"dragoman http M>L: CPU per call, 1 KiB: PASS",
		"dragoman http L>L: CPU per call, 64 KiB: miss",
		"dragoman http L>L: , p50 relative to direct: miss",
		"dragoman stdio L>L: from start to the first answered list: PASS",
		"dragoman: idle session, connection: PASS",
		"dragoman: idle session, connection, above bare: miss",
		"dragoman: idle session, no connection: miss",
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
	for _, want := range []string{"Load, 256 B\n", "Load, 64 KiB\n", "dragoman http M>M", "base http M>M", "0.987", "PASS", "miss", "- a failure"} {
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
