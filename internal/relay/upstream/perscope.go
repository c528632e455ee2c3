package upstream

import "strings"

// These constants bound what is remembered of clients with different lists: for clients without credentials
// of their own, and for all scopes together.
const (
	maxToolSpecs  = 16
	maxScopeSpecs = 1000
)

// byAudience remembers something for clients that see the same lists; lister.audienceKey returns the keys.
// It forgets what was unused for the longest time. The zero value is ready to use.
type byAudience[V any] struct {
	all  map[string]*remembered[V]
	uses uint64
}

type remembered[V any] struct {
	value V
	used  uint64
}

// get returns the value with a key, or the zero value.
func (m *byAudience[V]) get(key string) (value V) {
	if x := m.all[key]; x != nil {
		m.uses++
		x.used = m.uses
		value = x.value
	}
	return value
}

// put stores a value with a new key.
func (m *byAudience[V]) put(key string, value V) {
	n, oldest := 0, ""
	for k, x := range m.all {
		if scoped(k) != scoped(key) {
			continue
		}
		if n++; n == 1 || x.used < m.all[oldest].used {
			oldest = k
		}
	}
	if n >= maxToolSpecs && !scoped(key) || n >= maxScopeSpecs {
		delete(m.all, oldest)
	}
	if m.all == nil {
		m.all = make(map[string]*remembered[V])
	}
	m.uses++
	m.all[key] = &remembered[V]{value, m.uses}
}

// forget removes what is remembered for a scope. The scope "" stands for all.
func (m *byAudience[V]) forget(scope string) {
	if scope == "" {
		m.all = nil
		return
	}
	for key := range m.all {
		if strings.HasPrefix(key, scope+"\x00") {
			delete(m.all, key)
		}
	}
}

// scoped reports whether a key is that of clients with credentials of their own.
func scoped(key string) bool { return strings.Contains(key, "\x00") }
