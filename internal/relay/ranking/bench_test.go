package ranking

import (
	"runtime"
	"testing"
)

// The benchmarks are TS16: 5,000 tools of 200 servers. The goals are 100 ms for all indexes, 5 ms for a
// search, and 10 MB of memory.

func BenchmarkIndex(b *testing.B) {
	var servers [][]Tool
	bytes := 0
	for i := range 200 {
		servers = append(servers, crowded(i, 25))
		for _, t := range servers[i] {
			bytes += len(t.Definition)
		}
	}
	b.SetBytes(int64(bytes))
	for b.Loop() {
		for _, tools := range servers {
			New(tools)
		}
	}
	b.ReportMetric(float64(memory(func() any {
		var in []*Index
		for _, tools := range servers {
			in = append(in, New(tools))
		}
		return in
	}))/1e6, "MB/index")
}

// memory returns how many bytes of memory what f returns needs.
func memory(f func() any) uint64 {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	kept := f()
	runtime.GC()
	runtime.ReadMemStats(&after)
	runtime.KeepAlive(kept)
	return after.HeapAlloc - before.HeapAlloc
}

func BenchmarkSearch(b *testing.B) {
	in, all := crowd(200, 25), queries(64)
	may := func(t *Tool) bool { return t.Server != "" }
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		Search(all[i%len(all)], in, may, 8)
	}
}

// BenchmarkSearchLong searches for as many words as a query may have, all of which many tools have.
func BenchmarkSearchLong(b *testing.B) {
	in := crowd(200, 25)
	query := ""
	for _, w := range append(someVerbs, someNouns...) {
		query += " " + w
	}
	for b.Loop() {
		Search(query, in, nil, 8)
	}
}

func BenchmarkNearest(b *testing.B) {
	in := crowd(200, 25)
	for b.Loop() {
		Nearest("server17__get_mesage", in, nil, 3)
	}
}
