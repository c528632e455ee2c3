package issuers

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestTA05_FloodsAndOutages checks how often the keys of an issuer are fetched: once for all who wait, again when
// a token names an unknown key, but once a minute at most, and again when they are old. When the issuer is down, the
// last ones serve for a day.
func TestTA05_FloodsAndOutages(t *testing.T) {
	pairs() // their making would count as time
	synctest.Test(t, func(t *testing.T) {
		p := newIDP()
		p.kids, p.cache = []string{"p256"}, "public, max-age=3600"
		s := setOf(t, p)
		defer s.Close()
		innocent := func() string {
			return signed("p256", "ES256", good(object{"exp": time.Now().Add(24 * time.Hour).Unix(), "x": time.Now().UnixNano()}), nil)
		}
		good := func(when string) {
			t.Helper()
			if got := judged(t, s, innocent(), "/mcp"); got != "" {
				t.Errorf("%s: %s", when, got)
			}
		}
		fetched := func(when string, want int) {
			t.Helper()
			if n := p.counted(); n != want {
				t.Errorf("%s: the keys were fetched %d times, want %d", when, n, want)
			}
		}
		together := func(n int, f func(i int)) {
			var all sync.WaitGroup
			for i := range n {
				all.Go(func() { f(i) })
			}
			all.Wait()
		}

		hold := make(chan struct{})
		p.set(func() { p.hold = hold })
		time.AfterFunc(time.Second, func() { p.set(func() { p.hold = nil }); close(hold) })
		together(100, func(int) { good("at first") })
		fetched("a hundred at once", 1)

		time.Sleep(time.Minute)
		unknown := func(i int) {
			if got := judged(t, s, signed("strange", "ES256", map[string]any{"iss": issuerURL, "i": i}, object{"kid": fmt.Sprint("kid", i)}), "/mcp"); got != errForged.Reason {
				t.Errorf("an unknown key: %q", got)
			}
		}
		together(100, unknown)
		good("in a flood")
		fetched("a flood of unknown keys", 2)
		time.Sleep(30 * time.Second)
		together(100, unknown)
		fetched("half a minute later", 2)

		time.Sleep(31 * time.Second)
		p.set(func() { p.kids = []string{"p256", "ed"} })
		if got := judged(t, s, signed("ed", "EdDSA", good2(), nil), "/mcp"); got != "" {
			t.Errorf("a new key: %s", got)
		}
		fetched("a new key", 3)

		time.Sleep(59 * time.Minute)
		good("within the hour that the answer allows")
		fetched("within the hour", 3)
		time.Sleep(2 * time.Minute)
		p.set(func() { p.kids = []string{"ed"} })
		if got := judged(t, s, innocent(), "/mcp"); got != errForged.Reason {
			t.Errorf("a key that the issuer has taken back: %q", got)
		}
		fetched("after the hour", 4)

		p.set(func() { p.kids = []string{"p256"} })
		time.Sleep(time.Hour)
		good("before the outage")
		fetched("before the outage", 5)
		p.set(func() { p.down = true })
		for range 23 {
			time.Sleep(time.Hour)
			together(10, func(int) { good("during the outage") })
		}
		fetched("an hourly try", 5+23)
		time.Sleep(2 * time.Hour)
		if got := judged(t, s, innocent(), "/mcp"); got != errWeather.Reason {
			t.Errorf("after a day: %q", got)
		}
		p.set(func() { p.down = false })
		time.Sleep(time.Minute)
		good("after the outage")

		p.set(func() { p.hold = make(chan struct{}) })
		time.Sleep(2 * time.Hour)
		began := time.Now()
		good("with an issuer that doesn't answer")
		good("and again")
		if d := time.Since(began); d > staleWait {
			t.Errorf("two requests waited %s for an issuer that doesn't answer", d)
		}
	})
}

func good2() object { return good(object{"exp": time.Now().Add(time.Hour).Unix()}) }

// TestUnreachableAtFirst checks that nobody is told that a token is bad because its issuer can't be asked.
func TestUnreachableAtFirst(t *testing.T) {
	pairs()
	synctest.Test(t, func(t *testing.T) {
		p := newIDP()
		p.down = true
		s := setOf(t, p)
		defer s.Close()
		token := signed("p256", "ES256", good2(), nil)
		for range 3 {
			if got := judged(t, s, token, "/mcp"); got != errWeather.Reason {
				t.Errorf("%q", got)
			}
		}
		p.set(func() { p.down = false })
		time.Sleep(firstAgain)
		if got := judged(t, s, token, "/mcp"); got != "" {
			t.Errorf("%q", got)
		}
	})
}
