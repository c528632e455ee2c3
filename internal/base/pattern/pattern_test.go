package pattern

import (
	"errors"
	"regexp/syntax"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// real returns the number of instructions to which package regexp compiles expr.
func real(t *testing.T, expr string) int {
	t.Helper()
	tree, err := syntax.Parse(expr, syntax.Perl)
	if err != nil {
		t.Fatal(err)
	}
	prog, err := syntax.Compile(tree.Simplify())
	if err != nil {
		t.Fatal(err)
	}
	return len(prog.Inst)
}

var accepted = []string{
	"", "a", "^[a-z]+$", `\d{4}-\d{2}-\d{2}`, "(a|b|cd|[e-g])*?x", "(?i)hello", "(?s).{0,900}", "(a{2,5}){3}", "a{3,}", "a{0}", "a{0,}", "(){0,}", "(?:a*)*",
	"(?:|a)*", `^(?:[\w.+-]+)@(?:[\w-]+\.)+\w{2,}$`, `\pL+`, "()", "a??b+?", "(?:(?:a?)?)?", strings.Repeat("a", 1500), "(?i)k{2,3}", "[^a]", "$|^",
	"x{100,200}", "(?:ab){1,1}", "(?:ab){0,1}", "(?:a|b)+", "abc|abd|xyz",
}

func TestSizeIsAtLeastTheProgram(t *testing.T) {
	for _, expr := range accepted {
		p, err := Compile(expr)
		if err != nil {
			t.Errorf("%.40q: %v", expr, err)
			continue
		}
		if n := real(t, expr); p.Size() < n || p.Size() > 4*n+40 {
			t.Errorf("%.40q has the size %d, and the program has %d instructions", expr, p.Size(), n)
		}
	}
}

func FuzzSizeIsAtLeastTheProgram(f *testing.F) {
	for _, expr := range accepted {
		f.Add(expr)
	}
	f.Fuzz(func(t *testing.T, expr string) {
		if p, err := Compile(expr); err == nil && p.Size() < real(t, expr) {
			t.Errorf("%q has the size %d, and the program has %d instructions", expr, p.Size(), real(t, expr))
		}
	})
}

func TestCompileRefuses(t *testing.T) {
	for _, expr := range []string{
		"(?s)" + strings.Repeat("(?:.{0,999})", 70) + "b",
		"(?:(?:x{10}){10}){10}" + strings.Repeat("x{1000}", 3),
		strings.Repeat(`[\pL\pN]`, 400),
		strings.Repeat("a", MaxBytes+1),
		strings.Repeat("a", MaxSize),
	} {
		if _, err := Compile(expr); !errors.Is(err, ErrTooLarge) {
			t.Errorf("%.40q: %v", expr, err)
		}
	}
	var bad *syntax.Error
	if _, err := Compile("("); !errors.As(err, &bad) {
		t.Errorf("an invalid expression: %v", err)
	}
}

// TestCompileBuildsNothingThatItRefuses counts allocations, because Compile must refuse an
// expression before it builds the program for it.
func TestCompileBuildsNothingThatItRefuses(t *testing.T) {
	expr := strings.Repeat("(?:.{0,999})", 70)
	if n := testing.AllocsPerRun(5, func() { _, _ = Compile(expr) }); n > 2000 {
		t.Errorf("the refusal takes %v allocations", n)
	}
}

func TestCost(t *testing.T) {
	p, err := Compile("abc")
	if err != nil {
		t.Fatal(err)
	}
	if p.Cost(0) != int64(p.Size()) || p.Cost(99) != 100*int64(p.Size()) || !p.Regexp().MatchString("xabcx") {
		t.Error(p.Size(), p.Cost(0), p.Cost(99))
	}
}

func TestBudget(t *testing.T) {
	var b Budget
	if b.Take(1) {
		t.Error("the zero value is not empty")
	}
	b.Set(100)
	if b.Take(101) || !b.Take(60) || b.Take(41) || !b.Take(40) || b.Take(1) || !b.Take(0) {
		t.Error("the budget counts wrong")
	}
	b.Set(1000)
	var taken atomic.Int64
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 300 {
				if b.Take(1) {
					taken.Add(1)
				}
			}
		})
	}
	wg.Wait()
	if taken.Load() != 1000 {
		t.Errorf("%d steps were taken of 1000", taken.Load())
	}
}
